"""A pair of fields conditioned on the noise level σ, for denoising and annealing.

One network with two heads. Its outputs are scaled by what the fields of a standard normal would be
at that σ (`FieldScale`), so the network works with numbers of order one at every noise level, and
what is known in advance is added: the score of a normal distribution with the data's covariance C.

    s(x; σ) = c_σ · softplus(u),    g(x; σ) = c_σ/(2σ) · f − s/2 · (C + σ²I)⁻¹x,
    (u, f) = MLP(features(x, σ)).

So the network learns what is not normal about the data: with few rows it starts from a good guess, and
where columns depend on each other almost exactly it need not learn that.

Fourier features of x let the network draw edges that are sharp at the smallest σ: along random
directions, or along each axis, from slow ones to those that tell the points of a grid apart.
"""

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bellman_diffusion import gaussian
from bellman_diffusion.fields.base import (
    AbstractField,
    AbstractNoiseField,
    Point,
    PointFields,
    RandomKey,
    Scalar,
)
from bellman_diffusion.fields.networks import mlp

_N_SIGMA_FREQUENCIES = 8
# Of features along the axes, in radians to a standard deviation.
_SLOWEST, _FASTEST = 1.0, 24.0

FourierFeatures = Literal["random", "axes"]


class FieldScale(eqx.Module):
    """c_σ: the size of ρ_σ for standardised data, N(0; base + growth · σ²) in `rank` dimensions.

    `rank` is 1 for a kernel of projections and D for an isotropic one.
    """

    rank: int = eqx.field(static=True)
    base: float = eqx.field(static=True)
    growth: float = eqx.field(static=True)

    def __call__(self, sigma: Float[Array, "*n"] | float) -> Float[Array, "*n"]:
        """The scale at each noise level."""
        return gaussian.peak(self.base + self.growth * jnp.asarray(sigma) ** 2, self.rank)


class NoiseConditionalPair(AbstractNoiseField):
    """s(x; σ) and g(x; σ) for σ in [sigma_min, sigma_max], on standardised data."""

    network: eqx.nn.MLP
    x_frequencies: Float[Array, "features dim"]
    sigma_frequencies: Float[Array, " sigma_features"]
    axes: Float[Array, "dim dim"]
    """The eigenvectors of the data's covariance, as columns."""
    variances: Point
    """Its eigenvalues."""
    scale: FieldScale
    sigma_min: float = eqx.field(static=True)
    sigma_max: float = eqx.field(static=True)

    @classmethod
    def create(
        cls,
        key: RandomKey,
        covariance: Float[Array, "dim dim"],
        scale: FieldScale,
        *,
        sigma_min: float = 0.01,
        sigma_max: float = 3.0,
        width: int = 128,
        depth: int = 3,
        n_frequencies: int = 16,
        fourier_features: FourierFeatures = "random",
    ) -> "NoiseConditionalPair":
        """A random network with `depth` hidden layers of `width` units."""
        dim = covariance.shape[0]
        variances, axes = jnp.linalg.eigh(covariance)
        key_net, key_x, key_sigma = jax.random.split(key, 3)
        x_frequencies = _frequencies(key_x, n_frequencies, dim, fourier_features)
        n_features = dim + 2 * len(x_frequencies) + 2 * _N_SIGMA_FREQUENCIES
        return cls(
            network=mlp(key_net, n_features, 1 + dim, width, depth),
            x_frequencies=x_frequencies,
            sigma_frequencies=jax.random.normal(key_sigma, (_N_SIGMA_FREQUENCIES,)),
            axes=axes,
            # Rounding leaves an eigenvalue of zero a little below it.
            variances=jnp.maximum(variances, 0),
            scale=scale,
            sigma_min=sigma_min,
            sigma_max=sigma_max,
        )

    def at(self, sigma: Scalar | float) -> "FieldAtNoise":
        """The fields at one noise level."""
        return FieldAtNoise(self, jnp.asarray(sigma, jnp.float32))

    def evaluate(self, x: Point, sigma: Scalar) -> PointFields:
        """Both fields at one point and one noise level."""
        out = self.network(self._features(x, sigma))
        scale = self.scale(sigma)
        s = scale * jax.nn.softplus(out[0])
        return s, scale / (2 * sigma) * out[1:] + 0.5 * s * self._normal_score(x, sigma)

    def _normal_score(self, x: Point, sigma: Scalar) -> Point:
        axes, variances = jax.lax.stop_gradient((self.axes, self.variances))
        return -axes @ ((axes.T @ x) / (variances + sigma**2))

    def _features(self, x: Point, sigma: Scalar) -> Float[Array, " n"]:
        # The frequencies are drawn once and not trained.
        x_frequencies, sigma_frequencies = jax.lax.stop_gradient(
            (self.x_frequencies, self.sigma_frequencies)
        )
        y = x / jnp.sqrt(1 + sigma**2)
        phase, phase_sigma = x_frequencies @ y, sigma_frequencies * jnp.log(sigma)
        # What noise of variance σ²/(1 + σ²) leaves of a wave: p_σ has no finer detail than that.
        blur = jnp.exp(-0.5 * jnp.sum(x_frequencies**2, axis=1) * sigma**2 / (1 + sigma**2))
        features = [blur * jnp.sin(phase), blur * jnp.cos(phase)]
        return jnp.concatenate([y, *features, jnp.sin(phase_sigma), jnp.cos(phase_sigma)])


def _frequencies(
    key: RandomKey, n_frequencies: int, dim: int, fourier_features: FourierFeatures
) -> Float[Array, "features dim"]:
    if fourier_features == "axes":
        along_each = jnp.geomspace(_SLOWEST, _FASTEST, n_frequencies)
        return jnp.kron(along_each[:, None], jnp.eye(dim))
    return 2.0 * jax.random.normal(key, (n_frequencies, dim)) / dim**0.5


class FieldAtNoise(AbstractField):
    """A noise-conditional pair held at one σ."""

    pair: NoiseConditionalPair
    sigma: Scalar

    def scalar_and_gradient(self, x: Point) -> PointFields:
        """Both fields of p_σ at x."""
        return self.pair.evaluate(x, self.sigma)
