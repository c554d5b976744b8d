"""The public accuracy table and the risk-optimal policies, small; the processes in closed form."""

import numpy as np
import pytest
from scipy.stats import uniform

from bellman_diffusion.paper.experiments import accuracy, risk
from bellman_diffusion.paper.experiments.accuracy import OURS, AccuracyOptions, geometric_mean
from bellman_diffusion.paper.experiments.risk import RiskOptions
from bellman_diffusion.paper.processes import (
    PROCESSES,
    PUBLISHED,
    bernoulli,
    discrete_chain,
    solitaire_dice,
)
from bellman_diffusion.planning.certify import certified_distribution, certify
from bellman_diffusion.planning.monte_carlo import simulate
from tests.paper.helpers import report_of, workplace


def test_the_dice_pay_a_geometric_sum():
    """P(return ≤ (1 − 0.9ⁿ)/0.1) is 1 − (5/6)ⁿ⁺¹."""
    bounds = certify(solitaire_dice(), 0.9).certificate(np.array([0]))
    for n in (0, 1, 5):
        low, high = (b[0] for b in bounds.prob_at_most((1 - 0.9**n) / 0.1))
        assert low - 1e-9 <= 1 - (5 / 6) ** (n + 1) <= high + 1e-9


def test_coins_pay_a_uniform_return():
    found = certified_distribution(certify(bernoulli(), 0.5), np.array([0]))
    x = np.linspace(0.05, 1.95, 20).astype(np.float32)
    np.testing.assert_allclose(found.cdf(x)[0], uniform(0, 2).cdf(x), atol=1e-3)


def test_the_chain_is_a_walk_that_its_landscape_drives():
    """The hill at state 1 is e^{19/4π}; from state 2 down to 1 is likelier than to 3."""
    chain = discrete_chain()
    matrix = chain.going_on().toarray()
    height = np.exp(19 / (4 * np.pi) * np.cos(4 * np.pi * (np.arange(20) - 1) / 19))
    assert matrix[2, 1] == pytest.approx(height[1] / (height[1] + height[2]))
    assert matrix[2, 1] > matrix[2, 3]
    assert np.all(chain.reward[chain.done] == 0)
    assert np.all(chain.reward[~chain.done] == 1)
    returns = simulate(chain, 0.95, 10, 20_000, 0)[:, 0]
    mean = certify(chain, 0.95, n_cells=34).moments.mean[10]
    assert abs(returns.mean() - mean) < 4 * returns.std() / np.sqrt(20_000)


def test_the_table_compares_all_methods(tmp_path, monkeypatch):
    """On two processes: cells are nearer than C51's atoms, and what is certified holds."""
    few = {name: PROCESSES[name] for name in ("dice", "Bernoulli")}
    monkeypatch.setattr(accuracy, "LEARNED_SIZE", 20)
    monkeypatch.setattr(accuracy, "PROCESSES", few)
    options = AccuracyOptions(seeds=2, transitions=2000, max_iter=50)
    summary = accuracy.run(options, workplace(tmp_path))
    assert {r.process for r in summary.exact} == set(few)
    assert {(r.method, r.n) for r in summary.exact} == {
        (m, n) for m in accuracy.EXACT for n in accuracy.SIZES
    }
    for n in (41, 101):
        assert geometric_mean(summary.ratios(summary.exact, OURS, n)) < 0.5
    for row in summary.exact:
        if row.method == OURS:
            assert row.w1 <= row.bound + 2 * summary.truth_bound * row.range
        else:
            assert row.bound is None
    for row in summary.certified:
        assert row.w1 <= accuracy.ACCURACY * row.range
    assert len(summary.learned) == 2 * len(accuracy.LEARNED)
    assert all(len(row.per_seed) == 2 for row in summary.learned)
    assert type(summary).from_json(summary.to_json()) == summary
    page = report_of("accuracy", summary, tmp_path)
    assert "0.116" in page
    assert page.count("data:image/png") == 1

    def never(*_):
        raise AssertionError("a finished cell was run again")

    monkeypatch.setattr(accuracy, "_learned", never)
    assert accuracy.run(options, workplace(tmp_path)).learned == summary.learned


def test_published_figures_are_of_states_that_are_reported():
    for name, states in PUBLISHED.items():
        assert set(states) == set(PROCESSES[name].states)


def test_the_policy_for_cvar_is_at_least_as_good_as_all_stationary_ones(tmp_path, monkeypatch):
    """All 27 bets; the simulation of 20,000 episodes is within four standard errors."""
    monkeypatch.setattr(risk, "PROBLEMS", {"betting": risk.PROBLEMS["betting"]})
    summary = risk.run(RiskOptions(policies=5, episodes=20_000), workplace(tmp_path))
    (row,) = summary.rows
    assert row.n_policies == 27
    assert row.cvar[1] >= row.best_stationary[0] - 1e-6
    assert row.cvar[0] > row.cvar_of_mean_optimal[1]
    assert row.deviations < 4
    means = [point.mean for point in row.frontier]
    assert means[0] >= means[-1]
    page = report_of("risk", summary, tmp_path)
    assert "all 27" in page


def test_random_policies_are_policies():
    problem = risk.PROBLEMS["windy cliff"]
    mdp = problem.model()
    for policy in risk._policies(mdp, problem, RiskOptions(policies=6)):
        np.testing.assert_allclose(policy.sum(axis=1), 1)
        assert np.all(policy[~mdp.available()] == 0)
