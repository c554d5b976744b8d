"""Return distributions: every figure against an independent computation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.returns.basis import GaussianBasis
from bellman_diffusion.returns.joint import JointReturn
from bellman_diffusion.returns.mixture import MixtureReturn
from bellman_diffusion.returns.tabulated import TabulatedReturn

BASIS = GaussianBasis.on_interval(-2, 3, 6, sigma=0.6)
WEIGHTS = np.random.default_rng(0).dirichlet(np.ones(6), size=3)
FINE = np.linspace(-7, 8, 6001)


def mixture():
    return MixtureReturn.create(WEIGHTS, BASIS)


def tabulated():
    distribution = mixture()
    grid = jnp.linspace(-6.0, 7.0, 2001)
    # A network's mass is not 1: the distribution is normalised.
    return TabulatedReturn.create(grid, 3 * distribution.pdf(grid), 3 * distribution.gradient(grid))


KINDS = pytest.mark.parametrize("make", [mixture, tabulated])


def truth_pdf(x):
    return WEIGHTS @ stats.norm.pdf(x[None], BASIS.centres, BASIS.sigma)


@KINDS
def test_density_gradient_and_cdf_are_one_anothers_derivatives(make):
    distribution, x = make(), FINE[1000:5000]
    at = jnp.asarray(x, jnp.float32)
    assert np.allclose(distribution.pdf(at), truth_pdf(x), atol=1e-4)
    assert np.allclose(np.gradient(truth_pdf(x), x, axis=1), distribution.gradient(at), atol=2e-3)
    assert np.allclose(
        distribution.cdf(at),
        WEIGHTS @ stats.norm.cdf(x[None], BASIS.centres, BASIS.sigma),
        atol=1e-4,
    )


def test_a_smoothed_table_has_the_fields_of_wider_gaussians():
    """The sum of two Gaussians has the sum of their variances."""
    distribution, x = tabulated().smoothed(0.5), FINE[1000:5000:10]
    wider = MixtureReturn.create(WEIGHTS, BASIS)
    wider = MixtureReturn(wider.coefficients, wider.centres, jnp.hypot(0.6, 0.5))
    at = jnp.asarray(x, jnp.float32)
    assert np.allclose(distribution.pdf(at), wider.pdf(at), atol=1e-4)
    assert np.allclose(distribution.gradient(at), wider.gradient(at), atol=1e-4)


@KINDS
def test_moments_quantiles_and_tails_are_those_of_quadrature(make):
    distribution, p = make(), truth_pdf(FINE)
    mean = np.trapezoid(p * FINE, FINE, axis=1)
    assert np.allclose(distribution.mean(), mean, atol=1e-4)
    variance = np.trapezoid(p * (FINE - mean[:, None]) ** 2, FINE, axis=1)
    assert np.allclose(distribution.var(), variance, atol=1e-3)
    cdf = WEIGHTS @ stats.norm.cdf(FINE[None], BASIS.centres, BASIS.sigma)
    for alpha in (0.05, 0.3, 0.9):
        q = np.array([np.interp(alpha, row, FINE) for row in cdf])
        assert np.allclose(distribution.quantile(alpha), q, atol=2e-3)
        below = np.where(FINE[None] <= q[:, None], p * FINE, 0)
        assert np.allclose(
            distribution.cvar(alpha), np.trapezoid(below, FINE, axis=1) / alpha, atol=0.02
        )
    assert np.allclose(
        distribution.prob_below(0.5), [np.interp(0.5, FINE, row) for row in cdf], atol=1e-3
    )
    assert np.allclose(distribution.cvar(1.0), mean, atol=1e-4)


def own_centres():
    """Each state with centres and a width of its own, as quantile regression has them."""
    centres = jnp.asarray(BASIS.centres[:, 0] + np.array([[0.0], [2.0], [-1.0]]), jnp.float32)
    return MixtureReturn(jnp.asarray(WEIGHTS), centres, jnp.array([0.6, 0.3, 1.0]))


def of_a_joint_law():
    rng = np.random.default_rng(1)
    basis = GaussianBasis(rng.normal(size=(6, 2)), 0.5)
    return JointReturn.create(WEIGHTS, basis).marginal(1)


@pytest.mark.parametrize("make", [mixture, tabulated, own_centres, of_a_joint_law])
def test_quantile_is_the_inverse_of_the_cdf_and_samples_follow_it(make):
    distribution, levels = (
        make(),
        np.array([0.001, 0.01, *np.linspace(0.05, 0.95, 10), 0.99, 0.999]),
    )
    levels = levels.astype(np.float32)
    found = distribution.quantile(levels)
    assert found.shape == (3, len(levels))
    # Every level, of every state, asked for together, one state at a time, and one by one.
    assert np.allclose(distribution.cdf(found), np.tile(levels, (3, 1)), atol=2e-4)
    assert np.all(np.diff(found, axis=1) > 0)
    for i in range(3):
        assert np.allclose(distribution[i].quantile(levels), found[i], atol=1e-4)
        assert np.allclose(distribution[i].cdf(found[i]), levels, atol=2e-4)
    for k in (0, 7, len(levels) - 1):
        assert np.allclose(distribution.quantile(float(levels[k])), found[:, k], atol=1e-4)
    draws = np.asarray(distribution.sample(jax.random.key(0), 20_000))
    assert draws.shape == (3, 20_000)
    # Kolmogorov–Smirnov: 1.95/√n is passed by chance once in a thousand.
    for row, own in zip(draws, (distribution[i] for i in range(3)), strict=True):
        x = np.sort(row)
        gap = np.abs(np.asarray(own.cdf(jnp.asarray(x))) - (np.arange(20_000) + 0.5) / 20_000)
        assert gap.max() < 1.95 / np.sqrt(20_000)


@pytest.mark.parametrize("method", ["dynamics", "metropolis"])
def test_the_papers_dynamics_sample_the_law(method):
    """1,500 paths; a Kolmogorov–Smirnov distance below 0.08 (0.05 by chance alone)."""
    distribution = mixture()[0]
    draws = np.asarray(distribution.sample(jax.random.key(0), 1500, method))
    x = np.sort(draws)
    gap = np.abs(np.asarray(distribution.cdf(jnp.asarray(x))) - (np.arange(1500) + 0.5) / 1500)
    assert gap.max() < 0.08


def test_figures_are_jittable_and_vectorised():
    distribution = mixture()
    assert jax.jit(lambda distribution: distribution.cvar(0.1))(distribution).shape == (3,)
    assert distribution[1].mean().shape == ()
    assert distribution[np.array([0, 2])].quantile(np.array([0.1, 0.5], np.float32)).shape == (2, 2)


def test_wrong_questions_get_clear_answers():
    distribution = mixture()
    with pytest.raises(InvalidInputError, match="alpha"):
        distribution.cvar(0.0)
    with pytest.raises(InvalidInputError, match="one state"):
        distribution[0][0]
    with pytest.raises(InvalidInputError, match="choose one"):
        distribution.plot()


def test_plot_draws_the_density():
    axes = mixture()[0].plot(color="red")
    line = axes.get_lines()[0]
    assert np.trapezoid(line.get_ydata(), line.get_xdata()) == pytest.approx(1, abs=1e-2)
    assert axes.get_xlabel() == "return"


def test_joint_law_agrees_with_scipy():
    rng = np.random.default_rng(1)
    centres, weights = rng.normal(size=(4, 2)), rng.dirichlet(np.ones(4))
    distribution = JointReturn.create(weights, GaussianBasis(centres, 0.5))
    parts = [stats.multivariate_normal(c, 0.25 * np.eye(2)) for c in centres]
    x = rng.normal(size=(10, 2))
    pdf = weights @ np.stack([p.pdf(x) for p in parts])
    cdf = weights @ np.stack([p.cdf(x) for p in parts])
    assert np.allclose(distribution.pdf(jnp.asarray(x)), pdf, atol=1e-5)
    assert np.allclose(distribution.cdf(jnp.asarray(x)), cdf, atol=1e-3)
    total = lambda y: jnp.sum(distribution.pdf(y[None]))
    slopes = jax.vmap(jax.grad(total))(jnp.asarray(x))
    assert np.allclose(distribution.gradient(jnp.asarray(x)), slopes, atol=1e-4)
    draws = np.asarray(distribution.sample(jax.random.key(0), 40_000))
    assert np.allclose(np.cov(draws.T), distribution.cov(), atol=0.03)
    assert np.allclose(distribution.marginal(1).mean(), draws[:, 1].mean(), atol=0.02)
    assert np.allclose(jnp.diagonal(distribution.correlation()), 1, atol=1e-4)
