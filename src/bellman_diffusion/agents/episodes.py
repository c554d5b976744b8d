"""Greedy episodes of a trained agent: their returns, or one of them step by step."""

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from bellman_diffusion.agents.agent import Agent
from bellman_diffusion.agents.host_program import greedy_episodes
from bellman_diffusion.agents.jax_learner import JaxLearner
from bellman_diffusion.agents.make import make_jax_learner, make_learner
from bellman_diffusion.environments import HostEnvironments
from bellman_diffusion.environments.gymnax_env import CLASSIC, gymnax_name
from bellman_diffusion.errors import InvalidInputError

# Other episodes than those of training and of its evaluations.
_PURPOSE = 2


class Moment(NamedTuple):
    """One step of an episode."""

    frame: np.ndarray
    """(height, width, 3) of bytes."""
    observation: Any
    action: int
    """From 0 on."""
    reward: float
    terminated: bool
    """Whether the episode ends here; one that was cut off would have gone on."""


def greedy_returns(agent: Agent, episodes: int, seed: int = 0) -> Float[np.ndarray, " episodes"]:
    """Returns without discount, in the environment that the agent was trained on."""
    learner, environment = make_learner(agent.config)
    if environment.jitted is not None:
        whole = JaxLearner(learner, environment.jitted)
        run = jax.jit(partial(whole.greedy_returns, n=episodes))
        key = jax.random.key(seed)
        return np.asarray(run(key, agent.network, agent.normalisation), float)
    envs = HostEnvironments(environment.spec, learner.encoder, (seed,), episodes, _PURPOSE)
    greedy = eqx.filter_jit(jax.vmap(learner.greedy, in_axes=(None, None, 0)))
    longest = environment.spec.longest
    found = greedy_episodes(
        envs, lambda o: greedy(agent.network, agent.normalisation, jnp.asarray(o)), longest
    )
    envs.close()
    return found[0]


def play(agent: Agent, seed: int = 0, most: int = 1000) -> Iterator[Moment]:
    """One greedy episode with a picture of each step."""
    name = gymnax_name(agent.spec.env_id)
    if name is not None and name not in CLASSIC:
        yield from _play_board(agent, seed, most)
        return
    env = agent.make_env(render_mode="rgb_array")
    try:
        observation, _ = env.reset(seed=seed)
        for _ in range(most):
            picture = env.render()
            if not isinstance(picture, np.ndarray):
                raise InvalidInputError(f"{agent.spec.env_id} cannot be drawn as rgb_array")
            action, _ = agent.predict(observation)
            seen = observation
            observation, reward, stop, cut, _ = env.step(action)
            number = int(action) - agent.spec.first_action
            yield Moment(picture, seen, number, float(reward), bool(stop))
            if stop or cut:
                return
    finally:
        env.close()


def _play_board(agent: Agent, seed: int, most: int) -> Iterator[Moment]:
    """MinAtar: the observation is the picture."""
    environment = make_jax_learner(agent.config).environment
    step = eqx.filter_jit(environment.step)
    key = jax.random.key(seed)
    state, observation = environment.reset(key)
    for t in range(most):
        seen = np.asarray(observation)
        action, _ = agent.predict(seen)
        state, now = step(jax.random.fold_in(key, t), state, jnp.asarray(action, jnp.int32))
        yield Moment(_board(seen), seen, int(action), float(now.reward), bool(now.terminated))
        observation = now.observation
        if now.terminated | now.truncated:
            return


def _board(cells: np.ndarray) -> np.ndarray:
    """A colour for each channel, the later ones on top, twenty pixels a cell."""
    colours = np.array([[66, 135, 245], [240, 90, 60], [250, 200, 60], [120, 190, 120]], np.uint8)
    picture = np.full((*cells.shape[:2], 3), 25, np.uint8)
    for channel in range(cells.shape[2]):
        picture[cells[..., channel] > 0] = colours[channel % len(colours)]
    return picture.repeat(20, axis=0).repeat(20, axis=1)
