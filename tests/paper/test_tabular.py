"""Table 1: its splits, its cells, and its verdicts."""

import numpy as np
import pandas as pd
import pytest

from bellman_diffusion.data.uci import TABLES
from bellman_diffusion.paper import table_evaluation
from bellman_diffusion.paper.experiments import tabular
from bellman_diffusion.paper.experiments.tabular import TabularOptions, TabularSummary
from bellman_diffusion.paper.table_evaluation import (
    TableCell,
    TableRow,
    TabularSettings,
    copying,
    run_cell,
)
from bellman_diffusion.paper.table_models import MODELS
from bellman_diffusion.paper.uci_cases import Case, split
from tests.paper.helpers import report_of, workplace

TINY = TabularSettings(most_compared=60, least_drawn=120, max_iter=50)


def test_groups_are_never_split():
    groups = np.random.default_rng(0).integers(0, 40, 600)
    frame = pd.DataFrame({"row": np.arange(600)})
    parts = split(frame, groups, seed=3)
    rows = [set(part["row"]) for part in parts]
    assert sorted(set().union(*rows)) == list(range(600))
    held_out = set(groups[sorted(rows[2])])
    assert not held_out & set(groups[sorted(rows[0] | rows[1])])
    assert len(rows[2]) == pytest.approx(120, abs=20)


def test_the_same_seed_splits_alike():
    frame, groups = pd.DataFrame({"row": np.arange(100)}), np.arange(100)
    first, again, other = (split(frame, groups, seed) for seed in (1, 1, 2))
    pd.testing.assert_frame_equal(first.held_out, again.held_out)
    assert not first.held_out.equals(other.held_out)


def test_copies_are_found_though_rows_occur_twice():
    rng = np.random.default_rng(0)
    known, fresh, third = rng.normal(size=(3, 200, 4))
    twice = np.concatenate([fresh, fresh[:60]])
    assert copying(third, known, twice, distinct=True) == pytest.approx(0.5, abs=0.06)
    assert copying(known[:100], known, fresh, distinct=True) > 0.95


def test_the_tables_have_the_papers_dimensions():
    sizes = {"abalone": 7, "telemonitoring": 16, "mushroom": 5, "parkinsons": 15, "wine": 10}
    for name, size in sizes.items():
        assert len(TABLES[name].paper_columns) == size


@pytest.fixture
def small(monkeypatch):
    """A table in place of a published one."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 2)) @ [[1.0, 0.5], [0.0, 1.0]]
    frame = pd.DataFrame({"a": x[:, 0], "b": np.exp(2 * x[:, 1])})
    monkeypatch.setattr(Case, "read", lambda _: (frame, np.arange(300)))


def test_cells_are_kept_and_put_together(small, tmp_path, monkeypatch):
    # How it is chosen has tests of its own, and takes its time.
    monkeypatch.setattr(table_evaluation, "choose_transform", lambda *_: "power")
    models = "bellman,mixture,interpolation"
    options = TabularOptions(seed=5, seeds=2, tables="wine", models=models)
    summary = tabular.run(options, workplace(tmp_path), TINY)
    assert TabularSummary.from_json(summary.to_json()) == summary
    wine = summary.tables["wine"]
    assert wine["interpolation"].w1 > 0
    assert wine["bellman"].per_seed[0].transform == "power"
    assert all(0 <= row.dcr_share <= 1 for row in wine.values())

    def forbidden(*_):
        raise AssertionError("a finished cell was run again")

    monkeypatch.setattr(table_evaluation, "run_cell", forbidden)
    assert tabular.run(options, workplace(tmp_path), TINY) == summary
    page = report_of("tabular", summary, tmp_path)
    assert page.count("<tr>") == 4
    assert "Red Wine" in page


def normal_parts():
    """A table of two correlated normal columns, which every baseline can learn."""
    x = np.random.default_rng(0).normal(size=(300, 2)) @ [[1.0, 0.5], [0.0, 1.0]]
    return split(pd.DataFrame(x, columns=["a", "b"]), np.arange(300), 0)


@pytest.mark.parametrize(
    ("model", "most"),
    [("ddpm", 1.3), ("score", 1.6), ("paper", 1.3), ("kernel", 1.4), ("interpolation", 1.2)],
)
def test_every_baseline_comes_near_the_rows_held_out(model, most):
    """W1 over what real rows have, means over ten samples of 60; a few training steps."""
    settings = TabularSettings(most_compared=60, least_drawn=600, max_iter=500)
    cell = run_cell(MODELS[model], "plain", normal_parts(), 0, settings)
    assert cell.failed is None
    assert 0.8 < cell.ratio < most
    assert abs(cell.mmd - cell.mmd_floor) < 30
    # Interpolation copies by half; the others have few rows to copy and little time for it.
    assert 0.42 < cell.dcr_share < (0.75 if model == "interpolation" else 0.65)


def test_a_model_that_loses_its_rows_says_how_many():
    def losing(share):
        def model(task):
            rows = np.resize(task.rows, (task.n_drawn, task.rows.shape[1]))
            rows[: int(share * task.n_drawn)] = np.nan
            return rows

        return model

    failed = run_cell(losing(0.11), "plain", normal_parts(), 0, TINY)
    assert failed.failed == "13 of 120 rows are not finite"
    assert failed.w1 is None
    # Fewer than a tenth are replaced by others.
    kept = run_cell(losing(0.09), "plain", normal_parts(), 0, TINY)
    assert kept.ratio < 1.5


def test_the_verdict_counts():
    def row(w1, share):
        cell = TableCell(w1=w1, w1_floor=1.0, mmd=0.0, mmd_floor=0.0, dcr_share=share, seconds=1.0)
        return TableRow.of([cell])

    models = {"bellman": row(1.05, 0.51), "ddpm": row(1.2, 0.5), "interpolation": row(1.0, 0.7)}
    others = {"bellman": row(1.2, 0.5), "ddpm": row(1.1, 0.5)}
    summary = TabularSummary(seeds=[0], tables={"wine": models, "abalone": others})
    text = tabular._verdict(summary)
    assert "within 1.08 × of the floor on 1 of 2" in text
    assert "nearer than DDPM on 1" in text
    assert "do not copy on 1" in text
