"""Certified planning: every bracket against an independent computation of the truth."""

import warnings
from itertools import pairwise

import gymnasium as gym
import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bellman_diffusion.environments import finite_mdp
from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.planning import Planner, PlanSettings, plan
from bellman_diffusion.planning.certify import certified_distribution, certify
from bellman_diffusion.planning.monte_carlo import MonteCarlo, disagreements, simulate
from bellman_diffusion.render.plan_page import Risk
from bellman_diffusion.returns.moments import mean_return, second_moment
from bellman_diffusion.returns.reference import atoms_at_the_end
from bellman_diffusion.returns.tabular_policies import optimal_policy
from tests.returns.chains import chain_of_table, random_chain, two_state_atoms, two_states

LEVELS = (0.05, 0.1, 0.5)


@pytest.fixture(scope="module")
def lake():
    mdp = finite_mdp(gym.make("FrozenLake-v1"))
    return mdp.under(optimal_policy(mdp, 0.99))


def tail_mean(returns, weights, alpha):
    order = np.argsort(returns)
    x, m = returns[order], weights[order]
    return np.clip(alpha - (np.cumsum(m) - m), 0, m) @ x / alpha


def assert_holds(bounds, s, returns, weights, error=1e-9):
    """All brackets of state s around a distribution that is known up to a mass of `error`."""
    reach = error * np.ptp(returns)
    for alpha in LEVELS:
        low, high = (b[s] for b in bounds.cvar(alpha))
        assert low - reach / alpha <= tail_mean(returns, weights, alpha) <= high + reach / alpha
        low, high = (b[s] for b in bounds.cvar(alpha, tail="upper"))
        assert low - reach / alpha <= -tail_mean(-returns, weights, alpha) <= high + reach / alpha
    for x in np.quantile(returns, (0.0, 0.2, 0.6, 1.0)):
        low, high = (b[s] for b in bounds.shortfall(x))
        assert low - reach <= weights @ np.maximum(x - returns, 0) <= high + reach
        # Returns within the resolution of x count on either side.
        near = 2 * bounds.resolution
        for low, high, included in (
            (*(b[s] for b in bounds.prob_at_most(x)), 1),
            (*(b[s] for b in bounds.prob_below(x)), -1),
        ):
            edge = x + included * 1e-12
            assert low - error <= weights[returns <= max(edge, edge + near)].sum()
            assert high + error >= weights[returns <= min(edge, edge - near)].sum()
            if not np.any((np.abs(returns - x) < near) & (returns != x)):
                assert low - error <= weights[returns <= edge].sum() <= high + error


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6), gamma=st.floats(0.5, 1.0), n=st.integers(2, 30))
def test_brackets_contain_the_atoms_where_rewards_come_at_the_end(seed, gamma, n):
    rng = np.random.default_rng(seed)
    table = [
        [
            (0.3, 0, float(rng.integers(-3, 4)), True),
            (0.7 * (p := float(rng.uniform())), int(rng.integers(n)), 0.0, False),
            (0.7 * (1 - p), int(rng.integers(n)), 0.0, False),
        ]
        for _ in range(n)
    ]
    chain = chain_of_table(table)
    exact = atoms_at_the_end(chain, gamma)
    bounds = certify(chain, gamma, n_cells=20).certificate()
    for s in range(0, n, 5):
        assert_holds(bounds, s, exact.atoms, exact.probabilities[s], 1e-8)


def integer_returns(chain, n_steps=400, reach=600):
    """Probabilities of integer returns with γ = 1, by adding up step after step."""
    size = 2 * reach + 1
    result, now = np.zeros((chain.n_states, size)), np.zeros((chain.n_states, size))
    for start in range(chain.n_states):
        now = np.zeros((chain.n_states, size))
        now[start, reach] = 1
        for _ in range(n_steps):
            new = np.zeros_like(now)
            for s, p, z, r, done in zip(
                chain.state, chain.probability, chain.next_state, chain.reward[:, 0], chain.done,
                strict=True,
            ):  # fmt: skip
                moved = p * np.roll(now[s], int(r))
                if done:
                    result[start] += moved
                else:
                    new[z] += moved
            now = new
    return np.arange(-reach, reach + 1), result


@pytest.mark.parametrize("seed", [0, 1])
def test_brackets_contain_integer_returns_without_discount(seed):
    rng = np.random.default_rng(seed)
    table = [
        [
            (0.25, 0, float(rng.integers(-2, 3)), True),
            (0.5, int(rng.integers(4)), float(rng.integers(-2, 3)), False),
            (0.25, int(rng.integers(4)), float(rng.integers(-2, 3)), False),
        ]
        for _ in range(4)
    ]
    chain = chain_of_table(table)
    values, probabilities = integer_returns(chain, 150, 300)
    bounds = certify(chain, 1.0).certificate()
    for s in range(4):
        assert_holds(bounds, s, values.astype(float), probabilities[s], 1e-8)
        # Each integer has a cell of its own: the brackets are next to nothing wide.
        low, high = bounds.prob_at_most(0.0)
        assert high[s] - low[s] < 1e-3


