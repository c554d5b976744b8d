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
from bellman_diffusion.report.ledger import ledger_rows


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


def row(*w1):
    """A point's figures on these seeds, with a floor of 1; none where a seed has no rows."""
    cells = [{"w1": w, "w1_floor": 1.0} if w is not None else {"failed": "…"} for w in w1]
    mean = None if None in w1 else float(np.mean(w1))
    return {
        "w1": mean,
        "w1_over_floor": mean,
        "per_seed": cells,
        "failed": sum(w is None for w in w1),
    }


def test_the_verdict_names_the_best_variance_and_the_gain_of_slices():
    """Three slices against one, seed by seed: the better of two and three would be chosen by chance."""
    names = [p.name for p in POINTS]
    figures = zip(names, (1.0, 1.1, 0.8, 1.2, 0.7, 0.9), strict=True)
    rows = {name: row(w, 2 * w, 3 * w) for name, w in figures}
    nothing = {name: row(None, None, None) for name in names}
    summary = {"paper": nothing, "default": rows, "unsliced": {names[0]: row(1.0, 2.0, 3.0)}}
    none, ours, unsliced = ablation_verdict({"seeds": [0, 1, 2], "abalone": summary}).splitlines()
    assert none.endswith("stabilised: no rows.")
    assert "best ε 0.1, the worst 50.0% above it" in ours
    assert "three slices 10.0% ± 0.0% nearer than one" in ours
    assert "without slices: 2.000 ± 0.577 (2.00 × floor); with them no rows for 3 seeds" in unsliced
    summary["paper"] = rows
    summary["unsliced"] = {names[0]: row(2.0, 4.0, 6.0)}
    assert "slices bring it 50% ± 0% nearer" in ablation_verdict({"abalone": summary})
    claims = {c.text: f for c, f in ledger_rows({"ablation": {"seeds": [0], "abalone": summary}})}
    assert claims["Slices make the model much more stable"].verdict == "reproduced"
    summary["unsliced"] = {names[0]: row(0.9, 2.1, 3.1)}
    claims = {c.text: f for c, f in ledger_rows({"ablation": {"seeds": [0], "abalone": summary}})}
    assert claims["Slices make the model much more stable"].verdict == "not reproduced"
