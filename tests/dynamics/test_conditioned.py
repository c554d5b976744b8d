"""Columns given others, where the conditional distribution is known: correlated normal columns."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bellman_diffusion.dynamics import Conditioned, sample
from bellman_diffusion.fields import FieldScale, NoiseConditionalPair

COVARIANCE = jnp.array([[1.0, 0.8], [0.8, 1.0]])


def normal_fields():
    """With a last layer of zeros the fields are exactly those of the normal distribution."""
    field = NoiseConditionalPair.create(
        jax.random.key(0), COVARIANCE, FieldScale(1, 2.0, 5.0), width=8, depth=1
    )
    layer = field.network.layers[-1]
    return eqx.tree_at(
        lambda f: (f.network.layers[-1].weight, f.network.layers[-1].bias),
        field,
        (jnp.zeros_like(layer.weight), jnp.zeros_like(layer.bias)),
    )


def test_an_untrained_field_is_that_of_the_normal_law():
    field = normal_fields()
    for sigma in (0.01, 0.5, 3.0):
        x = jnp.array([0.3, -1.2])
        expected = -jnp.linalg.solve(COVARIANCE + sigma**2 * jnp.eye(2), x)
        np.testing.assert_allclose(field.at(sigma).score(x), expected, rtol=1e-3)


@pytest.mark.parametrize("known", [1.5, -0.5])
def test_draws_given_a_value_follow_the_conditional_law(known):
    field = normal_fields()
    dynamics = Conditioned(field=field, n_steps=60)
    rows = np.tile(np.array([known, np.nan], np.float32), (4000, 1))
    x = sample(dynamics, jax.random.key(1), rows).x
    np.testing.assert_array_equal(x[:, 0], np.float32(known))
    # It is N(0.8 · known, 0.36); four standard errors are 0.04, and sixty levels add a little.
    assert x[:, 1].mean() == pytest.approx(0.8 * known, abs=0.06)
    assert x[:, 1].std() == pytest.approx(0.6, abs=0.05)


def test_rows_may_miss_different_columns():
    field = normal_fields()
    dynamics = Conditioned(field=field, n_steps=60)
    rows = np.array([[1.0, np.nan], [np.nan, 2.0], [0.5, 0.6], [np.nan, np.nan]], np.float32)
    x = sample(dynamics, jax.random.key(0), rows).x
    known = np.isfinite(rows)
    np.testing.assert_array_equal(x[known], rows[known])
    assert np.all(np.isfinite(x))
