"""Return distributions as sums of Gaussians: every figure is a closed form."""

from typing import Any

import jax.numpy as jnp
from jax.scipy import stats
from jaxtyping import Array, Float

from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.returns.basis import GaussianBasis
from bellman_diffusion.returns.distribution import Points, ReturnDistribution

# Beyond the outermost centres there are only the tails of its outermost functions.
_TAIL = 6.0


class MixtureReturn(ReturnDistribution):
    """Σ_k c_k N(μ_k, σ²), for a batch of coefficients.

    Also C51's distribution: its atoms are the centres, and σ is what it is smoothed by when shown.
    """

    coefficients: Float[Array, "*batch k"]
    centres: Float[Array, "*own k"]
    """Shared by the batch, or each state's own; as the width is."""
    sigma: Float[Array, "*own_width"]

    @classmethod
    def create(cls, coefficients: Any, basis: GaussianBasis) -> "MixtureReturn":
        """The distributions with these coefficients over a one-dimensional basis."""
        if basis.dim != 1:
            raise InvalidInputError("the return is a vector: use JointReturn")
        return cls(
            coefficients=jnp.asarray(coefficients, jnp.float32),
            centres=jnp.asarray(basis.centres[:, 0], jnp.float32),
            sigma=jnp.asarray(basis.sigma, jnp.float32),
        )

    @property
    def low(self) -> Float[Array, ""]:
        """Where the tails begin to vanish."""
        return self.centres.min() - _TAIL * self.sigma.max()

    @property
    def high(self) -> Float[Array, ""]:
        """Where the tails have vanished."""
        return self.centres.max() + _TAIL * self.sigma.max()

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """The shape of the batch of states."""
        return self.coefficients.shape[:-1]

    def __getitem__(self, index: Any) -> "MixtureReturn":
        """The distributions of some of the states."""
        if not self.batch_shape:
            raise InvalidInputError(
                "this is the distribution of one state: there is nothing to choose from"
            )
        centres = self.centres if self.centres.ndim == 1 else self.centres[index]
        sigma = self.sigma if self.sigma.ndim == 0 else self.sigma[index]
        return MixtureReturn(self.coefficients[index], centres, sigma)

    def pdf(self, x: Points) -> Float[Array, "..."]:
        """Σ c_k N(x; μ_k, σ²)."""
        return self._sum(stats.norm.pdf(self._z(x)) / self._width())

    def gradient(self, x: Points) -> Float[Array, "..."]:
        """Σ c_k N(x; μ_k, σ²) (μ_k − x)/σ²."""
        z = self._z(x)
        return self._sum(-z * stats.norm.pdf(z) / self._width() ** 2)

    def cdf(self, x: Points) -> Float[Array, "..."]:
        """Σ c_k Φ((x − μ_k)/σ)."""
        return jnp.clip(self._sum(stats.norm.cdf(self._z(x))), 0, 1)

    def mean(self) -> Float[Array, "..."]:
        """Σ c_k μ_k."""
        return jnp.sum(self.coefficients * self.centres, axis=-1)

    def var(self) -> Float[Array, "..."]:
        """Σ c_k (μ_k − mean)² + σ²."""
        apart = self.centres - self.mean()[..., None]
        return jnp.sum(self.coefficients * apart**2, axis=-1) + self.sigma**2

    def _mean_below(self, x: Float[Array, "... 1"]) -> Float[Array, "... 1"]:
        z = self._z(x)
        return self._sum(self._own() * stats.norm.cdf(z) - self._width() * stats.norm.pdf(z))

    def _z(self, x: Points) -> Float[Array, "..."]:
        return (jnp.asarray(x, jnp.float32)[..., None] - self._own()) / self._width()

    def _own(self) -> Float[Array, "... k"]:
        # Points come between the batch and the functions.
        return self.centres[..., None, :]

    def _width(self) -> Float[Array, "... 1 1"]:
        return self.sigma[..., None, None]

    def _sum(self, values: Float[Array, "..."]) -> Float[Array, "..."]:
        return jnp.sum(self.coefficients[..., None, :] * values, axis=-1)
