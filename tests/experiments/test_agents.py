"""Agents on other environments, small: figures, report, resume."""

import json

import pytest

from bellman_diffusion.experiments import agents
from bellman_diffusion.experiments.agents import CASES, run_agents
from bellman_diffusion.report.environments_report import (
    cliff_table,
    environments_table,
    write_environments_report,
)


@pytest.fixture
def tiny(monkeypatch):
    """Small networks."""
    default = agents.default_config
    small = {"hidden": (8,), "batch_size": 16, "updates_per_round": 1, "eval_episodes": 2}
    monkeypatch.setattr(agents, "default_config", lambda env, **kw: default(env, **(small | kw)))
    monkeypatch.setattr(agents, "_CLIFF_EPISODES", 20)


def test_every_agent_has_its_figures_and_is_trained_once(tiny, tmp_path, monkeypatch):
    chosen = ("frozenlake", "windycliff")
    summary = run_agents(tmp_path, [0, 1], chosen, steps=1200)
    assert summary["frozenlake"]["bellman"]["bar"] == CASES["frozenlake"].bar
    assert len(summary["frozenlake"]["bellman"]["returns"]) == 2
    careful = summary["windycliff"]["bellman by cvar:0.1"]
    assert all(one["worst"] <= one["mean"] for one in careful["cliff"])
    report = write_environments_report(tmp_path, summary, "bellman reproduce agents")
    assert report.stat().st_size > 10_000
    assert len(environments_table(summary).rows) == 3
    assert len(cliff_table(summary).rows) == 4
    # What is there is not made again.
    monkeypatch.setattr(agents, "_cell", lambda *_: pytest.fail("trained again"))
    again = run_agents(tmp_path, [0, 1], chosen, steps=1200)
    assert json.dumps(again) == json.dumps(summary)
