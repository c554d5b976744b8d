"""The kernel κ(x₂ − x₁) that stands in for Dirac's δ, and its mean ρ(x) = E[κ(x₂ − x)].

Every ρ > 0 leaves the sampler's target exact (see docs/mathematics.md), so the kernel is a choice of
design. Both kernels work on a batch of first points and either pair each with one second point
(`matched`, the paper's Algorithm 1) or with all of them (`all_pairs`, one matrix product).
"""

from abc import abstractmethod

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from bellman_diffusion import gaussian
from bellman_diffusion.fields.base import RandomKey
from bellman_diffusion.matching.base import Batch, BatchValues, Others
from bellman_diffusion.matching.slices import SliceDistribution, draw_slices


class AbstractKernel(eqx.Module):
    """A Gaussian kernel of a stated variance (the paper's ε)."""

    @abstractmethod
    def rank(self, dim: int) -> int:
        """In how many dimensions the kernel is a density."""

    @abstractmethod
    def matched(self, key: RandomKey, x1: Batch, x2: Batch, variance: float) -> BatchValues:
        """κ(x2ᵢ − x1ᵢ) for each i, with a direction of its own where the kernel has one."""

    @abstractmethod
    def all_pairs(
        self, key: RandomKey, x1: Batch, x2: Others, variance: BatchValues
    ) -> tuple[BatchValues, Batch]:
        """ρ(x1ᵢ) estimated by the mean over all x2, and its gradient with respect to x1ᵢ."""


class IsotropicKernel(AbstractKernel):
    """κ(d) = N(d; 0, εI). Its ρ is the data density smoothed by the kernel: a density."""

    def rank(self, dim: int) -> int:
        """A density in all dimensions."""
        return dim

    def matched(self, key: RandomKey, x1: Batch, x2: Batch, variance: float) -> BatchValues:
        """N(x2ᵢ − x1ᵢ; 0, εI)."""
        del key
        return gaussian.density(jnp.sum((x2 - x1) ** 2, axis=1), variance, x1.shape[1])

    def all_pairs(
        self, key: RandomKey, x1: Batch, x2: Others, variance: BatchValues
    ) -> tuple[BatchValues, Batch]:
        """The kernel density estimate from x2, and its gradient."""
        del key
        # Not |a|² + |b|² − 2a·b: that loses the small distances to rounding.
        distance = jnp.sum((x2[None] - x1[:, None]) ** 2, axis=2)
        kappa = gaussian.density(distance, variance[:, None], x1.shape[1]) / x2.shape[0]
        rho = jnp.sum(kappa, axis=1)
        return rho, (kappa @ x2 - rho[:, None] * x1) / variance[:, None]


class SlicedKernel(AbstractKernel):
    """κ(d) = N(w·d; 0, ε) for a random direction w. Its ρ is *not* a density of x.

    It is the mean, over directions, of the density of the projection, and never gets as tiny as a
    density does in high dimension. With `unit` the directions have length 1 on average instead of
    √D, so that ε means the same in every dimension.
    """

    slices: SliceDistribution = eqx.field(static=True, default="rademacher")
    unit: bool = eqx.field(static=True, default=False)

    def rank(self, dim: int) -> int:
        """A density in the one dimension of the projection."""
        del dim
        return 1

    def _directions(self, key: RandomKey, n: int, dim: int) -> Float[Array, "n dim"]:
        return draw_slices(self.slices, key, n, dim) / (dim**0.5 if self.unit else 1.0)

    def matched(self, key: RandomKey, x1: Batch, x2: Batch, variance: float) -> BatchValues:
        """N(wᵢ·(x2ᵢ − x1ᵢ); 0, ε)."""
        w = self._directions(key, *x1.shape)
        return gaussian.density(jnp.sum(w * (x2 - x1), axis=1) ** 2, variance, 1)

    def all_pairs(
        self, key: RandomKey, x1: Batch, x2: Others, variance: BatchValues
    ) -> tuple[BatchValues, Batch]:
        """The density of x2's projection on wᵢ, at wᵢ·x1ᵢ, and its gradient along wᵢ."""
        w = self._directions(key, *x1.shape)
        gap = w @ x2.T - jnp.sum(w * x1, axis=1, keepdims=True)
        kappa = gaussian.density(gap**2, variance[:, None], 1)
        slope = jnp.mean(kappa * gap, axis=1) / variance
        return jnp.mean(kappa, axis=1), slope[:, None] * w
