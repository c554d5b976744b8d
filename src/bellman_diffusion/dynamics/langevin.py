"""Langevin dynamics dx = (g/s) dt + √2 dw: the alternative that the paper warns of (Section 3.3).

The quotient magnifies errors where s is small, so s is floored. g/s is the score only where s is
the density itself.
"""

import equinox as eqx
import jax
import jax.numpy as jnp

from bellman_diffusion.dynamics.base import AbstractDynamics, Info, Paths, PathState
from bellman_diffusion.fields import AbstractField
from bellman_diffusion.fields.base import RandomKey, Scalar


class Langevin(AbstractDynamics[PathState]):
    """x ← x + g/max(s, floor) η + √(2η) z."""

    field: AbstractField
    step_size: Scalar | float
    n_steps: int = eqx.field(static=True)
    floor: Scalar | float = 1e-3

    def init(self, position: Paths) -> PathState:
        """Paths at `position`."""
        return PathState(position)

    def step(self, key: RandomKey, state: PathState) -> tuple[PathState, Info]:
        """One Euler step of the Langevin equation."""
        x = state.position
        s, g = jax.vmap(self.field.scalar_and_gradient)(x)
        drift = g / jnp.maximum(s, self.floor)[:, None]
        noise = jax.random.normal(key, x.shape)
        x = x + drift * self.step_size + jnp.sqrt(2 * self.step_size) * noise
        return PathState(x), Info(jnp.ones(x.shape[0], bool))
