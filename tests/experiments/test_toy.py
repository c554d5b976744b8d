import json
from pathlib import Path

import numpy as np
import pytest

from bellman_diffusion.data.toy import TOY_SETS
from bellman_diffusion.experiments import toy
from bellman_diffusion.experiments.toy import ToySettings, run_toy, weight_errors
from bellman_diffusion.experiments.toy_fields import field_errors
from bellman_diffusion.report.toy_report import toy_table, write_toy_report

TINY = ToySettings(n_train=400, n_compare=60, n_repeats=2, max_iter=20, n_grid=6)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("toy")
    return out, run_toy(out, seeds=(0, 1), settings=TINY, n_workers=1)


def test_summary_has_the_figures_of_each_set_and_model(finished):
    _, summary = finished
    for name in ("uniform", "mixture", "moons"):
        for figures in (summary[name], summary[name]["paper"], summary[name]["score"]):
            assert {"w1", "w1_floor", "seconds", "lost"} <= figures.keys()
            assert len(figures["per_seed"]) == 2
    assert len(summary["mixture"]["weights"]) == 3
    assert 0 <= summary["uniform"]["gap_share"] <= 1
    assert json.loads(json.dumps(summary)) == summary


def test_means_are_over_seeds(finished):
    _, summary = finished
    per_seed = [cell["w1"] for cell in summary["moons"]["per_seed"]]
    np.testing.assert_allclose(summary["moons"]["w1"], np.mean(per_seed))
    errors = [cell["weight_error"] for cell in summary["mixture"]["per_seed"]]
    np.testing.assert_allclose(summary["mixture"]["weight_error"], np.mean(errors))


def test_a_second_run_takes_the_finished_cells(finished, monkeypatch):
    out, summary = finished

    def never(*args):
        raise AssertionError("a finished cell was run again")

    monkeypatch.setattr(toy, "run_cell", never)
    assert run_toy(out, seeds=(0, 1), settings=TINY, n_workers=1) == summary


def test_report_holds_its_pictures_and_asks_for_nothing_else(finished):
    out, summary = finished
    page = write_toy_report(Path(out), summary, "bellman reproduce toy").read_text()
    assert page.count("data:image/png;base64,") == 6
    assert "http" not in page
    assert len(toy_table(summary).rows) == 12


def test_weights_of_score_models_are_those_of_the_worst_start(finished):
    """Seed by seed: errors of opposite signs do not make up for each other."""
    _, summary = finished
    for cell in summary["mixture"]["score"]["per_seed"]:
        both = np.array([cell["weights"], cell["weights_normal_start"]])
        assert cell["weight_error"] == pytest.approx(np.abs(both - [0.45, 0.45, 0.1]).max())
    errors, score = summary["weight_errors"], summary["mixture"]["score"]
    assert errors["one_level"] == score["weight_error"]
    assert weight_errors(None, score) is None


def test_figures_without_their_panels_are_made_again(tmp_path):
    cells = ("default",)
    summary = run_toy(tmp_path, models=cells, settings=TINY, n_workers=1)
    (tmp_path / "cells" / "moons-default-0.npz").unlink()
    again = run_toy(tmp_path, models=cells, settings=TINY, n_workers=1)
    assert (tmp_path / "cells" / "moons-default-0.npz").exists()
    assert again["moons"]["w1"] == summary["moons"]["w1"]


@pytest.mark.parametrize("law", TOY_SETS, ids=lambda law: law.name)
def test_errors_of_the_true_fields_are_none_and_factors_do_not_count(law):
    data = law.draw(500, np.random.default_rng(0))
    n = 60 if data.shape[1] > 1 else 6000
    ends = zip(data.min(axis=0) - 1, data.max(axis=0) + 1, strict=True)
    axes = [np.linspace(*end, n) for end in ends]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, data.shape[1])
    p, slope = law.density(grid), law.gradient(grid)
    g = np.zeros_like(grid) if slope is None else slope
    errors = field_errors(law, {"grid": grid, "s": 3 * p, "g": 3 * g})
    assert errors["scalar_error"] < 0.02
    assert (errors["gradient_error"] is None) == (slope is None)
    assert slope is None or errors["gradient_error"] < 0.02
    twice = {"grid": grid, "density": 2 * p, "score": np.zeros_like(grid)}
    errors = field_errors(law, twice)
    assert errors["scalar_error"] == pytest.approx(1)
    assert slope is None or errors["gradient_error"] == pytest.approx(1)
