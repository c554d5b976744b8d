"""Algorithm 2: Euler–Maruyama for dx = g dt + √s dw, with constant step size η, for T steps."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from bellman_diffusion.dynamics.base import AbstractDynamics, Info
from bellman_diffusion.fields import AbstractField


class EulerState(NamedTuple):
    """Where the paths are."""

    position: Float[Array, "paths dim"]


class EulerMaruyama(AbstractDynamics[EulerState]):
    """x ← x + g(x) η + √(s(x) η) z. Returns x(ηT)."""

    field: AbstractField
    step_size: Float[Array, ""] | float
    n_steps: int = eqx.field(static=True)

    def init(self, position: Float[Array, "paths dim"]) -> EulerState:
        """Paths at `position`."""
        return EulerState(position)

    def step(self, key: Key[Array, ""], state: EulerState) -> tuple[EulerState, Info]:
        """One Euler–Maruyama step."""
        position = euler_step(key, self.field, state.position, self.step_size)
        return EulerState(position), Info(jnp.ones(position.shape[0], bool))


def euler_step(
    key: Key[Array, ""],
    field: AbstractField,
    x: Float[Array, "paths dim"],
    step_size: Float[Array, ""] | float,
) -> Float[Array, "paths dim"]:
    """x + g η + √(s η) z for every path."""
    s, g = jax.vmap(field.scalar_and_gradient)(x)
    noise = jax.random.normal(key, x.shape)
    return x + g * step_size + jnp.sqrt(s * step_size)[:, None] * noise
