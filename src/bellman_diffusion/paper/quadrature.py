"""Field divergences and losses of random fields on a mixture in the plane, by quadrature."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from bellman_diffusion.fields import AbstractField

Density = Callable[[Float[Array, " dim"]], Float[Array, ""]]
Gradient = Callable[[Float[Array, " dim"]], Float[Array, " dim"]]
Kernel = Callable[[Float[Array, " dim"], float], Float[Array, ""]]
_MEANS = np.array([[-1.0, 0.0], [1.0, 0.5]])
_DEVIATION = 0.6
_N_BUMPS = 5
_N_GRID = 161
_EXTENT = 4.5


class BumpField(AbstractField):
    """Sums of Gaussian bumps: smooth fields that fall off at infinity, as the propositions ask."""

    centres: Float[Array, "bumps 2"]
    heights: Float[Array, " bumps"]
    pulls: Float[Array, "bumps 2"]

    @classmethod
    def random(cls, key: Key[Array, ""]) -> "BumpField":
        """Some bumps near the data."""
        keys = jax.random.split(key, 3)
        return cls(
            1.2 * jax.random.normal(keys[0], (_N_BUMPS, 2)),
            0.2 * jax.random.normal(keys[1], (_N_BUMPS,)),
            0.2 * jax.random.normal(keys[2], (_N_BUMPS, 2)),
        )

    def scalar_and_gradient(
        self, x: Float[Array, " dim"]
    ) -> tuple[Float[Array, ""], Float[Array, " dim"]]:
        """s and g, which have nothing to do with each other."""
        weight = jnp.exp(-0.5 * jnp.sum((x - self.centres) ** 2, axis=1))
        return weight @ self.heights, weight @ self.pulls


def field_divergences(s: Density, g: Gradient) -> tuple[Array, Array]:
    """D_grad = E|∇p − g|² and D_id = E(p − s)², which need the density p of the target."""
    gradient = _mean(lambda x: jnp.sum((jax.grad(density)(x) - g(x)) ** 2))
    return gradient, _mean(lambda x: (density(x) - s(x)) ** 2)


@eqx.filter_jit
def explicit_losses(field: BumpField) -> tuple[Array, Array]:
    """The divergences of two fields."""
    return field_divergences(field.scalar, field.gradient)


@eqx.filter_jit
def tractable_losses(
    field: BumpField, kernel: Kernel, epsilon: float, second: Float[Array, "2 2"]
) -> tuple[Array, Array]:
    """Propositions 3.1 and 3.2: E[(v·g)² + vᵀ∇g v κ] and E[s² − 2sκ], κ of variance ε.

    `second` is E[vvᵀ], the identity without slices. With `projected_kernel` these are the boxed losses.
    """

    def gradient(x):
        g, jacobian = field.gradient(x), jax.jacfwd(field.gradient)(x)
        return g @ second @ g + jnp.sum(jacobian * second) * kernel(x, epsilon)

    scalar = _mean(lambda x: field.scalar(x) ** 2 - 2 * field.scalar(x) * kernel(x, epsilon))
    return _mean(gradient), scalar


def density(x: Float[Array, " dim"], variance: Float[Array, ""] | float = 0.0) -> Float[Array, ""]:
    """The target smoothed by N(0, variance)."""
    total = _DEVIATION**2 + variance
    square = jnp.sum((x - jnp.asarray(_MEANS)) ** 2, axis=1)
    return jnp.mean(jnp.exp(-0.5 * square / total)) / (2 * jnp.pi * total)


def projected_kernel(x: Float[Array, " dim"], epsilon: float) -> Float[Array, ""]:
    """Mean over Rademacher w of the density of w·(x₂ − x), smoothed by ε: Algorithm 1's p."""
    total = 2 * _DEVIATION**2 + epsilon
    gaps = (jnp.asarray(_MEANS) - x) @ jnp.array([[1.0, 1.0], [1.0, -1.0]])
    return jnp.mean(jnp.exp(-0.5 * gaps**2 / total)) / jnp.sqrt(2 * jnp.pi * total)


def _mean(function: Any) -> Float[Array, ""]:
    """E over the target, by the trapezoidal rule, which is exact to rounding for such functions."""
    axis = jnp.linspace(-_EXTENT, _EXTENT, _N_GRID)
    points = jnp.stack(jnp.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    cell = (2 * _EXTENT / (_N_GRID - 1)) ** 2
    return jnp.sum(jax.vmap(density)(points) * jax.vmap(function)(points)) * cell
