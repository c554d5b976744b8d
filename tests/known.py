"""Densities with everything known in closed form, for tests."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from bellman_diffusion.fields import AbstractNoiseField, FieldScale, KernelField


class Mixture(eqx.Module):
    """A mixture of spherical Gaussians, with its smoothed versions."""

    weights: jax.Array
    means: jax.Array
    variance: float

    def log_density(self, x, extra=0.0):
        variance = self.variance + extra
        distance = jnp.sum((x - self.means) ** 2, axis=1)
        terms = jnp.log(self.weights) - 0.5 * distance / variance
        dim = self.means.shape[1]
        return jax.nn.logsumexp(terms) - 0.5 * dim * jnp.log(2 * jnp.pi * variance)

    def density(self, x, extra=0.0):
        return jnp.exp(self.log_density(x, extra))

    def sliced(self, x, epsilon):
        """ρ of the sliced kernel with Rademacher directions, by summing over all of them."""
        dim = self.means.shape[1]
        directions = jnp.array(list(itertools.product((-1.0, 1.0), repeat=dim)))
        gap = directions @ x[:, None] - directions @ self.means.T
        variance = dim * self.variance + epsilon
        kappa = jnp.exp(-0.5 * gap**2 / variance) / jnp.sqrt(2 * jnp.pi * variance)
        return jnp.mean(kappa @ self.weights)

    @eqx.filter_jit
    def draw(self, key, n):
        key_mode, key_noise = jax.random.split(key)
        mode = jax.random.choice(key_mode, len(self.weights), (n,), p=self.weights)
        noise = jax.random.normal(key_noise, (n, self.means.shape[1]))
        return self.means[mode] + self.variance**0.5 * noise

    def rho(self, kind, epsilon):
        """ρ of one of the two kernels."""
        if kind == "isotropic":
            return lambda x: self.density(x, epsilon)
        return lambda x: self.sliced(x, epsilon)

    def field(self, rho):
        return KernelField(self.log_density, rho)


class MixtureNoiseField(AbstractNoiseField):
    """The exact fields of the smoothed mixture, with an isotropic kernel of variance 1 + σ²."""

    mixture: Mixture
    sigma_min: float = eqx.field(static=True, default=0.01)
    sigma_max: float = eqx.field(static=True, default=3.0)

    def at(self, sigma):
        return KernelField(
            lambda x: self.mixture.log_density(x, sigma**2),
            lambda x: self.mixture.density(x, 1 + 2 * sigma**2),
        )

    def scale(self):
        return FieldScale(self.mixture.means.shape[1], 2.0, 3.0)


def normal(dim, variance=1.0):
    """N(0, variance · I)."""
    return Mixture(jnp.ones(1), jnp.zeros((1, dim)), variance)


def bimodal(dim):
    """Two unequal modes; standardised roughly."""
    means = jnp.array([[-1.0] * dim, [0.8] * dim])
    return Mixture(jnp.array([0.3, 0.7]), means, 0.25)


def hermite(dim, n=None):
    """Points and weights of Gauss–Hermite quadrature for N(0, I)."""
    n = n or {1: 60, 2: 40, 5: 9}[dim]
    nodes, weights = np.polynomial.hermite_e.hermegauss(n)
    weights = weights / weights.sum()
    points = np.array(list(itertools.product(nodes, repeat=dim)))
    products = np.array(list(itertools.product(weights, repeat=dim))).prod(axis=1)
    return jnp.asarray(points), jnp.asarray(products)


def grid(dim, half_width=6.0, n=None):
    """Points and the volume of a cell, for integrals by the trapezoidal rule."""
    n = n or {1: 2001, 2: 201}[dim]
    axis = np.linspace(-half_width, half_width, n)
    points = np.stack(np.meshgrid(*[axis] * dim, indexing="ij"), axis=-1).reshape(-1, dim)
    return jnp.asarray(points, jnp.float32), float((axis[1] - axis[0]) ** dim)
