"""Return distributions: every figure against an independent computation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.returns.atoms import AtomicReturn
from bellman_diffusion.returns.basis import GaussianBasis
from bellman_diffusion.returns.joint import JointReturn
from bellman_diffusion.returns.tabulated import TabulatedReturn

BASIS = GaussianBasis.on_interval(-2, 3, 6, sigma=0.6)
WEIGHTS = np.random.default_rng(0).dirichlet(np.ones(6), size=3)
FINE = np.linspace(-7, 8, 6001)


HALF = np.random.default_rng(1).uniform(0, 0.5, (3, 6)) * (np.arange(6) % 3 > 0)


def atoms():
    """Some atoms are points, some are spread evenly."""
    arrays = (WEIGHTS, BASIS.centres[:, 0], 0.6, HALF)
    return AtomicReturn(*(jnp.asarray(a, jnp.float32) for a in arrays))


def wide():
    """All atoms are spread until they touch: there is a density, and quantiles are unique."""
    arrays = (WEIGHTS, BASIS.centres[:, 0], 0.6, np.full((3, 6), 0.5))
    return AtomicReturn(*(jnp.asarray(a, jnp.float32) for a in arrays))


def tabulated():
    grid = jnp.linspace(-6.0, 7.0, 2001)
    smooth = AtomicReturn.of_gaussians(WEIGHTS, BASIS.centres[:, 0], BASIS.sigma)
    # A network's mass is not 1: the distribution is normalised.
    return TabulatedReturn.create(grid, 3 * smooth.pdf(grid), 3 * smooth.gradient(grid))


def truth_pdf(x):
    return WEIGHTS @ stats.norm.pdf(x[None], BASIS.centres, BASIS.sigma)


def draws_of(half, n=400_000):
    """Returns drawn by NumPy, one row a state."""
    rng = np.random.default_rng(2)
    which = np.stack([rng.choice(6, n, p=w) for w in WEIGHTS])
    spread = np.take_along_axis(half, which, 1) * rng.uniform(-1, 1, which.shape)
    return BASIS.centres[:, 0][which] + spread


def test_figures_are_those_of_the_return_itself():
    """Against 400,000 draws; four standard errors are below 0.01."""
    distribution, draws = atoms(), draws_of(HALF)
    assert np.allclose(distribution.mean(), draws.mean(axis=1), atol=0.01)
    assert np.allclose(distribution.std(), draws.std(axis=1), atol=0.01)
    for alpha in (0.05, 0.3, 0.9):
        worst = np.sort(draws, axis=1)[:, : int(alpha * draws.shape[1])]
        assert np.allclose(distribution.cvar(alpha), worst.mean(axis=1), atol=0.015)
    for x in (-2.0, -1.0, 0.3, 1.9):
        assert np.allclose(distribution.prob_at_most(x), (draws <= x).mean(axis=1), atol=0.005)
        assert np.allclose(distribution.prob_below(x), (draws < x).mean(axis=1), atol=0.005)


def test_an_atom_counts_for_at_most_and_not_for_below():
    distribution = AtomicReturn(jnp.array([0.25, 0.75]), jnp.array([0.0, 1.0]), jnp.asarray(0.1))
    assert distribution.prob_below(0.0) == 0
    assert distribution.prob_at_most(0.0) == 0.25
    assert distribution.prob_below(1.0) == 0.25
    assert distribution.quantile(0.2) == pytest.approx(0, abs=1e-6)
    assert distribution.quantile(0.3) == pytest.approx(1, abs=1e-6)
    # CVaR 50 %: a half of it from the atom at 0, a half from the one at 1.
    assert distribution.cvar(0.5) == pytest.approx(0.5, abs=1e-6)
    assert float(distribution.low) == 0
    assert float(distribution.high) == 1


def test_the_density_is_that_of_the_return_plus_noise():
    """By quadrature over each uniform part; σ is the distribution's own, or a given one."""
    distribution, x = atoms(), np.linspace(-4, 5, 181)
    for sigma in (None, 0.25):
        scale = 0.6 if sigma is None else sigma
        nodes = np.linspace(-1, 1, 2001)[None, None] * HALF[..., None] + BASIS.centres[:, 0, None]
        kernel = stats.norm.pdf(x[:, None, None, None], nodes, scale).mean(axis=-1)
        truth = np.einsum("xsk,sk->sx", kernel, WEIGHTS)
        at = jnp.asarray(x, jnp.float32)
        assert np.allclose(distribution.pdf(at, sigma), truth, atol=2e-3)
        slope = np.gradient(truth, x, axis=1)[:, 1:-1]
        assert np.allclose(distribution.gradient(at, sigma)[:, 1:-1], slope, atol=0.03)


