"""Policy evaluation against fresh returns, small; its figures on distributions that are known."""

import numpy as np
import pytest

from bellman_diffusion.environments import finite_mdp, make_env
from bellman_diffusion.paper.evaluation_scores import equally_likely, score
from bellman_diffusion.paper.evaluation_tasks import TASKS, true_returns
from bellman_diffusion.paper.experiments import evaluation
from bellman_diffusion.paper.experiments.evaluation import (
    EPISODES,
    FQE,
    METHODS,
    OURS,
    EvaluationOptions,
)
from bellman_diffusion.planning.certify import certified_distribution, certify
from bellman_diffusion.returns.tabular_policies import optimal_policy
from tests.paper.helpers import report_of, workplace


def test_errors_are_shares_of_the_range_of_true_returns():
    """A shift by 3 of returns that range over 100: every figure is 3 % off."""
    true = np.linspace(0, 100, 1001)
    found = score(equally_likely(true + 3), equally_likely(true))
    assert found.w1 == pytest.approx(0.03, rel=1e-3)
    for name in ("mean", "quantile_05", "quantile_95", "cvar_10"):
        assert getattr(found, name) == pytest.approx(0.03, abs=2e-3)


def test_true_returns_are_those_of_exact_planning(tmp_path):
    task = TASKS["FrozenLake"]
    mdp = finite_mdp(make_env(task.env_id))
    chain = mdp.under(optimal_policy(mdp, task.gamma))
    exact = certified_distribution(certify(chain, task.gamma), np.array([0]))
    found = true_returns(task, tmp_path / "none", 500, seed=1)
    assert len(found.value) == 500
    error = found.value.std() / np.sqrt(500)
    assert abs(found.value.mean() - float(exact.mean()[0])) < 4 * error
    # In random order: the first half is like the second one.
    halves = found.value[:250], found.value[250:]
    assert abs(halves[0].mean() - halves[1].mean()) < 6 * error


def test_every_method_is_compared_and_the_counted_table_is_near(tmp_path, monkeypatch):
    few = {"CartPole": TASKS["CartPole"]._replace(steps=64), "FrozenLake": TASKS["FrozenLake"]}
    monkeypatch.setattr(evaluation, "TASKS", few)
    monkeypatch.setattr(evaluation, "_N_CALIBRATION", 60)
    monkeypatch.setattr(evaluation, "_N_LEVELS", 4)
    options = EvaluationOptions(
        seeds=1, tasks="CartPole,FrozenLake", transitions=3000, returns=120, max_iter=10
    )
    summary = evaluation.run(options, workplace(tmp_path))
    assert list(summary.tasks) == list(few)
    for task in summary.tasks.values():
        (scores,) = [seed.scores for seed in task.per_seed]
        assert list(scores) == list(METHODS)
        assert all((s.w1 is None) == (m == FQE) for m, s in scores.items())
        assert 0 <= task.per_seed[0].coverage <= 1
    lake = summary.tasks["FrozenLake"]
    assert lake.mean_of(OURS, "w1") < 0.05
    assert lake.mean_of(EPISODES, "w1") < 0.1
    page = report_of("evaluation", summary, tmp_path)
    assert "Distance to fresh returns" in page
    assert "conformal coverage" in page
    # What is finished is kept.
    again = evaluation.run(options, workplace(tmp_path))
    assert again.tasks == summary.tasks
