"""Train on synthetic, test on real, with TabDDPM's sizes."""

import numpy as np
import pandas as pd
import pytest

from bellman_diffusion.data.uci import UciTable
from bellman_diffusion.experiments import usefulness
from bellman_diffusion.report.usefulness_report import usefulness_table, write_usefulness_report


def test_rows_are_split_by_size_and_judged_by_what_they_teach(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    x = rng.normal(size=400)
    table = pd.DataFrame({"x": x, "Rings": 2 * x + 0.1 * rng.normal(size=400)})
    monkeypatch.setattr(UciTable, "read", lambda _: table)
    monkeypatch.setattr(usefulness, "N_LEARNED", 240)
    monkeypatch.setattr(usefulness, "N_VALIDATION", 60)
    monkeypatch.setattr(usefulness, "N_SYNTHETIC", 300)
    summary = usefulness.run_usefulness(tmp_path, [3, 4], max_iter=300, n_workers=1)
    assert summary["real"] > 0.9
    assert summary["tstr"] == pytest.approx(summary["real"], abs=0.15)
    assert usefulness.run_usefulness(tmp_path, [3, 4], max_iter=300, n_workers=1) == summary
    assert len(usefulness_table(summary).rows) == 6
    page = write_usefulness_report(tmp_path, summary, "bellman reproduce usefulness")
    assert "TabDDPM" in page.read_text()
