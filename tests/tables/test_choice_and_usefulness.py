"""How transforms are chosen and how usefulness is scored: by rows that nothing was learned from."""

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier

from bellman_diffusion.recipe import make_recipe
from bellman_diffusion.tables import choice
from bellman_diffusion.tables import usefulness as usefulness_module
from bellman_diffusion.tables.choice import TransformDistance, choose_transform
from bellman_diffusion.tables.coding import TRANSFORMS
from bellman_diffusion.tables.schema import find_schema
from bellman_diffusion.tables.usefulness import usefulness


def incomes(n, seed):
    """A heavy-tailed column and a plain one."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"income": np.exp(1.5 * rng.normal(size=n)), "age": rng.normal(size=n)})


LEARNED, HELD_OUT = incomes(400, 0), incomes(200, 1)
SCHEMA = find_schema(LEARNED)


@pytest.mark.parametrize("best", TRANSFORMS)
def test_the_transform_whose_rows_come_nearest_is_chosen(monkeypatch, best):
    """Rows of the distribution itself for one transform, rows that are moved for the others."""

    def drawn(transform, *_):
        rows = incomes(400, 2)
        return rows if transform == best else rows + 3.0

    monkeypatch.setattr(choice, "_draw", drawn)
    assert SCHEMA.heavy_tailed
    assert choose_transform(LEARNED, HELD_OUT, SCHEMA, 0, make_recipe()) == best


def test_far_out_rows_count_by_values_and_the_many_others_by_ranks():
    distance = TransformDistance(LEARNED, HELD_OUT, SCHEMA, 0)
    right = incomes(200, 3)
    base = distance(right)
    # A few rows a hundred times as far out: no rank but the highest changes.
    far = right.assign(income=right["income"].where(right["income"] < 20, 100 * right["income"]))
    assert (far["income"] > 1000).sum() <= 10
    assert distance(far) > 3 * base
    # Small incomes that are all alike: their ranks change by much, their values by little.
    flat = right.assign(income=right["income"].where(right["income"] > 1, 0.5))
    assert distance(flat) > 1.2 * base


def rows_with_a_rule(n, seed, flipped=False):
    """y says whether x is positive."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    y = (x > 0) != flipped
    return pd.DataFrame({"x": x, "z": rng.normal(size=n), "y": np.where(y, "yes", "no")})


@pytest.mark.parametrize(
    ("changes", "low", "high"), [({}, 0.9, 1.0), ({"flipped": True}, 0.0, 0.1)]
)
def test_usefulness_is_scored_on_rows_held_out(monkeypatch, changes, low, high):
    """Trees that learn wrong labels by heart are right of their own rows, and wrong of real ones."""
    # One tree in place of a hundred: quick, and it learns its rows by heart as well.
    monkeypatch.setattr(
        usefulness_module, "HistGradientBoostingClassifier", lambda **_: DecisionTreeClassifier()
    )
    real, fresh = rows_with_a_rule(150, 1), rows_with_a_rule(150, 2)
    found = usefulness(rows_with_a_rule(150, 3, **changes), real, fresh, find_schema(real))
    assert (found.target, found.figure) == ("y", "accuracy")
    assert low <= found.synthetic <= high
    assert found.real >= 0.9
