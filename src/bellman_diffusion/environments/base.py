"""What the learner needs of an environment, and the jitted kind.

Termination and truncation are two flags everywhere: a terminated episode has no future, a truncated
one has, and its last observation is handed on.
"""

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import equinox as eqx
import gymnasium as gym
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

# For environments without a time limit of their own.
_LONGEST = 1000


@dataclass(frozen=True)
class EnvSpec:
    """What is known of an environment without stepping it."""

    env_id: str
    observation_space: gym.Space = field(hash=False)
    n_actions: int
    first_action: int = 0
    time_limit: int | None = None
    """Steps after which an episode is truncated."""
    solved_at: float | None = None
    """The mean return that counts as solved."""
    options: dict[str, Any] = field(default_factory=dict, hash=False)

    @property
    def longest(self) -> int:
        """Steps after which an evaluation episode is cut off: a greedy policy may walk in circles."""
        return self.time_limit or _LONGEST


class Step(NamedTuple):
    """What one step of one environment gives; the observation is the one reached, never a reset's."""

    observation: Float[Array, "*shape"]
    reward: Float[Array, ""]
    terminated: Bool[Array, ""]
    truncated: Bool[Array, ""]


class EnvState(NamedTuple):
    """The simulator's state and the steps since the reset."""

    inner: Any
    time: Int[Array, ""]


class JaxEnvironment(eqx.Module):
    """An environment that runs inside a jitted program: pure functions of one environment's state."""

    spec: eqx.AbstractVar[EnvSpec]

    @abstractmethod
    def initial(self, key: Key[Array, ""]) -> tuple[Any, Float[Array, "*shape"]]:
        """A start of the simulator, and what is seen of it."""

    @abstractmethod
    def advance(
        self, key: Key[Array, ""], inner: Any, action: Int[Array, ""]
    ) -> tuple[Any, Float[Array, "*shape"], Float[Array, ""], Bool[Array, ""]]:
        """(state, observation, reward, terminated) after an action; no time limit, no reset."""

    def reset(self, key: Key[Array, ""]) -> tuple[EnvState, Float[Array, "*shape"]]:
        """Start an episode."""
        inner, observation = self.initial(key)
        return EnvState(inner, jnp.zeros((), jnp.int32)), observation

    def step(
        self, key: Key[Array, ""], state: EnvState, action: Int[Array, ""]
    ) -> tuple[EnvState, Step]:
        """One step, with the time limit."""
        inner, observation, reward, terminated = self.advance(key, state.inner, action)
        time = state.time + 1
        limit = self.spec.time_limit
        over = jnp.asarray(False) if limit is None else time >= limit
        truncated = over & ~terminated
        step = Step(observation, jnp.asarray(reward, jnp.float32), terminated, truncated)
        return EnvState(inner, time), step
