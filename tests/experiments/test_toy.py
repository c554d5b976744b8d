import json
from pathlib import Path

import numpy as np
import pytest

from bellman_diffusion.experiments import toy
from bellman_diffusion.experiments.toy import ToySettings, judge_score_claim, run_toy
from bellman_diffusion.report.toy_report import toy_table, write_toy_report

TINY = ToySettings(n_train=400, n_compare=60, n_repeats=2, max_iter=20, n_grid=6)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("toy")
    return out, run_toy(out, seeds=(0, 1), settings=TINY, quiet=True)


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
    assert summary["moons"]["per_seed"][0]["key"]["model"]["field"] == "noise-conditional"


def test_a_second_run_takes_the_finished_cells(finished, monkeypatch):
    out, summary = finished

    def never(*args):
        raise AssertionError("a finished cell was run again")

    monkeypatch.setattr(toy, "run_cell", never)
    assert run_toy(out, seeds=(0, 1), settings=TINY, quiet=True) == summary


def test_report_holds_its_pictures_and_asks_for_nothing_else(finished):
    out, summary = finished
    page = write_toy_report(Path(out), summary, "bellman reproduce toy").read_text()
    assert page.count("data:image/png;base64,") == 6
    assert "http" not in page
    assert len(toy_table(summary).rows) == 9


def test_score_claim_is_judged_by_the_weights_from_both_starts():
    right = {"weights": [0.45, 0.45, 0.1], "weights_normal_start": [0.46, 0.44, 0.1]}
    wrong = right | {"weights": [0.3, 0.3, 0.4]}
    assert judge_score_claim(right)["holds"] is False
    assert judge_score_claim(wrong)["holds"] is True
    assert judge_score_claim(None) is None
