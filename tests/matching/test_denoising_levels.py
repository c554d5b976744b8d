"""The noise levels of denoising, and what each of them weighs in the loss."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bellman_diffusion.fields import AbstractField, AbstractNoiseField
from bellman_diffusion.matching.denoising import DenoisingMatching
from bellman_diffusion.matching.kernels import IsotropicKernel, SlicedKernel

LOW, HIGH, EPSILON, GROWTH = 0.01, 4.0, 0.5, 2.0
# So large that the targets, of order one, are lost beside it: losses are then its square.
LARGE = 1e3


class At(AbstractField):
    """Given numbers everywhere."""

    s: jax.Array
    g: jax.Array

    def scalar_and_gradient(self, x):
        return self.s, jnp.zeros_like(x).at[0].set(self.g)


class Levels(AbstractNoiseField):
    """LARGE times the size that the fields have at σ, for levels up to a bound; 0 above it."""

    bound: jax.Array
    rank: int = eqx.field(static=True)
    sigma_min: float = eqx.field(static=True, default=LOW)
    sigma_max: float = eqx.field(static=True, default=HIGH)

    def at(self, sigma):
        # ρ_σ of standardised data at its middle: N(0; 0, 1 + ε + (1 + growth) σ²).
        size = (2 * jnp.pi * (1 + EPSILON + (1 + GROWTH) * sigma**2)) ** (-self.rank / 2)
        one = LARGE * size * (sigma <= self.bound)
        return At(one, one / (2 * sigma))


def losses(kernel, rank, bound, n=400, dim=2):
    objective = DenoisingMatching(kernel, EPSILON, GROWTH, LOW, HIGH)
    x1, x2 = jax.random.normal(jax.random.key(1), (2, n, dim))
    return objective(Levels(jnp.asarray(bound), rank), jax.random.key(0), x1, x2[:50])


@pytest.mark.parametrize(("kernel", "rank"), [(IsotropicKernel(), 2), (SlicedKernel("sphere"), 1)])
def test_an_error_of_the_fields_own_size_weighs_one_at_every_level(kernel, rank):
    """s off by c and g by c/2σ, c = LARGE · ρ_σ: both losses are LARGE², within 2 %."""
    found = losses(kernel, rank, HIGH)
    assert float(found.scalar) == pytest.approx(LARGE**2, rel=0.02)
    assert float(found.gradient) == pytest.approx(LARGE**2, rel=0.02)


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5, 0.9])
def test_levels_are_even_in_their_logarithm(share):
    """So many of them lie below low · (high/low)^share; 400 levels, one in each part of the range."""
    bound = LOW * (HIGH / LOW) ** share
    found = float(losses(IsotropicKernel(), 2, bound).scalar) / LARGE**2
    assert found == pytest.approx(share, abs=0.01)


def test_the_kernels_variance_grows_with_the_square_of_the_noise():
    """ρ of a point with itself is the kernel's peak: N(0; 0, ε + growth · σ²)."""
    objective = DenoisingMatching(IsotropicKernel(), EPSILON, GROWTH, LOW, HIGH)
    sigma = np.array([0.01, 0.3, 1.0, 4.0], np.float32)
    x = jnp.zeros((4, 2))
    s, _ = objective.targets(jax.random.key(0), x, x, x[:1], jnp.asarray(sigma))
    np.testing.assert_allclose(s, 1 / (2 * np.pi * (EPSILON + GROWTH * sigma**2)), rtol=1e-5)
