"""Distributions of vector returns: the same sums of Gaussians in D dimensions."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import stats
from jaxtyping import Array, Float, Key

from bellman_diffusion.returns.atoms import AtomicReturn
from bellman_diffusion.returns.basis import GaussianBasis

Vectors = Float[Array, "n dim"] | Float[np.ndarray, "n dim"]


class JointReturn(eqx.Module):
    """Σ_k c_k N(μ_k, σ²I) over R^D, for a batch of coefficients; `marginal(d)` has the risk figures."""

    coefficients: Float[Array, "*batch k"]
    centres: Float[Array, "k dim"]
    sigma: Float[Array, ""]

    @classmethod
    def create(cls, coefficients: Any, basis: GaussianBasis) -> "JointReturn":
        """The distributions with these coefficients."""
        return cls(
            coefficients=jnp.asarray(coefficients, jnp.float32),
            centres=jnp.asarray(basis.centres, jnp.float32),
            sigma=jnp.asarray(basis.sigma, jnp.float32),
        )

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """The shape of the batch of states."""
        return self.coefficients.shape[:-1]

    def __getitem__(self, index: Any) -> "JointReturn":
        """The distributions of some of the states."""
        return JointReturn(self.coefficients[index], self.centres, self.sigma)

    def marginal(self, d: int) -> AtomicReturn:
        """The distribution of the d-th return alone, its functions in ascending order."""
        order = jnp.argsort(self.centres[:, d])
        return AtomicReturn.of_gaussians(
            self.coefficients[..., order], self.centres[order, d], self.sigma
        )

    def pdf(self, x: Vectors) -> Float[Array, "... n"]:
        """The joint density at each row of x."""
        return self.coefficients @ self._pdf_each(x).T

    def gradient(self, x: Vectors) -> Float[Array, "... n dim"]:
        """Its gradient."""
        pull = (self.centres[None] - x[:, None]) / self.sigma**2
        return jnp.einsum("...k,nk,nkd->...nd", self.coefficients, self._pdf_each(x), pull)

    def cdf(self, x: Vectors) -> Float[Array, "... n"]:
        """P(every return ≤ x)."""
        each = jnp.prod(stats.norm.cdf(self._z(x)), axis=-1)
        return jnp.clip(self.coefficients @ each.T, 0, 1)

    def mean(self) -> Float[Array, "... dim"]:
        """The expected returns."""
        return self.coefficients @ self.centres

    def cov(self) -> Float[Array, "... dim dim"]:
        """The covariance."""
        apart = self.centres - self.mean()[..., None, :]
        spread = jnp.einsum("...k,...ki,...kj->...ij", self.coefficients, apart, apart)
        return spread + self.sigma**2 * jnp.eye(self.centres.shape[1])

    def var(self) -> Float[Array, "... dim"]:
        """Each return's variance."""
        return jnp.diagonal(self.cov(), axis1=-2, axis2=-1)

    def correlation(self) -> Float[Array, "... dim dim"]:
        """The returns' correlations, without the smoothing, which hides a part of them."""
        spread = self.cov() - self.sigma**2 * jnp.eye(self.centres.shape[1])
        deviation = jnp.sqrt(jnp.maximum(jnp.diagonal(spread, axis1=-2, axis2=-1), 1e-12))
        return spread / (deviation[..., :, None] * deviation[..., None, :])

    def sample(self, key: Key[Array, ""], n: int) -> Float[Array, "... n dim"]:
        """n vectors of each state: a function by its coefficient, then its Gaussian.

        Coefficients may dip below zero a little; those functions are not drawn.
        """
        key_which, key_noise = jax.random.split(key)
        logits = jnp.log(jnp.maximum(self.coefficients, 1e-12))
        which = jax.random.categorical(
            key_which, logits[..., None, :], shape=(*self.batch_shape, n)
        )
        noise = jax.random.normal(key_noise, (*which.shape, self.centres.shape[1]))
        return self.centres[which] + self.sigma * noise

    def _z(self, x: Vectors) -> Float[Array, "n k dim"]:
        return (jnp.asarray(x)[:, None] - self.centres[None]) / self.sigma

    def _pdf_each(self, x: Vectors) -> Float[Array, "n k"]:
        return jnp.prod(stats.norm.pdf(self._z(x)) / self.sigma, axis=-1)