def test_brackets_contain_the_closed_form_of_a_loop():
    atoms, probabilities = two_state_atoms(0.9)
    bounds = certify(two_states(), 0.9).certificate()
    assert_holds(bounds, 0, atoms, probabilities)


@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_brackets_agree_with_a_million_episodes(seed):
    """Random rewards; means within 5 standard errors, CDFs within DKW's 1e-6 band."""
    chain, gamma, n = random_chain(seed), 0.8, 1_000_000
    bounds = certify(chain, gamma).certificate()
    returns = simulate(chain, gamma, 0, n, seed)[:, 0]
    found = MonteCarlo.of(returns)
    low, high = (b[0] for b in bounds.cvar(0.1))
    slack = 5 * found.cvar_10.error + 1e-6
    assert low - slack <= found.cvar_10.value <= high + slack
    assert abs(bounds.mean()[0][0] - found.mean.value) <= 5 * found.mean.error + 1e-6
    band = np.sqrt(np.log(2e6) / (2 * n))
    for x in np.quantile(returns, (0.1, 0.4, 0.8)):
        # Discounts below 1e-7 are cut off: returns are known to 1e-6.
        assert bounds.prob_at_most(x - 1e-5)[0][0] - band <= np.mean(returns <= x)
        assert bounds.prob_at_most(x + 1e-5)[1][0] + band >= np.mean(returns <= x)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6), gamma=st.floats(0.3, 0.95))
def test_every_cell_is_accounted_for_and_finer_cells_are_tighter(seed, gamma):
    """Mass, mean and second moment are exact on every grid; four times the cells bound W1 better."""
    chain = random_chain(seed)
    mean, moment = mean_return(chain, gamma)[:, 0], second_moment(chain, gamma)[:, 0, 0]
    found = [certify(chain, gamma, n_cells=n).certificate() for n in (10, 34, 130)]
    for bounds in found:
        mass, atoms = bounds.mass, bounds.atoms
        assert np.allclose(mass.sum(axis=1), 1, atol=1e-12)
        assert np.allclose((mass * atoms).sum(axis=1), mean, atol=1e-9)
        assert np.allclose((mass * (bounds.variance + atoms**2)).sum(axis=1), moment, atol=1e-8)
        assert np.all(np.diff(atoms, axis=1)[mass[:, 1:] > 0] > -1e-9)
    for coarse, fine in pairwise(found):
        assert fine.w1().max() <= 0.8 * coarse.w1().max() + 1e-6
        # In convex order no lower bound is above any upper one.
        for b in np.linspace(*found[0].limits[0], 20):
            assert np.all(coarse.shortfall(b)[0] <= fine.shortfall(b)[1])
            assert np.all(fine.shortfall(b)[0] <= coarse.shortfall(b)[1])


def test_frozen_lake_has_its_atom_at_zero_and_nothing_below(lake):
    certified = certify(lake, 0.99)
    assert certified.accuracy <= 1e-3
    start = certified_distribution(certified, np.array([0]))[0]
    assert start.prob_below(0.0) == 0
    assert float(start.prob_at_most(0.0)) == pytest.approx(0.1765, abs=2e-4)
    assert float(start.cvar(0.1)) == pytest.approx(0, abs=1e-6)
    low, high = start.bounds.cvar(0.5)
    exact = atoms_at_the_end(lake, 0.99)
    assert low <= tail_mean(exact.atoms, exact.probabilities[0], 0.5) <= high
    assert high - low < 1e-4
    assert start.bounds.prob_below(0.0) == (0, 0)


def test_a_time_limit_that_ends_the_episode_is_a_finite_horizon(lake):
    """FrozenLake-v1's 100 steps: 26.0 % of the episodes fail and the mean is 0.520."""
    certified = certify(lake, 0.99, horizon=100)
    start = certified_distribution(certified, np.array([0]))[0]
    alive, reached = np.eye(16)[0], np.zeros(100)
    wins = lake.mean_over_rows((lake.reward[:, 0] > 0).astype(float))
    for step in range(100):
        reached[step] = alive @ wins
        alive = lake.going_on().T @ alive
    assert float(start.prob_at_most(0.0)) == pytest.approx(1 - reached.sum(), abs=1e-5)
    assert float(start.prob_at_most(0.0)) == pytest.approx(0.260, abs=5e-4)
    assert float(start.mean()) == pytest.approx(reached @ 0.99 ** np.arange(100), abs=1e-5)
    assert float(start.mean()) == pytest.approx(0.520, abs=5e-4)
    returns = simulate(lake, 0.99, 0, 20_000, 0, horizon=100)
    assert np.mean(returns == 0) == pytest.approx(0.260, abs=0.013)


