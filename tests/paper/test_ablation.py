"""The ablation: its points, its table, its claims."""

from pathlib import Path

import numpy as np
import pandas as pd

from bellman_diffusion.paper.experiments import ablation
from bellman_diffusion.paper.experiments.ablation import POINTS, AblationOptions, AblationSummary
from bellman_diffusion.paper.table_evaluation import TableCell, TableRow, TabularSettings
from bellman_diffusion.paper.uci_cases import Case
from tests.paper.helpers import findings, report_of, workplace


def test_points_are_run_kept_and_reported(tmp_path, monkeypatch):
    x = np.random.default_rng(0).normal(size=(200, 2))
    frame = pd.DataFrame(x, columns=["a", "b"])
    monkeypatch.setattr(Case, "read", lambda _: (frame, np.arange(200)))
    # Each point is a program of its own: two are enough.
    monkeypatch.setattr(ablation, "POINTS", (POINTS[0], POINTS[-1]))
    settings = TabularSettings(most_compared=40, least_drawn=40, max_iter=50)
    options = AblationOptions(seed=3, seeds=1, tables="abalone")
    summary = ablation.run(options, workplace(tmp_path), settings)
    assert ablation.run(options, workplace(tmp_path), settings) == summary
    page = report_of("ablation", summary, tmp_path)
    assert "Abalone" in page
    assert page.count("<tr>") == 3


def row(*w1):
    """A point's figures on these seeds, with a floor of 1; none where a seed has no rows."""
    return TableRow.of(
        [
            TableCell(failed="…", seconds=1.0)
            if w is None
            else TableCell(w1=w, w1_floor=1.0, mmd=0.0, mmd_floor=0.0, dcr_share=0.5, seconds=1.0)
            for w in w1
        ]
    )


def text_of(tables):
    summary = AblationSummary(seeds=[0, 1, 2], tables={"abalone": tables})
    return summary, ablation.sections(summary, Path("figures"))[0].text


def test_the_text_names_the_best_variance_and_the_gain_of_slices():
    """Three slices against one, seed by seed: the better of two and three would be chosen by chance."""
    names = [p.name for p in POINTS]
    figures = zip(names, (1.0, 1.1, 0.8, 1.2, 0.7, 0.9), strict=True)
    rows = {name: row(w, 2 * w, 3 * w) for name, w in figures}
    nothing = {name: row(None, None, None) for name in names}
    tables = {"paper": nothing, "default": rows, "unsliced": {names[0]: row(1.0, 2.0, 3.0)}}
    _, text = text_of(tables)
    none, ours, unsliced = text.splitlines()[2:]
    assert none.endswith("stabilised: no rows.")
    assert "best ε 0.1, the worst 50.0% above it" in ours
    assert "three slices 10.0% ± 0.0% nearer than one" in ours
    assert "without slices: 2.000 ± 0.577 (2.00 × floor); with them no rows for 3 seeds" in unsliced
    tables |= {"paper": rows, "unsliced": {names[0]: row(2.0, 4.0, 6.0)}}
    summary, text = text_of(tables)
    assert "slices bring it 50% ± 0% nearer" in text
    claim = "Slices make the model much more stable"
    assert findings("ablation", summary.to_json())[claim].verdict == "reproduced"
    tables["unsliced"] = {names[0]: row(0.9, 2.1, 3.1)}
    summary, _ = text_of(tables)
    assert findings("ablation", summary.to_json())[claim].verdict == "not reproduced"
