"""n-step targets from episodes in order, with n drawn anew for every row of every batch.

The Bellman equation is linear, so Σ (1 − λ)λⁿ⁻¹ (n-step backup) is a target too. Drawing n from those
weights gives an unbiased sample of it at the cost of one backup, for any return model: λ = 0 is the
one-step backup, λ = 1 the Monte-Carlo return as far as the episode was seen.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from bellman_diffusion.planning.transitions import Discount, Transitions, partial_returns

# The share of every batch that is drawn from the first rows of episodes: what most users ask about is
# where episodes start, and of all rows those are few.
_FROM_STARTS = 0.25


class TrainingRows(NamedTuple):
    """Transitions as programs take them, and what n-step targets need of their episodes."""

    observation: Float[Array, "n *shape"]
    next_observation: Float[Array, "n *shape"]
    to_end: Float[Array, "n *dim"]
    """The discounted rewards from each row to the last one that was seen of its episode."""
    left: Int[Array, " n"]
    """Rows from each to that last one."""
    terminated: Float[Array, " n"]
    starts: Int[Array, " episodes"]
    """The first rows of episodes."""

    @classmethod
    def of(
        cls,
        transitions: Transitions,
        gamma: Discount,
        starts: Int[np.ndarray, " episodes"] | None = None,
    ) -> "TrainingRows":
        """From rows in the order of their episodes; `starts` where targets are cut elsewhere too."""
        number = np.arange(len(transitions))
        last = np.flatnonzero(transitions.ended > 0)
        left = last[np.searchsorted(last, number)] - number
        return cls(
            jnp.asarray(transitions.observation),
            jnp.asarray(transitions.next_observation),
            jnp.asarray(partial_returns(transitions, gamma)[0], jnp.float32),
            jnp.asarray(left, jnp.int32),
            jnp.asarray(transitions.terminated),
            jnp.asarray(
                np.concatenate([[0], last[:-1] + 1]) if starts is None else starts, jnp.int32
            ),
        )


class Windows(NamedTuple):
    """From the observation of row `first` to the next observation of row `last`."""

    first: Int[Array, " n"]
    last: Int[Array, " n"]
    reward: Float[Array, "n *dim"]
    """The discounted sum of the rewards on the way."""
    discount: Float[Array, "n *dim"]
    """γ to the number of steps; 0 at an end."""


def draw_windows(
    key: Key[Array, ""], rows: TrainingRows, n: int, gamma: Discount, trace: float
) -> Windows:
    """n windows of as many steps as λ = `trace` says, or to where the episode was left."""
    pick, length = jax.random.split(key)
    first = jax.random.randint(pick, (n,), 0, len(rows.left))
    n_starts = int(_FROM_STARTS * n)
    again = jax.random.randint(jax.random.fold_in(pick, 1), (n_starts,), 0, len(rows.starts))
    first = first.at[:n_starts].set(rows.starts[again])
    left = rows.left[first]
    if trace == 0:
        steps = jnp.ones_like(left)
    elif trace == 1:
        steps = left + 1
    else:
        u = jax.random.uniform(length, (n,), minval=1e-12)
        # Compared as floats: many steps must not overflow an integer.
        drawn = 1 + jnp.floor(jnp.log(u) / jnp.log(trace))
        steps = jnp.minimum(drawn, left + 1).astype(jnp.int32)
    last = first + steps - 1
    # Vector returns have a discount for each component.
    n_steps, to_the_end, terminated = (
        a.reshape(n, *[1] * np.ndim(gamma))
        for a in (steps, steps == left + 1, rows.terminated[last])
    )
    discount = jnp.asarray(gamma, jnp.float32) ** n_steps
    # The returns to the end of two rows of an episode differ by the rewards between them.
    after = rows.to_end[jnp.minimum(last + 1, len(rows.left) - 1)]
    reward = rows.to_end[first] - jnp.where(to_the_end, 0.0, discount * after)
    return Windows(first, last, reward, discount * (1 - terminated))