def test_a_sum_of_gaussians_keeps_its_density_and_loses_its_noise():
    signed = np.array([-0.1, 0.6, 0.5, -0.2, 0.1, 0.1])
    distribution = AtomicReturn.of_gaussians(signed, BASIS.centres[:, 0], BASIS.sigma)
    x = np.linspace(-5, 6, 221)
    truth = signed @ stats.norm.pdf(x[None], BASIS.centres, BASIS.sigma)
    assert np.allclose(distribution.pdf(jnp.asarray(x, jnp.float32)), truth, atol=1e-5)
    assert np.all(np.asarray(distribution.mass) >= 0)
    assert float(distribution.mass.sum()) == pytest.approx(1, abs=1e-6)
    assert float(distribution.low) == -2
    plain = AtomicReturn.of_gaussians(WEIGHTS, BASIS.centres[:, 0], BASIS.sigma)
    assert np.allclose(plain.mass, WEIGHTS, atol=1e-6)


def test_a_network_that_is_tabulated_has_the_figures_of_quadrature():
    distribution, p = tabulated(), truth_pdf(FINE)
    at = jnp.asarray(FINE[1000:5000], jnp.float32)
    assert np.allclose(distribution.pdf(at), truth_pdf(FINE[1000:5000]), atol=1e-4)
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


def test_a_smoothed_table_has_the_fields_of_wider_gaussians():
    """The sum of two Gaussians has the sum of their variances."""
    distribution, x = tabulated().smoothed(0.5), FINE[1000:5000:10]
    wider = AtomicReturn.of_gaussians(WEIGHTS, BASIS.centres[:, 0], np.hypot(0.6, 0.5))
    at = jnp.asarray(x, jnp.float32)
    assert np.allclose(distribution.pdf(at), wider.pdf(at), atol=1e-4)
    assert np.allclose(distribution.gradient(at), wider.gradient(at), atol=1e-4)


def own_centres():
    """Each state with centres and a width of its own, as quantile regression has them."""
    centres = jnp.asarray(BASIS.centres[:, 0] + np.array([[0.0], [2.0], [-1.0]]), jnp.float32)
    half = jnp.full((3, 6), 0.5)
    return AtomicReturn(jnp.asarray(WEIGHTS), centres, jnp.array([0.6, 0.3, 1.0]), half)


@pytest.mark.parametrize("make", [wide, tabulated, own_centres])
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
def test_the_papers_dynamics_sample_the_smoothed_return(method):
    """1,500 paths; a Kolmogorov–Smirnov distance below 0.08 (0.05 by chance alone)."""
    distribution = wide()[0]
    draws = np.asarray(distribution.sample(jax.random.key(0), 1500, method))
    x, fine = np.sort(draws), np.linspace(-6, 7, 4001).astype(np.float32)
    density = np.asarray(distribution.pdf(jnp.asarray(fine)), float)
    cdf = np.interp(x, fine, np.cumsum(density) * (fine[1] - fine[0]))
    assert np.abs(cdf - (np.arange(1500) + 0.5) / 1500).max() < 0.08


def test_figures_are_jittable_and_vectorised():
    distribution = atoms()
    assert jax.jit(lambda distribution: distribution.cvar(0.1))(distribution).shape == (3,)
    assert distribution[1].mean().shape == ()
    assert distribution[np.array([0, 2])].quantile(np.array([0.1, 0.5], np.float32)).shape == (2, 2)


def test_wrong_questions_get_clear_answers():
    distribution = atoms()
    with pytest.raises(InvalidInputError, match="alpha"):
        distribution.cvar(0.0)
    with pytest.raises(InvalidInputError, match="one state"):
        distribution[0][0]
    with pytest.raises(InvalidInputError, match="choose one"):
        distribution.plot()


def test_plot_draws_the_density():
    axes = atoms()[0].plot(color="red")
    line = axes.get_lines()[0]
    assert np.trapezoid(line.get_ydata(), line.get_xdata()) == pytest.approx(1, abs=1e-2)
    assert axes.get_xlabel() == "return"


