"""The two terms of the gradient loss that need g's derivatives: |g|² and tr ∇g."""

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp

from bellman_diffusion.fields import AbstractField
from bellman_diffusion.fields.base import Point, RandomKey, Scalar
from bellman_diffusion.matching.slices import SliceDistribution, draw_slices


class AbstractTrace(eqx.Module):
    """|g(x)|² and tr ∇g(x), exact or estimated, for one point."""

    @abstractmethod
    def __call__(self, field: AbstractField, key: RandomKey, x: Point) -> tuple[Scalar, Scalar]:
        """Squared norm and trace at x."""


class ExactTrace(AbstractTrace):
    """The whole Jacobian, D derivatives (Proposition 3.1)."""

    def __call__(self, field: AbstractField, key: RandomKey, x: Point) -> tuple[Scalar, Scalar]:
        """|g|² and tr ∇g without noise."""
        del key
        g = field.gradient(x)
        return jnp.sum(g**2), jnp.trace(jax.jacfwd(field.gradient)(x))


class SlicedTrace(AbstractTrace):
    """(v·g)² and vᵀ∇g v for one random direction, one derivative (Proposition 3.2)."""

    slices: SliceDistribution = eqx.field(static=True, default="rademacher")

    def __call__(self, field: AbstractField, key: RandomKey, x: Point) -> tuple[Scalar, Scalar]:
        """Unbiased estimates of |g|² and tr ∇g by one forward-mode derivative."""
        v = draw_slices(self.slices, key, 1, x.shape[0])[0]
        g, grad_g_v = jax.jvp(field.gradient, (x,), (v,))
        return jnp.dot(v, g) ** 2, jnp.dot(v, grad_g_v)
