"""The last transitions of a seed's environments, in order, and n-step windows into them."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key

from bellman_diffusion.returns.models import Transition

RandomKey = Key[Array, ""]
Number = Int[Array, ""]
"""A whole number inside a program."""


class Rows(NamedTuple):
    """Steps of several environments, oldest first; JAX's arrays or the host's.

    `next_observation` is never that of a reset. `ended` marks an episode's last step, terminated or
    truncated.
    """

    observation: Any  # time env *shape
    action: Any  # time env
    reward: Any
    next_observation: Any  # time env *shape
    terminated: Any
    ended: Any


def empty_replay(
    capacity: int, n_envs: int, shape: tuple[int, ...], dtype: jnp.dtype | type
) -> Rows:
    """Room for `capacity` steps of each environment."""
    size = (capacity, n_envs)
    observation = jnp.zeros((*size, *shape), dtype)
    action = jnp.zeros(size, jnp.int32)
    numbers = jnp.zeros(size, jnp.float32)
    return Rows(observation, action, numbers, observation, numbers, numbers)


def store(replay: Rows, rows: Rows, place: Number) -> Rows:
    """Write rows at `place`, which leaves room for them."""

    def write(kept: Array, new: Array) -> Array:
        start = (place, *([0] * (kept.ndim - 1)))
        return jax.lax.dynamic_update_slice(kept, new.astype(kept.dtype), start)

    return Rows(*map(write, replay, rows))


def sample(
    replay: Rows, key: RandomKey, batch_size: int, n_step: int, gamma: float, written: Number
) -> Transition:
    """A batch of n-step transitions; `written` is how many rows were ever written.

    A window never reaches over the newest row into the oldest.
    """
    capacity, n_envs = replay.reward.shape
    size = jnp.minimum(written, capacity)
    # One draw for the two numbers; `randint` would take four.
    number = jax.random.uniform(key, (batch_size,)) * n_envs
    env = jnp.minimum(number.astype(jnp.int32), n_envs - 1)
    n_windows = size - n_step + 1
    age = jnp.minimum(((number - env) * n_windows).astype(jnp.int32), n_windows - 1)
    oldest = jnp.where(written > capacity, written % capacity, 0)
    window = (oldest + age[:, None] + jnp.arange(n_step)) % capacity
    reward, ended = (a[window, env[:, None]] for a in (replay.reward, replay.ended))
    # 1 while the episode goes on, up to and with its last step.
    alive = jnp.cumprod(jnp.concatenate([jnp.ones_like(ended[:, :1]), 1 - ended[:, :-1]], 1), 1)
    length = jnp.sum(alive, axis=1)
    total = jnp.sum(alive * reward * gamma ** jnp.arange(n_step), axis=1)
    first = window[:, 0]
    last = (first + length.astype(jnp.int32) - 1) % capacity
    return Transition(
        replay.observation[first, env].astype(jnp.float32),
        replay.action[first, env],
        total,
        replay.next_observation[last, env].astype(jnp.float32),
        gamma**length * (1 - replay.terminated[last, env]),
    )
