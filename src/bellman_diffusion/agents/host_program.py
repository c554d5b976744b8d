"""Chunks of the learner with environments that the host steps, for all seeds."""

import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bellman_diffusion.agents.config import AgentConfig
from bellman_diffusion.agents.learner import LearnerState, round_key
from bellman_diffusion.agents.make import make_learner
from bellman_diffusion.agents.replay import Rows, empty_replay
from bellman_diffusion.environments import HostEnvironments

# Evaluation episodes are started with other seeds than those for learning.
_EVALUATION = 1


class HostProgram:
    """The same steps as in the jitted program: act, step, keep, learn."""

    def __init__(self, config: AgentConfig, seeds: tuple[int, ...]) -> None:
        learner, environment = make_learner(config)
        c, spec = config, environment.spec
        self._learner, self._config, self._seeds = learner, c, seeds
        self._envs = HostEnvironments(spec, learner.encoder, seeds, c.n_envs)
        self._eval_envs = HostEnvironments(
            spec, learner.encoder, seeds, c.eval_episodes, _EVALUATION
        )
        self._keys = jax.vmap(jax.random.key)(np.asarray(seeds, np.uint32))
        self._memory = None
        self._jitted = _jitted(config)

    def start(self) -> tuple[LearnerState, float]:
        """The first state, and how long compiling took."""
        start = time.perf_counter()
        state = jax.jit(jax.vmap(self._learner.init))(self._keys)
        self._memory = self._envs.memory()
        state = state._replace(actors=self._memory)
        # One call of each compiles it; what they give is not used.
        copied = jax.tree.map(jnp.copy, state._replace(actors=None))
        c, shape = self._config, self._learner.encoder.shape
        rows = empty_replay(c.rows_per_round, c.n_envs, shape, jnp.float32)
        every = jax.tree.map(lambda a: np.stack([a] * len(self._seeds)), rows)
        jax.block_until_ready(self._jitted.learn(self._keys, copied, every, 0))
        acting = (state.network, state.normalisation)
        jax.block_until_ready(self._jitted.greedy(*acting, self._envs.observation))
        jax.block_until_ready(self._jitted.greedy(*acting, self._eval_envs.observation))
        jax.block_until_ready(self._jitted.exploration(self._keys, 0))
        return state, time.perf_counter() - start

    def chunk(
        self, state: LearnerState, step: int
    ) -> tuple[LearnerState, dict[str, np.ndarray], np.ndarray]:
        """The next state, figures of each seed, and each seed's mean greedy return."""
        c = self._config
        if state.actors is not self._memory:
            self._envs.restore(state.actors)
        # Rounds write into the replay in place: a run that is stopped needs the state as it was.
        state = jax.tree.map(jnp.copy, state._replace(actors=None))
        first = step // c.steps_per_round
        losses, tally = [], Tally(len(self._seeds), c.n_envs)
        for round_ in range(first, first + c.rounds_per_chunk):
            rows = self._collect(state, round_, tally)
            state, loss = self._jitted.learn(self._keys, state, rows, round_)
            losses.append(loss)
        self._memory = self._envs.memory()
        figures = {
            "loss": np.mean(np.array(losses), axis=0),
            "train_return": tally.means(),
            "epsilon": np.full(len(self._seeds), float(self._learner.epsilon(jnp.asarray(step)))),
        }
        returns = self._evaluate(state, step)
        return state._replace(actors=self._memory), figures, returns

    def finish(self, state: LearnerState) -> LearnerState:
        """The state as it is."""
        return state

    def close(self) -> None:
        """Close the environments."""
        self._envs.close()
        self._eval_envs.close()

    def _collect(self, state: LearnerState, round_: int, tally: "Tally") -> Rows:
        """One round of steps: arrays over (seed, time, environment)."""
        c = self._config
        explore, others = (np.asarray(a) for a in self._jitted.exploration(self._keys, round_))
        kept: list[tuple[np.ndarray, ...]] = []
        for t in range(c.rows_per_round):
            observation = self._envs.observation.copy()
            actions = others[:, t]
            if not explore[:, t].all():
                best = np.asarray(
                    self._jitted.greedy(state.network, state.normalisation, observation)
                )
                actions = np.where(explore[:, t], actions, best)
            step = self._envs.step(actions)
            tally.add(step.reward, step.ended)
            kept.append((observation, actions, *step))
        stacked = [np.stack(column, axis=1) for column in zip(*kept, strict=True)]
        observation, action, next_observation, reward, terminated, ended = stacked
        return Rows(
            observation, action.astype(np.int32), reward, next_observation, terminated, ended
        )

    def _evaluate(self, state: LearnerState, step: int) -> np.ndarray:
        """The mean return of greedy episodes of each seed."""
        envs = self._eval_envs
        envs.start_again(step)

        def act(observation: np.ndarray) -> Any:
            return self._jitted.greedy(state.ema_network, state.normalisation, observation)

        return greedy_episodes(envs, act, envs.spec.longest).mean(axis=1)


def greedy_episodes(
    envs: HostEnvironments, act: Callable[[np.ndarray], Any], longest: int
) -> Float[np.ndarray, "seed env"]:
    """Returns without discount of one episode of each environment, of at most `longest` steps."""
    shape = envs.observation.shape[:2]
    total, over = np.zeros(shape), np.zeros(shape, bool)
    for _ in range(longest):
        if over.all():
            break
        seen = envs.step(np.asarray(act(envs.observation)))
        total += np.where(over, 0.0, seen.reward)
        over |= seen.ended > 0
    return total


class Jitted(NamedTuple):
    """The learner's functions over all seeds."""

    greedy: Any
    exploration: Any
    learn: Any


@lru_cache(maxsize=8)
def _jitted(config: AgentConfig) -> Jitted:
    """Made once for a configuration: another run of it compiles nothing."""
    learner, _ = make_learner(config)
    c = config

    def exploration(key: Array, round_: Array) -> tuple[Array, Array]:
        epsilon = learner.epsilon(round_ * c.steps_per_round)
        key, _ = jax.random.split(round_key(key, round_))
        return learner.random_actions(key, (c.rows_per_round, c.n_envs), epsilon)

    def learn(
        key: Array, state: LearnerState, rows: Rows, round_: Array
    ) -> tuple[LearnerState, Array]:
        _, key = jax.random.split(round_key(key, round_))
        state, figures = learner.learn(key, state, rows, round_)
        return state, figures["loss"]

    return Jitted(
        greedy=eqx.filter_jit(jax.vmap(learner.greedy)),
        exploration=jax.jit(jax.vmap(exploration, in_axes=(0, None))),
        learn=jax.jit(jax.vmap(learn, in_axes=(0, 0, 0, None)), donate_argnums=1),
    )


class Tally:
    """Returns of the episodes that ended during training, a mean for each seed."""

    def __init__(self, n_seeds: int, n_envs: int) -> None:
        self._running = np.zeros((n_seeds, n_envs))
        self._sum, self._count = np.zeros(n_seeds), np.zeros(n_seeds)

    def add(self, reward: np.ndarray, ended: np.ndarray) -> None:
        """One step of every environment."""
        self._running += reward
        over = ended > 0
        self._sum += np.where(over, self._running, 0).sum(axis=1)
        self._count += over.sum(axis=1)
        self._running[over] = 0

    def means(self) -> np.ndarray:
        """NaN where no episode ended."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return self._sum / np.where(self._count, self._count, np.nan)
