"""Algorithm 2: Euler–Maruyama for dx = g dt + √s dw, with constant step size η, for T steps."""

import equinox as eqx
import jax
import jax.numpy as jnp

from bellman_diffusion.dynamics.base import AbstractDynamics, Info, Paths, PathState
from bellman_diffusion.fields import AbstractField
from bellman_diffusion.fields.base import RandomKey, Scalar


class EulerMaruyama(AbstractDynamics[PathState]):
    """x ← x + g(x) η + √(s(x) η) z. Returns x(ηT)."""

    field: AbstractField
    step_size: Scalar | float
    n_steps: int = eqx.field(static=True)

    def init(self, position: Paths) -> PathState:
        """Paths at `position`."""
        return PathState(position)

    def step(self, key: RandomKey, state: PathState) -> tuple[PathState, Info]:
        """One Euler–Maruyama step."""
        position = euler_step(key, self.field, state.position, self.step_size)
        return PathState(position), Info(jnp.ones(position.shape[0], bool))


def euler_step(key: RandomKey, field: AbstractField, x: Paths, step_size: Scalar | float) -> Paths:
    """x + g η + √(s η) z for every path."""
    s, g = jax.vmap(field.scalar_and_gradient)(x)
    noise = jax.random.normal(key, x.shape)
    return x + g * step_size + jnp.sqrt(s * step_size)[:, None] * noise