def random_joint():
    rng = np.random.default_rng(1)
    return rng, rng.normal(size=(4, 2)), rng.dirichlet(np.ones(4))


def test_a_joint_density_is_a_sum_of_gaussians():
    rng, centres, weights = random_joint()
    distribution = JointReturn.create(weights, GaussianBasis(centres, 0.5))
    parts = [stats.multivariate_normal(c, 0.25 * np.eye(2)) for c in centres]
    x = rng.normal(size=(10, 2))
    pdf = weights @ np.stack([p.pdf(x) for p in parts])
    assert np.allclose(distribution.pdf(jnp.asarray(x)), pdf, atol=1e-5)
    total = lambda y: jnp.sum(distribution.pdf(y[None]))
    slopes = jax.vmap(jax.grad(total))(jnp.asarray(x))
    assert np.allclose(distribution.gradient(jnp.asarray(x)), slopes, atol=1e-4)


def test_joint_figures_are_those_of_the_return_without_noise():
    rng, centres, weights = random_joint()
    distribution = JointReturn.create(weights, GaussianBasis(centres, 0.5))
    x = rng.normal(size=(10, 2))
    below = np.all(x[:, None] >= centres, axis=-1) @ weights
    assert np.allclose(distribution.cdf(jnp.asarray(x)), below, atol=1e-6)
    covariance = np.cov(centres.T, aweights=weights, ddof=0)
    assert np.allclose(distribution.cov(), covariance, atol=1e-5)
    deviation = np.sqrt(np.diag(covariance))
    correlation = covariance / np.outer(deviation, deviation)
    assert np.allclose(distribution.correlation(), correlation, atol=1e-5)
    draws = np.asarray(distribution.sample(jax.random.key(0), 40_000))
    assert np.allclose(np.cov(draws.T), covariance, atol=0.03)


def test_every_direction_of_a_joint_distribution_has_the_right_atoms():
    _, centres, weights = random_joint()
    distribution = JointReturn.create(weights, GaussianBasis(centres, 0.5))
    for w in ([0.0, 1.0], [2.0, -0.5]):
        found, at = distribution.along(w), centres @ w
        order = np.argsort(at)
        assert np.allclose(found.atoms, at[order], atol=1e-6)
        assert np.allclose(found.mass, weights[order], atol=1e-6)
        assert float(found.sigma) == pytest.approx(0.5 * np.linalg.norm(w))
    assert np.allclose(distribution.marginal(1).atoms, np.sort(centres[:, 1]))
    with pytest.raises(InvalidInputError, match="one for each of 2 components"):
        distribution.along([1.0])


def test_each_state_has_atoms_of_its_own():
    rng = np.random.default_rng(2)
    atoms = jnp.asarray(rng.normal(size=(3, 5, 2)), jnp.float32)
    states = JointReturn(jnp.full((3, 5), 0.2), atoms, jnp.asarray([0.1, 0.2]))
    assert np.allclose(states[1].mean(), atoms[1].mean(axis=0), atol=1e-6)
    assert np.allclose(
        states.along([1.0, 2.0]).mean(), states.mean() @ np.array([1.0, 2.0]), atol=1e-5
    )
    assert np.allclose(states.mixture().mean(), atoms.mean(axis=(0, 1)), atol=1e-6)
    x = jnp.asarray(rng.normal(size=(4, 2)), jnp.float32)
    assert np.allclose(states.pdf(x)[2], states[2].pdf(x), atol=1e-6)
    assert np.allclose(states.cov()[0], np.cov(atoms[0].T, ddof=0), atol=1e-5)


def test_a_quantile_at_an_atom_is_the_atom():
    """Bisection alone gives 1e-12 for 0."""
    found = AtomicReturn(
        jnp.asarray([[0.2, 0.3, 0.5], [0.0, 0.6, 0.4]]),
        jnp.asarray([0.0, 0.1, 0.7]),
        jnp.asarray(0.1),
    )
    assert found.quantile(0.05).tolist() == [0.0, pytest.approx(0.1)]
    levels = found.quantile(np.array([0.1, 0.3, 0.9], np.float32))
    assert np.asarray(levels).tolist() == np.float32([[0, 0.1, 0.7], [0.1, 0.1, 0.7]]).tolist()
