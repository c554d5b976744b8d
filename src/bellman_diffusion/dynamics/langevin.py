"""Langevin dynamics dx = (g/s) dt + √2 dw: the alternative that the paper warns of (Section 3.3).

The quotient magnifies errors where s is small, so s is floored. g/s is the score only where s is
the density itself.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from bellman_diffusion.dynamics.base import AbstractDynamics, Info
from bellman_diffusion.fields import AbstractField


class LangevinState(NamedTuple):
    """Where the paths are."""

    position: Float[Array, "paths dim"]


class Langevin(AbstractDynamics[LangevinState]):
    """x ← x + g/max(s, floor) η + √(2η) z."""

    field: AbstractField
    step_size: Float[Array, ""] | float
    n_steps: int = eqx.field(static=True)
    floor: Float[Array, ""] | float = 1e-3

    def init(self, position: Float[Array, "paths dim"]) -> LangevinState:
        """Paths at `position`."""
        return LangevinState(position)

    def step(self, key: Key[Array, ""], state: LangevinState) -> tuple[LangevinState, Info]:
        """One Euler step of the Langevin equation."""
        x = state.position
        s, g = jax.vmap(self.field.scalar_and_gradient)(x)
        drift = g / jnp.maximum(s, self.floor)[:, None]
        noise = jax.random.normal(key, x.shape)
        x = x + drift * self.step_size + jnp.sqrt(2 * self.step_size) * noise
        return LangevinState(x), Info(jnp.ones(x.shape[0], bool))
