"""The Bellman experiments in small: their figures are there, and their claims come out as stated."""

import numpy as np
import pytest

from bellman_diffusion.returns.mdp import mean_return, random_policy
from bellman_diffusion.returns.reference import atoms_at_the_end
from bellman_diffusion.experiments.frozenlake import trajectory
from bellman_diffusion.experiments.linearity import LinearitySettings, run_linearity
from bellman_diffusion.experiments.maze_chain import WAYS, ChainSettings, maze, run_chain
from bellman_diffusion.experiments.planning import PlanningSettings, run_planning
from bellman_diffusion.experiments.treasure import (
    GAMMA,
    TreasureSettings,
    run_treasure,
    simulate,
    treasure_grid,
)
from bellman_diffusion.report.bellman_report import (
    write_chain_report,
    write_linearity_report,
    write_planning_report,
    write_treasure_report,
)


def test_only_the_fields_are_backed_up_without_bias(tmp_path):
    settings = LinearitySettings(n_backups=3, n_grid=801, n_samples=500)
    summary, pictures = run_linearity(tmp_path, 0, settings)
    assert summary["curves"]["fields (density and gradient), exact"]["w1_worst"][-1] < 1e-3
    assert summary["curves"]["energy (EBM), exact"]["w1_worst"][0] > 0.1
    # A flow's mean log-density is no longer a density: Jensen takes mass away.
    assert summary["curves"]["log-density (flow), exact"]["least_mass"] < 0.5
    report = write_linearity_report(tmp_path, summary, pictures, "test")
    assert "After one exact backup the fields are off by" in report.read_text()


def test_fresh_trajectories_cost_more_and_more_than_one_step_updates(tmp_path):
    summary = run_chain(tmp_path, 0, ChainSettings(blocks=(8, 16, 32), n_seeds=2))
    assert summary["exponent"]["fresh trajectories"] > summary["exponent"]["one step"]
    assert set(summary["steps"]) == set(WAYS)
    assert write_chain_report(tmp_path, summary, "test").exists()


def test_the_maze_pays_with_the_probability_of_never_falling():
    n = 10
    chain = maze(n)
    law = atoms_at_the_end(chain, 1.0)
    right, fall = 0.8, 1 / n
    reach = (right / (right + fall)) ** (n - 1)
    assert law.probabilities[0][law.atoms == 1.0].sum() == pytest.approx(reach)


def test_joint_law_of_two_treasures_has_the_simulated_marginals(tmp_path):
    """Relative W1 below 0.02 and correlation within 0.03 of 5,000 episodes, with 50 functions."""
    settings = TreasureSettings(functions=(50,), histograms=(7,), n_episodes=5000)
    summary, extras = run_treasure(tmp_path, 0, settings)
    fields, histogram = summary["rows"]
    assert max(fields["w1_relative"]) < 0.02
    assert fields["correlation_error"] < 0.03
    assert min(histogram["w1_relative"]) > max(fields["w1_relative"])
    assert write_treasure_report(tmp_path, summary, extras, "test").exists()


def test_simulated_treasure_has_the_mean_of_its_bellman_equation():
    """20,000 episodes, four standard errors."""
    mdp = treasure_grid()
    chain = mdp.under(random_policy(mdp))
    returns = simulate(chain, 0, 20_000, 0)
    error = np.abs(returns.mean(axis=0) - mean_return(chain, GAMMA)[0])
    assert np.all(error < 4 * returns.std(axis=0) / np.sqrt(20_000))


def test_the_trajectory_ends_beside_the_goal():
    frames = trajectory(0)
    assert len(frames) == 6
    assert frames[0].state == 0
    assert frames[-1].state == 14
    assert frames[0].picture.shape[2] == 3


@pytest.mark.filterwarnings("ignore:the support")
def test_planning_from_transitions_reports_every_mode(tmp_path):
    settings = PlanningSettings(
        lake_samples=2000, lake_functions=11, cart_samples=1500, cart_functions=11, max_iter=250
    )
    summary = run_planning(tmp_path, (0,), settings)
    assert set(summary["frozenlake"]) == {"default", "c51", "paper"}
    assert 0 <= summary["cartpole"]["coverage_90"] <= 1
    assert write_planning_report(tmp_path, summary, "test").exists()


def test_a_stopped_experiment_goes_on_with_what_is_missing(tmp_path, monkeypatch):
    settings = ChainSettings(blocks=(8, 16), n_seeds=1)
    first = run_chain(tmp_path, 0, settings)
    monkeypatch.setattr(
        "bellman_diffusion.experiments.maze_chain._all_ways",
        lambda *_: pytest.fail("a finished cell ran again"),
    )
    again = run_chain(tmp_path, 0, settings)
    assert again["steps"] == first["steps"]
