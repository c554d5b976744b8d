"""Fields of a conditional distribution, given some coordinates.

∇log p_σ(x | known) = ∇log p_σ(x) + ∇log p(known | x). The second term is taken as if the data were
normal with its covariance C: x₀ given x has the covariance C − C(C + σ²I)⁻¹C, and moves with x by
C(C + σ²I)⁻¹; its mean is the fields' own, x + σ²∇log p_σ(x). For normal data that is exact.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bellman_diffusion.fields.base import (
    AbstractField,
    AbstractNoiseField,
    Point,
    PointFields,
    RandomKey,
    Scalar,
)
from bellman_diffusion.fields.noise_conditional import NoiseConditionalPair

# Of σ² or 1: keeps the covariance of what is known invertible where columns are copies of each other.
_LEAST = 1e-3


class GuidedPair(AbstractNoiseField):
    """A noise-conditional pair given values of some coordinates (NaN for the others)."""

    pair: NoiseConditionalPair
    values: Point

    sigma_min: float = eqx.field(static=True)
    sigma_max: float = eqx.field(static=True)

    @classmethod
    def create(cls, pair: NoiseConditionalPair, values: Point) -> "GuidedPair":
        """The pair given these values."""
        return cls(pair=pair, values=values, sigma_min=pair.sigma_min, sigma_max=pair.sigma_max)

    def start(self, key: RandomKey) -> Point:
        """A point at the largest noise level, of the normal distribution given the known values."""
        pair = self.pair
        key_data, key_noise = jax.random.split(key)
        x = pair.axes @ (jnp.sqrt(pair.variances) * jax.random.normal(key_data, self.values.shape))
        covariance = (pair.axes * pair.variances) @ pair.axes.T
        # Matheron's rule: a joint draw, moved by what it misses of the known values.
        x = x + covariance @ self._solve(covariance, self.values - x, _LEAST)
        return x + self.sigma_max * jax.random.normal(key_noise, x.shape)

    def _solve(
        self, covariance: Float[Array, "dim dim"], missed: Point, least: Scalar | float
    ) -> Point:
        """The inverse of the known coordinates' covariance on what they miss; zero for the others."""
        known = jnp.isfinite(self.values)
        both = known[:, None] & known[None, :]
        matrix = jnp.where(both, covariance, 0.0) + jnp.diag(jnp.where(known, least, 1.0))
        return jnp.linalg.solve(matrix, jnp.where(known, missed, 0.0))

    def guidance(self, x: Point, score: Point, sigma: Scalar) -> Point:
        """∇log N(known; mean of x₀ given x, its covariance)."""
        variance = sigma**2
        shrinkage = self.pair.variances / (self.pair.variances + variance)
        moves = (self.pair.axes * shrinkage) @ self.pair.axes.T
        missed = self.values - (x + variance * score)
        return moves @ self._solve(variance * moves, missed, _LEAST * variance)

    def at(self, sigma: Scalar | float) -> "GuidedAtNoise":
        """The fields at one noise level."""
        return GuidedAtNoise(self, jnp.asarray(sigma, jnp.float32))


class GuidedAtNoise(AbstractField):
    """A guided pair held at one σ."""

    guided: GuidedPair
    sigma: Scalar

    def scalar_and_gradient(self, x: Point) -> PointFields:
        """s as it is, and g with the score given the known values."""
        s, g, score = self.guided.pair.at(self.sigma).fields_and_score(x)
        return s, g + 0.5 * s * self.guided.guidance(x, score, self.sigma)

    def score(self, x: Point) -> Point:
        """Of the distribution given the known values."""
        score = self.guided.pair.at(self.sigma).score(x)
        return score + self.guided.guidance(x, score, self.sigma)
