"""Annealed dynamics: the same SDE at falling noise levels σ_max → σ_min.

At each level the paths take `n_corrections` steps of dx = g_σ dt + √s_σ dw, which leaves p_σ as it
is. With `transport` they are then carried to the next level along dx/dσ = −σ ∇log p_σ(x), the flow
that turns p_σ into p_σ', by one Heun step with the score (2g − ∇s)/s. Without it the paths only
relax at each level and lag behind; that is plain annealing.

The step size follows the level, η_σ = step_factor · σ²/s̄_σ, so that a step moves a path by about
√step_factor · σ wherever it is. After the last level the transport takes the remaining noise off:
x + σ² ∇log p_σ(x) = E[x₀|x]. Large factors put too much mass into thin regions.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from bellman_diffusion.dynamics.base import AbstractDynamics, Info, Paths
from bellman_diffusion.dynamics.euler_maruyama import euler_step
from bellman_diffusion.fields import AbstractNoiseField, FieldScale
from bellman_diffusion.fields.base import RandomKey, Scalar


class AnnealedState(NamedTuple):
    """Where the paths are and at which level."""

    position: Paths
    level: Int[Array, ""]


class Annealed(AbstractDynamics[AnnealedState]):
    """One step is one noise level: corrections, then transport to the next level."""

    field: AbstractNoiseField
    scale: FieldScale
    n_steps: int = eqx.field(static=True)
    n_corrections: int = eqx.field(static=True, default=1)
    step_factor: float = eqx.field(static=True, default=0.1)
    transport: bool = eqx.field(static=True, default=True)

    def sigmas(self) -> Float[Array, " levels"]:
        """The noise level of each step, falling geometrically."""
        return jnp.geomspace(self.field.sigma_max, self.field.sigma_min, self.n_steps)

    def init(self, position: Paths) -> AnnealedState:
        """Paths at `position`, which should follow p at σ_max."""
        return AnnealedState(position, jnp.asarray(0))

    def step(self, key: RandomKey, state: AnnealedState) -> tuple[AnnealedState, Info]:
        """Correct at this level, then move to the next; after the last, take the noise off."""
        sigmas = self.sigmas()
        sigma, next_sigma = sigmas[state.level], sigmas[state.level + 1]
        x = self._correct(key, state.position, sigma)
        if self.transport:
            x = jax.lax.cond(
                state.level < self.n_steps - 1,
                lambda x: self._transport(x, sigma, next_sigma),
                lambda x: x + sigma**2 * self._score(x, sigma),
                x,
            )
        return AnnealedState(x, state.level + 1), Info(jnp.ones(x.shape[0], bool))

    def _correct(self, key: RandomKey, x: Paths, sigma: Scalar) -> Paths:
        step_size = self.step_factor * sigma**2 / self.scale(sigma)
        field = self.field.at(sigma)
        keys = jax.random.split(key, self.n_corrections)
        return jax.lax.scan(lambda x, k: (euler_step(k, field, x, step_size), None), x, keys)[0]

    def _transport(self, x: Paths, sigma: Scalar, next_sigma: Scalar) -> Paths:
        # Heun's step for dx/dσ = −σ score, in σ.
        change = next_sigma - sigma
        slope = -sigma * self._score(x, sigma)
        ahead = x + change * slope
        slope_ahead = -next_sigma * self._score(ahead, next_sigma)
        return x + 0.5 * change * (slope + slope_ahead)

    def _score(self, x: Paths, sigma: Scalar) -> Paths:
        return jax.vmap(self.field.at(sigma).score)(x)
