"""The five UCI tables: what is read, and which columns were chosen by which rule."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bellman_diffusion.data.uci import TABLES

SHAPES = {
    "abalone": (4177, 9),
    "telemonitoring": (5875, 22),
    "mushroom": (8124, 23),
    "parkinsons": (195, 23),
    "wine": (1599, 12),
}
PAPER_DIMENSIONS = {"abalone": 7, "telemonitoring": 16, "mushroom": 5, "parkinsons": 15, "wine": 10}

needs_data = pytest.mark.skipif(
    not (Path(os.environ.get("BELLMAN_DATA_DIR", "")) / "abalone.data").is_file(),
    reason="BELLMAN_DATA_DIR does not hold the UCI tables",
)


@needs_data
@pytest.mark.parametrize("name", TABLES)
def test_tables_have_the_published_shape_and_the_papers_dimension(name):
    table = TABLES[name]
    assert table.read().shape == SHAPES[name]
    assert table.read_paper_columns().shape == (SHAPES[name][0], PAPER_DIMENSIONS[name])
    assert not table.read_paper_columns().isna().any().any()


@needs_data
def test_missing_values_are_found():
    missing = TABLES["mushroom"].read().isna().sum()
    assert missing["stalk-root"] == 2480
    assert missing.sum() == 2480


@needs_data
def test_the_columns_are_those_of_the_stated_rules():
    wine = TABLES["wine"]
    assert least_correlated(wine.read().drop(columns="quality"), 10) == list(wine.paper_columns)
    parkinsons = TABLES["parkinsons"]
    measures = parkinsons.read().drop(columns="status")
    assert least_correlated(measures, 15) == list(parkinsons.paper_columns)
    mushroom = TABLES["mushroom"]
    attributes = mushroom.read().drop(columns="class")
    assert highest_entropy(attributes, 5) == list(mushroom.paper_columns)


def least_correlated(frame: pd.DataFrame, n_columns: int) -> list[str]:
    names = list(frame.columns)
    while len(names) > n_columns:
        r = np.abs(np.corrcoef(frame[names].to_numpy(float).T))
        np.fill_diagonal(r, 0)
        pair = np.unravel_index(r.argmax(), r.shape)
        worse = max(pair, key=lambda i: r[i].sum())
        names.pop(int(worse))
    return names


def highest_entropy(frame: pd.DataFrame, n_columns: int) -> list[str]:
    def entropy(name: str) -> float:
        shares = frame[name].value_counts(normalize=True).to_numpy()
        return float(-(shares * np.log(shares)).sum())

    chosen = sorted(frame.columns, key=entropy, reverse=True)[:n_columns]
    return [name for name in frame.columns if name in chosen]
