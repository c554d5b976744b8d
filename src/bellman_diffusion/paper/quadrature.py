"""Field divergences and losses of random fields on a mixture in the plane, by quadrature."""

from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from bellman_diffusion.fields import AbstractField

Density = Callable[[Float[Array, " dim"]], Float[Array, ""]]
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


def divergences(other: Density) -> tuple[Array, Array]:
    """D_grad and D_id between the target and another density."""
    gradient = _mean(lambda x: jnp.sum((jax.grad(density)(x) - jax.grad(other)(x)) ** 2))
    return gradient, _mean(lambda x: (density(x) - other(x)) ** 2)


def moved(x: Float[Array, " dim"], shift: float, variance: float) -> Float[Array, ""]:
    """The target moved and widened."""
    return density(x - shift, variance)


def mixed(x: Float[Array, " dim"], share: float) -> Float[Array, ""]:
    """The target mixed with itself moved: p + tδ with δ of mass 0."""
    return density(x) + share * (density(x - 0.5) - density(x))


def density(x: Float[Array, " dim"], variance: Float[Array, ""] | float = 0.0) -> Float[Array, ""]:
    """The target smoothed by N(0, variance)."""
    total = _DEVIATION**2 + variance
    square = jnp.sum((x - jnp.asarray(_MEANS)) ** 2, axis=1)
    return jnp.mean(jnp.exp(-0.5 * square / total)) / (2 * jnp.pi * total)


def projected_kernel(x: Float[Array, " dim"], epsilon: float) -> Float[Array, ""]:
    """Mean over Rademacher w of the density of w·(x₂ − x), smoothed by ε: Algorithm 1's p."""
    total = 2 * _DEVIATION**2 + epsilon
    found = []
    for w in ((1.0, 1.0), (1.0, -1.0)):
        gap = (jnp.asarray(_MEANS) - x) @ jnp.asarray(w)
        found.append(jnp.mean(jnp.exp(-0.5 * gap**2 / total)) / jnp.sqrt(2 * jnp.pi * total))
    return (found[0] + found[1]) / 2


def _grid() -> tuple[Float[Array, "n 2"], float]:
    axis = jnp.linspace(-_EXTENT, _EXTENT, _N_GRID)
    points = jnp.stack(jnp.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    return points, (2 * _EXTENT / (_N_GRID - 1)) ** 2


def _mean(function: Any) -> Float[Array, ""]:
    """E over the target, by the trapezoidal rule, which is exact to rounding for such functions."""
    points, cell = _grid()
    return jnp.sum(jax.vmap(density)(points) * jax.vmap(function)(points)) * cell


@eqx.filter_jit
def explicit_losses(field: BumpField) -> tuple[Array, Array]:
    """E|∇p − g|² and E(p − s)², which need the density."""
    gradient = _mean(lambda x: jnp.sum((jax.grad(density)(x) - field.gradient(x)) ** 2))
    return gradient, _mean(lambda x: (density(x) - field.scalar(x)) ** 2)


@eqx.filter_jit
def tractable_losses(field: BumpField, epsilon: float) -> tuple[Array, Array]:
    """Proposition 3.1: E[|g|² + tr ∇g κ] and E[s² − 2sκ], κ of variance ε."""
    return _with_kernel(field, partial(density, variance=epsilon))


@eqx.filter_jit
def projected_losses(field: BumpField, epsilon: float) -> tuple[Array, Array]:
    """The same with the kernel on projections, as in the boxed losses."""
    return _with_kernel(field, partial(projected_kernel, epsilon=epsilon))


def _with_kernel(field: BumpField, rho: Any) -> tuple[Array, Array]:
    def gradient(x):
        trace = jnp.trace(jax.jacfwd(field.gradient)(x))
        return jnp.sum(field.gradient(x) ** 2) + trace * rho(x)

    return _mean(gradient), _mean(lambda x: field.scalar(x) ** 2 - 2 * field.scalar(x) * rho(x))


@eqx.filter_jit
def sliced_gradient_loss(
    field: BumpField, epsilon: float, slices: Float[Array, "slices 2"]
) -> Float[Array, ""]:
    """Proposition 3.2: E[(v·g)² + vᵀ∇g v κ], over drawn v."""
    second = slices.T @ slices / slices.shape[0]

    def gradient(x):
        g, jacobian = field.gradient(x), jax.jacfwd(field.gradient)(x)
        return g @ second @ g + jnp.sum(jacobian * second) * density(x, epsilon)

    return _mean(gradient)
