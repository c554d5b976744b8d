"""The synthetic sets, small: figures by set and model, their report, their resume."""

import numpy as np
import pytest

from bellman_diffusion.data.toy import TOY_SETS
from bellman_diffusion.paper import toy_cells
from bellman_diffusion.paper.experiments import toy
from bellman_diffusion.paper.experiments.toy import ToyOptions, ToySummary
from bellman_diffusion.paper.toy_cells import ToySettings, field_errors
from tests.paper.helpers import report_of, workplace

TINY = ToySettings(n_train=400, n_compare=60, n_repeats=2, max_iter=20, n_grid=6)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("toy")
    return out, toy.run(ToyOptions(seeds=2), workplace(out), TINY)


def test_summary_has_the_figures_of_each_set_and_model(finished):
    _, summary = finished
    for distribution in TOY_SETS:
        models = summary.of(distribution).models()
        assert list(models) == ["default", "paper", "score", "score-flow"]
        for row in models.values():
            assert len(row.per_seed) == 2
            assert row.w1_floor > 0
    assert len(summary.mixture.weights) == 3
    assert 0 <= summary.uniform.gap_share <= 1
    assert ToySummary.from_json(summary.to_json()) == summary
    assert "score-flow" in summary.to_json()["moons"]


def test_means_are_over_seeds(finished):
    _, summary = finished
    per_seed = [cell.w1 for cell in summary.moons.per_seed]
    np.testing.assert_allclose(summary.moons.w1, np.mean(per_seed))
    errors = [cell.weight_error for cell in summary.mixture.per_seed]
    np.testing.assert_allclose(summary.mixture.weight_error, np.mean(errors))


def test_a_second_run_takes_the_finished_cells(finished, monkeypatch):
    out, summary = finished

    def never(*args):
        raise AssertionError("a finished cell was run again")

    monkeypatch.setattr(toy_cells, "run_cell", never)
    assert toy.run(ToyOptions(seeds=2), workplace(out), TINY) == summary


def test_report_holds_its_pictures_and_asks_for_nothing_else(finished):
    out, summary = finished
    page = report_of("toy", summary, out)
    assert page.count("data:image/png;base64,") == 6
    assert "http" not in page
    assert page.count("<tr>") == 13


def test_weights_of_score_models_are_those_of_the_worst_start(finished):
    """Seed by seed: errors of opposite signs do not make up for each other."""
    _, summary = finished
    score = summary.mixture.score
    for cell in score.per_seed:
        both = np.array([cell.weights, cell.weights_normal_start])
        assert cell.weight_error == pytest.approx(np.abs(both - [0.45, 0.45, 0.1]).max())
    assert summary.weight_errors.one_level == score.weight_error


def test_figures_without_their_panels_are_made_again(tmp_path):
    options, work = ToyOptions(models="default"), workplace(tmp_path)
    summary = toy.run(options, work, TINY)
    assert summary.weight_errors is None
    (tmp_path / "cells" / "moons-default-0.npz").unlink()
    again = toy.run(options, work, TINY)
    assert (tmp_path / "cells" / "moons-default-0.npz").exists()
    assert again.moons.w1 == summary.moons.w1


@pytest.mark.parametrize("distribution", TOY_SETS, ids=lambda distribution: distribution.name)
def test_errors_of_the_true_fields_are_none_and_factors_do_not_count(distribution):
    data = distribution.draw(500, np.random.default_rng(0))
    n = 60 if data.shape[1] > 1 else 6000
    ends = zip(data.min(axis=0) - 1, data.max(axis=0) + 1, strict=True)
    axes = [np.linspace(*end, n) for end in ends]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, data.shape[1])
    p, slope = distribution.density(grid), distribution.gradient(grid)
    g = np.zeros_like(grid) if slope is None else slope
    scalar, gradient = field_errors(distribution, {"grid": grid, "s": 3 * p, "g": 3 * g})
    assert scalar < 0.02
    assert (gradient is None) == (slope is None)
    assert slope is None or gradient < 0.02
    twice = {"grid": grid, "density": 2 * p, "score": np.zeros_like(grid)}
    scalar, gradient = field_errors(distribution, twice)
    assert scalar == pytest.approx(1)
    assert slope is None or gradient == pytest.approx(1)
