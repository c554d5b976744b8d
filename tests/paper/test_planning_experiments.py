"""The Bellman experiments in small: their figures are there, and their claims come out as stated."""

import numpy as np
import pytest

from bellman_diffusion.paper.experiment import Options, SeededOptions
from bellman_diffusion.paper.experiments import chain, frozenlake, linearity, planning, treasure
from bellman_diffusion.paper.experiments.chain import FRESH, ONE_STEP, WAYS, ChainOptions, maze
from bellman_diffusion.paper.experiments.planning import PlanningSettings
from bellman_diffusion.paper.experiments.treasure import GAMMA, treasure_grid
from bellman_diffusion.paper.lake import trajectory
from bellman_diffusion.planning.monte_carlo import simulate
from bellman_diffusion.returns.moments import mean_return
from bellman_diffusion.returns.reference import atoms_at_the_end
from bellman_diffusion.returns.tabular_policies import random_policy
from tests.paper.helpers import findings, report_of, workplace


def test_only_the_fields_are_backed_up_without_bias(tmp_path, monkeypatch):
    monkeypatch.setattr(linearity, "_N_BACKUPS", 3)
    monkeypatch.setattr(linearity, "_N_GRID", 801)
    summary = linearity.run(Options(), workplace(tmp_path))
    assert summary.curves["fields (density and gradient), exact"].w1_worst[-1] < 1e-3
    assert summary.curves["energy (EBM), exact"].w1_worst[0] > 0.1
    # A flow's mean log-density is no longer a density: Jensen takes mass away.
    assert summary.curves["log-density (flow), exact"].least_mass < 0.5
    assert "After one exact backup the fields are off by" in report_of(
        "linearity", summary, tmp_path
    )


def test_fresh_trajectories_cost_more_and_more_than_one_step_updates(tmp_path):
    summary = chain.run(ChainOptions(largest=32), workplace(tmp_path), n_seeds=2)
    assert summary.exponent[FRESH] > summary.exponent[ONE_STEP]
    assert set(summary.steps) == set(WAYS)
    assert "N^" in report_of("chain", summary, tmp_path)


def test_the_maze_pays_with_the_probability_of_never_falling():
    n = 10
    chain = maze(n)
    distribution = atoms_at_the_end(chain, 1.0)
    right, fall = 0.8, 1 / n
    reach = (right / (right + fall)) ** (n - 1)
    assert distribution.probabilities[0][distribution.atoms == 1.0].sum() == pytest.approx(reach)


def test_joint_distribution_of_two_treasures_has_the_simulated_marginals(tmp_path):
    """Relative W1 below 0.02 and correlation within 0.03 of 5,000 episodes, with 50 functions."""
    summary = treasure.run(Options(), workplace(tmp_path), (50,), (7,), 5000)
    fields, histogram = summary.rows
    assert max(fields.w1_relative) < 0.02
    assert fields.correlation_error < 0.03
    assert min(histogram.w1_relative) > max(fields.w1_relative)
    assert "gold" in report_of("treasure", summary, tmp_path)


def test_simulated_treasure_has_the_mean_of_its_bellman_equation():
    """20,000 episodes, four standard errors."""
    mdp = treasure_grid()
    chain = mdp.under(random_policy(mdp))
    returns = simulate(chain, GAMMA, 0, 20_000, 0)
    error = np.abs(returns.mean(axis=0) - mean_return(chain, GAMMA)[0])
    assert np.all(error < 4 * returns.std(axis=0) / np.sqrt(20_000))


def test_the_trajectory_ends_next_to_the_goal():
    frames = trajectory(0)
    assert len(frames) == 6
    assert frames[0].state == 0
    assert frames[-1].state == 14
    assert frames[0].picture.shape[2] == 3


TINY = PlanningSettings(
    lake_samples=2000, lake_basis=11, cart_samples=1500, cart_basis=11, max_iter=250
)


@pytest.mark.filterwarnings("ignore:the support")
def test_planning_from_transitions_reports_every_mode(tmp_path):
    summary = planning.run(SeededOptions(), workplace(tmp_path), TINY)
    assert set(summary.frozenlake) == {"default", "c51", "paper"}
    assert 0 <= summary.cartpole.coverage_90 <= 1
    assert "CartPole" in report_of("planning", summary, tmp_path)


def test_the_maze_compares_exact_and_learned_methods(tmp_path, monkeypatch):
    monkeypatch.setattr(frozenlake, "_N_BASIS", (21, 41))
    summary = frozenlake.run(SeededOptions(), workplace(tmp_path), TINY)
    assert frozenlake.FrozenLakeSummary.from_json(summary.to_json()) == summary
    exact = summary.row(frozenlake._DEFAULT)
    assert exact.n == 41
    assert exact.w1_worst < 0.5 * summary.row(frozenlake._C51, 41).w1_worst
    assert summary.learned("paper").n == 11
    page = report_of("frozenlake", summary, tmp_path)
    assert page.count("data:image/png") == 3
    found = findings("frozenlake", summary.to_json())
    claim = "Continuous distributions avoid the errors of C51's discrete ones"
    assert found[claim].verdict in ("reproduced", "better")


def test_a_stopped_experiment_continues_with_what_is_missing(tmp_path, monkeypatch):
    options = ChainOptions(largest=16)
    first = chain.run(options, workplace(tmp_path), n_seeds=1)
    monkeypatch.setattr(chain, "_all_ways", lambda *_: pytest.fail("a finished cell ran again"))
    assert chain.run(options, workplace(tmp_path), n_seeds=1).steps == first.steps
