"""The ablation: its points, its table, its verdict."""

from functools import partial

import numpy as np
import pandas as pd

from bellman_diffusion.experiments.ablation import POINTS, run_ablation
from bellman_diffusion.experiments.table_judge import TabularSettings
from bellman_diffusion.experiments.uci_cases import Case
from bellman_diffusion.report.ablation_report import (
    ablation_table,
    ablation_verdict,
    write_ablation_report,
)


def test_points_are_run_kept_and_reported(tmp_path, monkeypatch):
    x = np.random.default_rng(0).normal(size=(200, 2))
    frame = pd.DataFrame(x, columns=["a", "b"])
    monkeypatch.setattr(Case, "read", lambda _: (frame, np.arange(200)))
    # Each point is a program of its own: two are enough.
    some = (POINTS[0], POINTS[-1])
    monkeypatch.setattr("bellman_diffusion.experiments.ablation.POINTS", some)
    monkeypatch.setattr("bellman_diffusion.report.ablation_report.POINTS", some)
    settings = TabularSettings(most_compared=40, least_drawn=40, max_iter=50)
    run = partial(run_ablation, tmp_path, [3], tables=("abalone",), settings=settings, n_workers=1)
    summary = run()
    assert run() == summary
    assert len(ablation_table(summary).rows) == 2
    page = write_ablation_report(tmp_path, summary, "bellman reproduce ablation").read_text()
    assert "Abalone" in page


def test_the_verdict_names_the_best_variance_and_the_gain_of_slices():
    w1 = dict(zip([p.name for p in POINTS], (1.0, 1.1, 0.8, 1.2, 0.95, 0.9), strict=True))
    rows = {name: {"w1": w, "w1_over_floor": w} for name, w in w1.items()}
    nothing = {name: {"w1": None, "w1_over_floor": None} for name in w1}
    text = ablation_verdict({"seeds": [0], "abalone": {"paper": nothing, "default": rows}})
    assert "stabilised: no rows" in text
    assert "best ε 0.1, the worst 50% above" in text
    assert "10.0% better" in text
