"""Projected Bellman updates: moments, accuracy, and the bars of DESIGN.md section 4."""

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from bellman_diffusion.environments.transition_tables import finite_mdp
from bellman_diffusion.errors import BellmanError, InvalidInputError
from bellman_diffusion.planning.exact import solve
from bellman_diffusion.returns.basis import GaussianBasis
from bellman_diffusion.returns.joint import JointReturn
from bellman_diffusion.returns.moments import mean_return, second_moment
from bellman_diffusion.returns.projection import BasisProjection, CategoricalProjection
from bellman_diffusion.returns.reference import atoms_at_the_end
from bellman_diffusion.returns.tabular_policies import optimal_policy
from tests.returns.chains import random_chain, two_state_atoms, two_states

GAMMA, SIGMA = 0.99, 0.05
X = np.linspace(-0.4, 1.4, 2001)


@pytest.fixture(scope="module")
def lake():
    mdp = finite_mdp(gym.make("FrozenLake-v1"))
    return mdp.under(optimal_policy(mdp, GAMMA))


def worst_w1(chain, projection):
    distributions = solve(chain, GAMMA, projection).coefficients
    cdf = distributions @ norm.cdf((X[None] - projection.basis.centres) / SIGMA)
    exact = atoms_at_the_end(chain, GAMMA).cdf(X, SIGMA)
    return np.trapezoid(np.abs(cdf - exact), X, axis=1).max()


@pytest.mark.parametrize(("n", "bar"), [(21, 5e-4), (41, 1e-5)])
def test_cramer_with_noise_preserved_meets_the_bar_on_frozen_lake(lake, n, bar):
    assert worst_w1(lake, BasisProjection(GaussianBasis.on_interval(0, 1, n, SIGMA))) < bar


def test_the_papers_regression_and_c51_are_far_behind(lake):
    basis = GaussianBasis.on_interval(0, 1, 21, SIGMA)
    ours = worst_w1(lake, BasisProjection(basis))
    paper = BasisProjection(basis, "l2", noise_preserving=False, keep_mean=False)
    assert worst_w1(lake, paper) > 20 * ours
    assert worst_w1(lake, CategoricalProjection(basis)) > 20 * ours


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), gamma=st.floats(0.2, 0.9))
@example(seed=380, gamma=0.5)
def test_mass_mean_and_variance_obey_their_own_bellman_equations(seed, gamma):
    chain = random_chain(seed)
    mean = mean_return(chain, gamma)[:, 0]
    variance = second_moment(chain, gamma)[:, 0, 0] - mean**2
    # Wide enough that nothing is cut off; rounding leaves a variance of zero a little below it.
    reach = np.max(np.abs(mean) + 9 * np.sqrt(np.maximum(variance, 0))) + 1e-3
    basis = GaussianBasis.on_interval(-reach, reach, 81)
    distributions = solve(chain, gamma, BasisProjection(basis)).coefficients
    centres = basis.centres[:, 0]
    found = distributions @ centres
    assert np.allclose(distributions.sum(axis=1), 1, atol=1e-6)
    assert np.allclose(found, mean, atol=1e-4)
    assert np.allclose(distributions @ centres**2 - found**2, variance, atol=1e-4)


def test_fixed_point_of_the_two_state_chain_is_its_closed_form():
    atoms, probabilities = two_state_atoms(0.9)
    basis = GaussianBasis.on_interval(0, 12, 61)
    distributions = solve(two_states(), 0.9, BasisProjection(basis)).coefficients
    x = np.linspace(-1, 13, 1000)
    cdf = distributions[0] @ norm.cdf((x[None] - basis.centres) / basis.sigma)
    truth = probabilities @ norm.cdf((x[None] - atoms[:, None]) / basis.sigma)
    assert np.abs(cdf - truth).max() < 1e-3


def test_projection_keeps_what_the_basis_already_holds():
    basis = GaussianBasis.on_interval(-1, 1, 15)
    for objective in ("cramer", "l2"):
        projection = BasisProjection(basis, objective)
        assert np.allclose(
            projection.gaussians(basis.centres, basis.sigma**2), np.eye(15), atol=1e-6
        )


def test_cramer_inner_products_are_integrals_of_cdf_differences():
    """For equal masses: −½(c − d)ᵀM(c − d) with M = E|X − Y| is ∫(F − G)²; here inner = −E|X − Y|."""
    basis = GaussianBasis.on_interval(-1, 1, 5)
    rng = np.random.default_rng(0)
    gap = rng.dirichlet(np.ones(5)) - rng.dirichlet(np.ones(5))
    x = np.linspace(-6, 6, 20_001)
    cdf = gap @ norm.cdf((x[None] - basis.centres) / basis.sigma)
    gram = basis.inner("cramer", basis.centres, basis.sigma**2)
    assert gap @ gram @ gap / 2 == pytest.approx(np.trapezoid(cdf**2, x), rel=1e-6)


def test_l2_inner_products_are_integrals_of_densities():
    basis = GaussianBasis.on_interval(-1, 1, 5)
    x = np.linspace(-6, 6, 20_001)
    pdf = norm.pdf((x[None] - basis.centres) / basis.sigma) / basis.sigma
    other = norm.pdf((x - 0.3) / 0.2) / 0.2
    found = basis.inner("l2", np.array([[0.3]]), 0.04)[:, 0]
    assert np.allclose(found, np.trapezoid(pdf * other, x, axis=1), atol=1e-8)


def test_c51_shares_a_points_mass_between_its_neighbours():
    projection = CategoricalProjection(GaussianBasis.on_interval(0, 1, 5))
    assert np.allclose(projection.points(np.array([[0.3]]))[:, 0], [0, 0.8, 0.2, 0, 0])
    assert np.allclose(projection.points(np.array([[7.0]]))[:, 0], [0, 0, 0, 0, 1])


def test_vector_returns_have_the_moments_of_their_bellman_equations():
    chain, gamma = random_chain(1, dim=2), 0.8
    grid = np.linspace(-9, 9, 19)
    centres = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    basis = GaussianBasis(centres, 1.0)
    distribution = JointReturn.create(
        solve(chain, gamma, BasisProjection(basis)).coefficients, basis
    )
    mean = mean_return(chain, gamma)
    moment = second_moment(chain, gamma)
    covariance = moment - mean[:, :, None] * mean[:, None, :]
    assert np.allclose(distribution.mean(), mean, atol=1e-3)
    assert np.allclose(distribution.cov(), covariance, atol=0.02)


def test_empty_supports_and_too_few_functions_are_refused():
    with pytest.raises(InvalidInputError, match="empty"):
        GaussianBasis.on_interval(1, 1, 5)
    with pytest.raises(InvalidInputError, match="at least 2"):
        GaussianBasis.on_interval(0, 1, 1)
    with pytest.raises(InvalidInputError, match="positive"):
        GaussianBasis.on_interval(0, 1, 5, sigma=0.0)


def test_updates_that_do_not_settle_say_so(lake):
    with pytest.raises(BellmanError, match="still change"):
        solve(lake, GAMMA, BasisProjection(GaussianBasis.on_interval(0, 1, 11)), max_updates=3)
