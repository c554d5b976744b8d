"""Agents on other environments, small: figures, report, resume."""

import pytest

from bellman_diffusion.paper import agent_cells
from bellman_diffusion.paper.experiments import agents
from bellman_diffusion.paper.experiments.agents import CASES, AgentsOptions
from tests.paper.helpers import report_of, workplace


@pytest.fixture
def tiny(monkeypatch):
    """Small networks."""
    default = agents.default_config
    small = {"hidden": (8,), "batch_size": 16, "updates_per_round": 1, "eval_episodes": 2}
    monkeypatch.setattr(agents, "default_config", lambda env, **kw: default(env, **(small | kw)))
    monkeypatch.setattr(agents, "_CLIFF_EPISODES", 20)


def test_every_agent_has_its_figures_and_is_trained_once(tiny, tmp_path, monkeypatch):
    options = AgentsOptions(seeds=2, steps=1200, envs="frozenlake,windycliff")
    summary = agents.run(options, workplace(tmp_path))
    lake = summary.environments["frozenlake"]["bellman"]
    assert lake.bar == CASES["frozenlake"].bar
    assert len(lake.returns) == 2
    careful = summary.environments["windycliff"]["bellman by cvar:0.1"]
    assert all(one.cvar_10 <= one.mean for one in careful.cliff)
    page = report_of("agents", summary, tmp_path)
    assert page.count("data:image/png") == 2
    # The header and three agents; the header and two seeds of two.
    assert page.count("<tr>") == 4 + 5
    # What is there is not made again.
    monkeypatch.setattr(agent_cells, "train_agents", lambda *_, **__: pytest.fail("trained again"))
    assert agents.run(options, workplace(tmp_path)) == summary
