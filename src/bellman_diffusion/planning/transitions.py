"""Where transitions come from: a finite environment's table, or episodes of any environment."""

from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from jaxtyping import Float

from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.returns.backup import BellmanBackup
from bellman_diffusion.returns.mdp import Chain
from bellman_diffusion.returns.observations import ObservationEncoder, timed, timed_space, to_row

# A return is taken as known when what was not seen of it is discounted to this share.
_NEGLIGIBLE = 0.01


class Transitions(NamedTuple):
    """One-step transitions. `terminated` is 1 where the episode ends; truncation is not that."""

    observation: Float[np.ndarray, "n *shape"]
    reward: Float[np.ndarray, " n"]
    next_observation: Float[np.ndarray, "n *shape"]
    terminated: Float[np.ndarray, " n"]
    ended: Float[np.ndarray, " n"]
    """1 at an episode's last row, terminated or truncated; rows are in order. All 1 where they are not
    from episodes."""

    def __len__(self) -> int:
        return len(self.reward)


class Returns(NamedTuple):
    """Monte-Carlo returns that are known, and the observations they are from."""

    observation: Float[np.ndarray, "n *shape"]
    value: Float[np.ndarray, " n"]
    starts: np.ndarray
    """Which of them are an episode's first."""


def sample_chain(chain: Chain, n: int, seed: int) -> Transitions:
    """n transitions of a finite chain from states drawn uniformly."""
    rng = np.random.default_rng(seed)
    state = rng.integers(0, chain.n_states, n)
    row = chain.sampler()(state, rng)
    return Transitions(
        state[:, None].astype(np.float32),
        chain.reward[row, 0].astype(np.float32),
        chain.next_state[row][:, None].astype(np.float32),
        chain.done[row].astype(np.float32),
        np.ones(n, np.float32),
    )


def collect(
    env: gym.Env, policy: Callable[[Any], Any], n: int, seed: int, limit: int | None = None
) -> Transitions:
    """n transitions from episodes under a policy of the observation, the last one cut off.

    With a `limit` an episode ends after so many steps, and observations tell how many have passed.
    """
    space = env.observation_space if limit is None else timed_space(env.observation_space)
    shape = ObservationEncoder.for_space(
        space, env.spec.id if env.spec else "the environment"
    ).shape
    observation = np.zeros((n, *shape), np.float32)
    next_observation = np.zeros_like(observation)
    reward, terminated, ended = (np.zeros(n, np.float32) for _ in range(3))
    now, _ = env.reset(seed=seed)
    step = 0

    def row() -> Float[np.ndarray, "*shape"]:
        return to_row(space, now if limit is None else timed(now, step / limit))

    for i in range(n):
        action = policy(now)
        _check_action(env, action)
        observation[i] = row()
        now, r, stop, cut, _ = env.step(action)
        step += 1
        reward[i] = check_reward(r)
        next_observation[i] = row()
        over = stop or cut
        terminated[i], ended[i] = over if limit is not None else stop, over
        if over:
            now, _ = env.reset()
            step = 0
    ended[-1] = 1
    return Transitions(observation, reward, next_observation, terminated, ended)


def known_returns(transitions: Transitions, gamma: float) -> Returns:
    """The discounted return from each row, where the episode's end is known or too far to matter.

    From a truncated episode only rows are kept after which so many steps were seen that the unknown
    rest is discounted to nothing; with γ = 1 none is.
    """
    value, unknown = partial_returns(transitions, gamma)
    keep = unknown <= _NEGLIGIBLE
    starts = np.concatenate([[True], transitions.ended[:-1] > 0])
    return Returns(transitions.observation[keep], value[keep], starts[keep])


def partial_returns(
    transitions: Transitions, gamma: float
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """What was seen of each row's discounted return, and the discount of what was not (0 at an end)."""
    value, unknown = np.zeros(len(transitions)), np.zeros(len(transitions))
    total, rest = 0.0, 0.0
    for i in range(len(transitions) - 1, -1, -1):
        if transitions.ended[i]:
            total, rest = 0.0, float(1 - transitions.terminated[i])
        total = BellmanBackup(float(transitions.reward[i]), gamma).returns(total)
        rest *= gamma
        value[i], unknown[i] = total, rest
    return value, unknown


def _check_action(env: gym.Env, action: Any) -> None:
    if not env.action_space.contains(action):
        raise InvalidInputError(
            f"the policy returned {action!r}, which is not an action of {env.action_space}: "
            "return one of its actions"
        )


def check_reward(reward: Any) -> float:
    """A reward as a number, or an error."""
    if np.ndim(reward) != 0 or not np.isfinite(reward):
        raise InvalidInputError(f"the environment's reward {reward!r} is not a finite number")
    return float(reward)
