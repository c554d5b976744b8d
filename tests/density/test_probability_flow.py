"""Log-densities by the probability flow, with exact fields."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bellman_diffusion.density import log_density_by_flow
from tests.known import MixtureNoiseField, bimodal, grid


@pytest.mark.parametrize("dim", [1, 2])
def test_log_density_is_that_of_the_smoothed_mixture(dim):
    p = bimodal(dim)
    x = p.draw(jax.random.key(0), 200)
    covariance = jnp.atleast_2d(jnp.cov(p.draw(jax.random.key(1), 100_000).T))
    field = MixtureNoiseField(p, 0.05, 6.0)
    centred = x - p.weights @ p.means
    got = log_density_by_flow(_shifted(field), centred, covariance, rtol=1e-4, atol=1e-5)
    expected = jax.vmap(lambda y: p.log_density(y, 0.05**2))(x)
    # What is left is the end distribution being only nearly normal.
    np.testing.assert_allclose(got, expected, atol=0.03)


@pytest.mark.parametrize("dim", [1, 2])
def test_density_integrates_to_one(dim):
    field = _shifted(MixtureNoiseField(bimodal(dim), 0.05, 6.0))
    points, cell = grid(dim, 4.5, {1: 400, 2: 40}[dim])
    log_p = log_density_by_flow(field, points, jnp.eye(dim))
    assert abs(np.exp(log_p).sum() * cell - 1) < 0.02


def test_rows_do_not_depend_on_their_neighbours():
    field = _shifted(MixtureNoiseField(bimodal(2), 0.05, 6.0))
    x = np.random.default_rng(0).normal(size=(300, 2)).astype(np.float32)
    whole = log_density_by_flow(field, x, jnp.eye(2))
    np.testing.assert_allclose(whole[100:110], log_density_by_flow(field, x[100:110], jnp.eye(2)))


def _shifted(field):
    """The same mixture with mean zero, as standardised data have."""
    p = field.mixture
    centred = type(p)(p.weights, p.means - p.weights @ p.means, p.variance)
    return MixtureNoiseField(centred, field.sigma_min, field.sigma_max)