def test_one_thread_and_two_give_the_same_bits(lake):
    found = []
    for n in (1, 2):
        numba.set_num_threads(min(n, numba.config.NUMBA_NUM_THREADS))
        found.append(certify(lake, 0.99, n_cells=66).cells)
    numba.set_num_threads(numba.config.NUMBA_NUM_THREADS)
    for one, two in zip(*found, strict=True):
        assert np.array_equal(one, two)


def test_a_hundred_thousand_different_rewards_are_no_obstacle():
    rng = np.random.default_rng(0)
    n = 500
    table = [
        [(0.25, int(rng.integers(n)), float(rng.normal()), False) for _ in range(4)]
        for _ in range(n)
    ]
    chain = chain_of_table(table)
    certified = certify(chain, 0.9, accuracy=0.005)
    assert certified.accuracy <= 0.005
    returns = simulate(chain, 0.9, 3, 20_000, 1)[:, 0]
    found, bounds = MonteCarlo.of(returns), certified.certificate()
    low, high = (b[3] for b in bounds.cvar(0.1))
    assert low - 4 * found.cvar_10.error <= found.cvar_10.value <= high + 4 * found.cvar_10.error


def test_vector_rewards_are_bounded_along_any_direction():
    chain, weights = random_chain(1, dim=2), np.array([0.3, -2.0])
    with pytest.raises(InvalidInputError, match="along"):
        certify(chain, 0.8)
    bounds = certify(chain.along(weights), 0.8).certificate()
    returns = simulate(chain, 0.8, 0, 50_000, 0) @ weights
    found = MonteCarlo.of(returns)
    low, high = (b[0] for b in bounds.cvar(0.1))
    assert low - 4 * found.cvar_10.error <= found.cvar_10.value <= high + 4 * found.cvar_10.error
    with pytest.raises(InvalidInputError, match="2 components"):
        chain.along([1.0])


def test_an_accuracy_that_memory_cannot_reach_says_what_it_would_take(lake):
    with pytest.warns(RuntimeWarning, match=r"that would take about \d+ cells and .* GB"):
        found = certify(lake, 0.99, accuracy=1e-4, memory_gb=5e-5)
    assert found.accuracy > 1e-4
    with pytest.raises(InvalidInputError, match="raise --memory"):
        certify(lake, 0.99, memory_gb=1e-6)


def test_models_that_make_no_sense_are_refused():
    endless = chain_of_table([[(1.0, 0, 1.0, False)]])
    with pytest.raises(InvalidInputError, match="never ends from state 0"):
        certify(endless, 1.0)
    assert certify(endless, 0.5).certificate().mean()[0][0] == pytest.approx(2)
    with pytest.raises(InvalidInputError, match="accuracy"):
        certify(endless, 0.5, accuracy=0.0)
    with pytest.raises(InvalidInputError, match="state 0, action 0, to state 0 has a reward"):
        chain_of_table([[(1.0, 0, float("nan"), False)]])


def test_a_certified_planner_is_saved_with_its_bounds(tmp_path):
    planner = plan(PlanSettings("FrozenLake-v1", accuracy=0.01))
    planner.save(tmp_path / "planner.bellman")
    loaded = Planner.load(tmp_path / "planner.bellman")
    first, second = (p.distribution([0, 5])[0] for p in (planner, loaded))
    assert first.bounds.cvar(0.5) == second.bounds.cvar(0.5)
    assert np.array_equal(first.mass, second.mass)
    assert np.array_equal(planner.all_states().mean(), loaded.all_states().mean())


def test_an_independent_computation_agrees():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figures = plan(PlanSettings("CliffWalking-v1", epsilon=0.1, check=True)).figures
    assert figures.exact is not None
    assert figures.exact.w1_worst_relative < 1e-4
    assert figures.exact.mean_error_worst < 1e-8


def test_monte_carlo_that_disagrees_is_noticed():
    rng = np.random.default_rng(0)
    found = MonteCarlo.of(rng.normal(size=20_000))
    assert found.mean.error == pytest.approx(1 / np.sqrt(20_000), rel=0.05)
    assert found.cvar_10.value == pytest.approx(-1.755, abs=4 * found.cvar_10.error)
    assert found.quantile_05.value == pytest.approx(-1.645, abs=4 * found.quantile_05.error)
    right = {"mean": 0.0, "quantile_05": -1.645, "quantile_95": 1.645, "cvar_10": -1.755}
    risk = Risk(observation=0, std=1.0, cvar_01=-2.7, **right)
    assert disagreements(found, risk) == []
    wrong = Risk(observation=0, std=1.0, cvar_01=-2.7, **(right | {"cvar_10": -1.2}))
    assert "CVaR 10 %" in disagreements(found, wrong)[0]
    # An interval that reaches the estimate is no contradiction.
    wide = Risk(
        observation=0, std=1.0, cvar_01=-2.7, **(right | {"cvar_10": -1.2}),
        cvar_10_bounds=(-1.8, -1.2),
    )  # fmt: skip
    assert disagreements(found, wide) == []
