"""Annealed dynamics with some coordinates known: draws of the others given them.

The score of p(free | known) is the joint score's free part. So at each noise level the known
coordinates are set to their values plus fresh noise of that level, and the free ones take steps of the
annealed dynamics. The noise on the known values makes each level's law a mixture over what could have
been known; the steps at the small levels take that out, so it needs more of them than sampling does.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from bellman_diffusion.dynamics.annealed import Annealed
from bellman_diffusion.dynamics.base import AbstractDynamics, Info


class ConditionedState(NamedTuple):
    """Where the paths are, what is known of them (NaN where free), and the level."""

    position: Float[Array, "paths dim"]
    values: Float[Array, "paths dim"]
    level: Int[Array, ""]


class Conditioned(AbstractDynamics[ConditionedState]):
    """Paths start at rows with NaN where a coordinate is free, and end with all coordinates filled."""

    annealed: Annealed
    start_factor: Float[Array, "dim dim"]
    """A square root of the covariance of the law that free coordinates start from."""
    n_steps: int = eqx.field(static=True)
    n_corrections: int = eqx.field(static=True, default=8)

    def init(self, position: Float[Array, "paths dim"]) -> ConditionedState:
        """Rows with NaN where they are free."""
        return ConditionedState(position, position, jnp.asarray(0))

    def step(self, key: Key[Array, ""], state: ConditionedState) -> tuple[ConditionedState, Info]:
        """Correct and move on, the known coordinates held at their values plus noise."""
        key_start, key_last, key_steps = jax.random.split(key, 3)
        sigma = self.annealed.sigmas()[state.level]
        known = jnp.isfinite(state.values)

        def hold(key, x):
            noise = jax.random.normal(key, x.shape)
            return jnp.where(known, state.values + sigma * noise, x)

        def correct(x, key):
            key_hold, key_move = jax.random.split(key)
            return self.annealed.correct(key_move, hold(key_hold, x), sigma), None

        start = jax.random.normal(key_start, state.values.shape) @ self.start_factor.T
        x = jnp.where(state.level == 0, start, state.position)
        x, _ = jax.lax.scan(correct, x, jax.random.split(key_steps, self.n_corrections))
        x = self.annealed.move_on(hold(key_last, x), state.level)
        x = jnp.where(known, state.values, x)
        return ConditionedState(x, state.values, state.level + 1), Info(jnp.ones(len(x), bool))
