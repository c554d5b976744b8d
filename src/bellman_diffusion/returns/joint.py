"""Distributions of vector returns: masses at vectors, for a batch of states.

As for scalar returns every figure is that of the return itself; only the density and its gradient are
those of return + N(0, σ²).
"""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import stats
from jaxtyping import Array, Float, Key

from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.returns.atoms import AtomicReturn
from bellman_diffusion.returns.basis import GaussianBasis

Vectors = Float[Array, "n dim"] | Float[np.ndarray, "n dim"]


class JointReturn(eqx.Module):
    """Σ_k m_k δ(x_k) over R^D; `marginal(d)` and `along(weights)` have the risk figures."""

    mass: Float[Array, "*batch k"]
    """Of sum 1. The coefficients of a Gaussian basis may be negative."""
    atoms: Float[Array, "*own k dim"]
    """Shared by the batch, or each state's own."""
    sigma: Float[Array, "*axes"]
    """The smoothing of the density, one for all axes or one for each."""

    @classmethod
    def create(cls, coefficients: Any, basis: GaussianBasis) -> "JointReturn":
        """The returns whose smoothing by σ has these coefficients."""
        arrays = (coefficients, basis.centres, basis.sigma)
        return cls(*(jnp.asarray(a, jnp.float32) for a in arrays))

    def __repr__(self) -> str:
        shape = " × ".join(str(n) for n in self.batch_shape)
        return f"JointReturn({f'{shape} states, ' if shape else ''}{self.dim} components)"

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """The shape of the batch of states."""
        return self.mass.shape[:-1]

    @property
    def dim(self) -> int:
        """Components of the return."""
        return self.atoms.shape[-1]

    def __getitem__(self, index: Any) -> "JointReturn":
        """The distributions of some of the states."""
        atoms = self.atoms if self.atoms.ndim == 2 else self.atoms[index]
        return JointReturn(self.mass[index], atoms, self.sigma)

    def mixture(self) -> "JointReturn":
        """One distribution: that of a state drawn from the batch, all being as likely."""
        own = jnp.broadcast_to(self.atoms, (*self.mass.shape, self.dim))
        mass = self.mass / np.prod(self.batch_shape)
        return JointReturn(mass.reshape(-1), own.reshape(-1, self.dim), self.sigma)

    def along(self, weights: Sequence[float] | np.ndarray | Array) -> AtomicReturn:
        """The distribution of w·X: a component, or any mixture of them."""
        w = jnp.asarray(weights, jnp.float32)
        if w.shape != (self.dim,):
            raise InvalidInputError(
                f"weights have the shape {w.shape}: give one for each of {self.dim} components"
            )
        at = self.atoms @ w
        order = jnp.argsort(at, axis=-1)
        mass = jnp.take_along_axis(self.mass, jnp.broadcast_to(order, self.mass.shape), -1)
        sigma = jnp.sqrt(jnp.sum((w * self.sigma) ** 2))
        return AtomicReturn.of_gaussians(mass, jnp.take_along_axis(at, order, -1), sigma)

    def marginal(self, d: int) -> AtomicReturn:
        """The distribution of the d-th component alone."""
        return self.along(np.eye(self.dim)[d])

    def pdf(self, x: Vectors) -> Float[Array, "... n"]:
        """The joint density of return + N(0, σ²) at each row of x."""
        return jnp.einsum("...k,...nk->...n", self.mass, self._pdf_each(x))

    def gradient(self, x: Vectors) -> Float[Array, "... n dim"]:
        """Its gradient."""
        pull = -self._apart(x) / self.sigma**2
        return jnp.einsum("...k,...nk,...nkd->...nd", self.mass, self._pdf_each(x), pull)

    def cdf(self, x: Vectors) -> Float[Array, "... n"]:
        """P(every component ≤ x)."""
        within = jnp.all(self._apart(x) >= 0, axis=-1)
        return jnp.clip(jnp.einsum("...k,...nk->...n", self.mass, within), 0, 1)

    def mean(self) -> Float[Array, "... dim"]:
        """The expected returns."""
        return jnp.einsum("...k,...kd->...d", self.mass, self.atoms)

    def cov(self) -> Float[Array, "... dim dim"]:
        """The covariance."""
        apart = self.atoms - self.mean()[..., None, :]
        return jnp.einsum("...k,...ki,...kj->...ij", self.mass, apart, apart)

    def var(self) -> Float[Array, "... dim"]:
        """Each component's variance."""
        return jnp.diagonal(self.cov(), axis1=-2, axis2=-1)

    def correlation(self) -> Float[Array, "... dim dim"]:
        """Between the components; 0 where one of them does not vary."""
        deviation = jnp.sqrt(jnp.maximum(self.var(), 0))
        scale = deviation[..., :, None] * deviation[..., None, :]
        return jnp.where(scale > 0, self.cov() / jnp.where(scale > 0, scale, 1), 0)

    def sample(self, key: Key[Array, ""], n: int) -> Float[Array, "... n dim"]:
        """n vectors of each state. Coefficients may dip below zero; those are not drawn."""
        logits = jnp.log(jnp.maximum(self.mass, 1e-12))
        which = jax.random.categorical(key, logits[..., None, :], shape=(*self.batch_shape, n))
        own = jnp.broadcast_to(self.atoms, (*self.mass.shape, self.dim))
        return jnp.take_along_axis(own, which[..., None], axis=-2)

    def _apart(self, x: Vectors) -> Float[Array, "... n k dim"]:
        return jnp.asarray(x)[:, None] - self.atoms[..., None, :, :]

    def _pdf_each(self, x: Vectors) -> Float[Array, "... n k"]:
        return jnp.prod(stats.norm.pdf(self._apart(x), scale=self.sigma), axis=-1)
