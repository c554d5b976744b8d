"""Train on synthetic, test on real, with TabDDPM's sizes."""

import numpy as np
import pandas as pd
import pytest

from bellman_diffusion.data.uci import UciTable
from bellman_diffusion.paper.experiments import usefulness
from bellman_diffusion.paper.experiments.usefulness import UsefulnessOptions
from tests.paper.helpers import report_of, workplace


def test_rows_are_split_by_size_and_evaluated_by_what_they_teach(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    x = rng.normal(size=400)
    table = pd.DataFrame({"x": x, "Rings": 2 * x + 0.1 * rng.normal(size=400)})
    monkeypatch.setattr(UciTable, "read", lambda _: table)
    monkeypatch.setattr(usefulness, "N_LEARNED", 240)
    monkeypatch.setattr(usefulness, "N_VALIDATION", 60)
    monkeypatch.setattr(usefulness, "N_SYNTHETIC", 300)
    options, work = UsefulnessOptions(seed=3, seeds=2, max_iter=300), workplace(tmp_path)
    summary = usefulness.run(options, work)
    assert summary.real > 0.9
    assert summary.tstr == pytest.approx(summary.real, abs=0.15)
    assert usefulness.run(options, work) == summary
    page = report_of("usefulness", summary, tmp_path)
    assert page.count("<tr>") == 7
    assert "TabDDPM" in page
