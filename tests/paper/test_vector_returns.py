"""The experiment on vector rewards, small."""

import json

import numpy as np
import pytest

import tests.environments.two_rewards  # noqa: F401 (registers the task)
from bellman_diffusion.paper.experiments import vector_returns
from bellman_diffusion.paper.experiments.vector_returns import VectorErrors, VectorOptions
from tests.paper.helpers import report_of, workplace


def test_every_component_is_compared_with_fresh_returns(tmp_path, monkeypatch):
    """Loosely: 250 training steps of 2,000 transitions."""
    monkeypatch.setattr(vector_returns, "TASKS", {"tests/Errand-v0": ("minutes", "coins")})
    monkeypatch.setattr(vector_returns, "_GAMMA", 0.8)
    options = VectorOptions(seeds=1, transitions=2000, returns=500, max_iter=250)
    summary = vector_returns.run(options, workplace(tmp_path))
    (found,) = summary.tasks["tests/Errand-v0"]
    assert len(found.w1) == len(found.coverage_90) == 2
    assert max(found.w1) < 0.1
    assert found.correlation_fresh[0][1] == pytest.approx(-1, abs=1e-6)
    assert found.fresh == found.drawn == []
    (cell,) = (tmp_path / "cells").glob("*.json")
    assert np.shape(json.loads(cell.read_text())["figures"]["fresh"]) == (500, 2)
    assert (tmp_path / "figures" / "vector-returns.png").stat().st_size > 0
    assert "minutes, coins" in report_of("vector-returns", summary, tmp_path)


def test_the_correlation_error_is_that_of_the_worst_pair():
    none = {"w1": [], "w1_sum": 0.0, "coverage_90": [], "seconds": 0.0, "drawn": [], "fresh": []}
    said, true = [[1.0, 0.2], [0.2, 1.0]], [[1.0, -0.1], [-0.1, 1.0]]
    errors = VectorErrors(correlation=said, correlation_fresh=true, **none)
    assert errors.correlation_error == pytest.approx(0.3)
