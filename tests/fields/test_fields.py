import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bellman_diffusion.fields import (
    ConservativeField,
    FieldScale,
    NetworkPair,
    NoiseConditionalPair,
    at_noise,
    evaluate,
    evaluate_score,
)
from tests.known import bimodal, grid

RHOS = {
    "the density itself": lambda p: p.density,
    "a wide isotropic kernel": lambda p: p.rho("isotropic", 1.0),
    "the sliced kernel": lambda p: p.rho("sliced", 0.5),
    "a constant": lambda p: lambda x: 0.3 + 0.0 * jnp.sum(x),
}
NOISE_PAIR = NoiseConditionalPair.create(
    jax.random.key(3),
    jnp.array([[1.0, 0.6], [0.6, 1.0]]),
    FieldScale(1, 2.0, 5.0),
    width=16,
    depth=2,
)
FIELDS = {
    "pair": NetworkPair.create(jax.random.key(1), 2, 16, 2),
    "conservative": ConservativeField.create(jax.random.key(2), 2, 16, 2),
    "noise-conditional": NOISE_PAIR.at(0.3),
    "waves along the axes": NoiseConditionalPair.create(
        jax.random.key(4),
        jnp.eye(2),
        FieldScale(1, 2.0, 5.0),
        n_frequencies=5,
        fourier_features="axes",
    ).at(0.3),
}


@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("rho", RHOS)
def test_score_is_grad_log_p_whatever_the_kernel(rho, dim):
    p = bimodal(dim)
    x = p.draw(jax.random.key(0), 50)
    field = p.field(RHOS[rho](p))
    expected = jax.jit(jax.vmap(jax.grad(p.log_density)))(x)
    np.testing.assert_allclose(jax.jit(jax.vmap(field.score))(x), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("rho", RHOS)
def test_p_is_stationary_under_the_fokker_planck_operator(rho, dim):
    """−∇·(g p) + ½Δ(s p) = 0, and the flux g p − ½∇(s p) vanishes, for every ρ."""
    p = bimodal(dim)
    field = p.field(RHOS[rho](p))

    def flux(x):
        s_p = lambda y: field.scalar(y) * p.density(y)
        return field.gradient(x) * p.density(x) - 0.5 * jax.grad(s_p)(x)

    x = grid(dim, 3.0, 21)[0]
    drift = jax.jit(jax.vmap(lambda y: field.gradient(y) * p.density(y)))(x)
    scale = jnp.max(jnp.abs(drift))
    assert jnp.max(jnp.abs(jax.jit(jax.vmap(flux))(x))) < 1e-5 * (1 + scale)
    operator = jax.jit(jax.vmap(lambda y: -jnp.trace(jax.jacfwd(flux)(y))))(x)
    assert jnp.max(jnp.abs(operator)) < 1e-4 * (1 + scale)


@pytest.mark.parametrize("name", FIELDS)
def test_scalar_is_positive_and_both_methods_agree(name):
    field = FIELDS[name]
    x = np.random.default_rng(0).normal(size=(200, 2)).astype(np.float32) * 5
    s, g = evaluate(field, x)
    assert s.shape == (200,)
    assert g.shape == (200, 2)
    assert np.all(s >= 0)
    np.testing.assert_allclose(s, jax.vmap(field.scalar)(x), rtol=1e-5)
    np.testing.assert_allclose(g, jax.vmap(field.gradient)(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", FIELDS)
def test_score_agrees_with_finite_differences(name):
    field = FIELDS[name]
    x = np.random.default_rng(1).normal(size=(20, 2)).astype(np.float32)
    s, g = evaluate(field, x)
    h = 1e-2
    steps = np.eye(2, dtype=np.float32) * h
    grad_s = np.stack(
        [(evaluate(field, x + d)[0] - evaluate(field, x - d)[0]) / (2 * h) for d in steps], axis=1
    )
    expected = (2 * g - grad_s) / s[:, None]
    np.testing.assert_allclose(evaluate_score(field, x), expected, rtol=0.02, atol=0.02)


def test_conservative_gradient_is_the_gradient_of_its_scalar():
    field = FIELDS["conservative"]
    x = jnp.array([0.3, -0.7])
    h = 1e-2
    numeric = [(field.scalar(x + d) - field.scalar(x - d)) / (2 * h) for d in h * jnp.eye(2)]
    np.testing.assert_allclose(field.gradient(x), numeric, atol=1e-3)


def test_a_field_without_noise_is_the_same_at_every_level():
    assert at_noise(FIELDS["pair"], 0.5) is FIELDS["pair"]


def test_noise_levels_give_different_fields():
    x = jnp.array([0.3, -0.7])
    assert NOISE_PAIR.at(0.1).scalar(x) != NOISE_PAIR.at(1.0).scalar(x)


def test_evaluate_gives_each_row_the_same_result_in_any_company():
    x = np.random.default_rng(2).normal(size=(1500, 2)).astype(np.float32)
    whole = evaluate_score(FIELDS["pair"], x)
    np.testing.assert_array_equal(whole[1200:1210], evaluate_score(FIELDS["pair"], x[1200:1210]))


def test_waves_along_the_axes_tell_the_points_of_a_grid_apart():
    """Each wave is of one coordinate; each coordinate has them from slow to quick."""
    pair = FIELDS["waves along the axes"].pair
    frequencies = np.asarray(pair.x_frequencies)
    assert frequencies.shape == (10, 2)
    assert np.all(np.count_nonzero(frequencies, axis=1) == 1)
    for axis in range(2):
        along = frequencies[:, axis][frequencies[:, axis] > 0]
        np.testing.assert_allclose(along, np.geomspace(1, 24, 5), rtol=1e-5)
