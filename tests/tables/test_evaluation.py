"""Figures of rows that are known to be good, copied, or wrong."""

import numpy as np
import pandas as pd
import pytest

from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.tables import evaluate_rows, find_schema
from bellman_diffusion.tables.usefulness import usefulness
from tests.tables.frames import passengers

REAL = passengers(600, seed=1)
SCHEMA = find_schema(REAL)
LEARNED, HELD_OUT = REAL.iloc[:300], REAL.iloc[300:]


def test_fresh_rows_of_the_same_law_are_at_the_floor():
    result = evaluate_rows(passengers(300, seed=2), LEARNED, HELD_OUT, SCHEMA, target="Survived")
    # Tolerances: three deviations over seeds, as measured on 20 of them.
    assert result.w1 / result.w1_floor == pytest.approx(1, abs=0.1)
    assert result.w2 / result.w2_floor == pytest.approx(1, abs=0.1)
    assert abs(result.mmd2) < 0.005
    assert result.dcr_share == pytest.approx(0.5, abs=0.07)
    assert result.membership_auc == pytest.approx(0.5, abs=0.07)
    assert result.usefulness.figure == "accuracy"
    assert result.usefulness.synthetic == pytest.approx(result.usefulness.real, abs=0.08)
    assert len(result.columns) == 9
    assert len(result.pairs) == 36


def test_copies_are_found_out():
    result = evaluate_rows(LEARNED, LEARNED, HELD_OUT, SCHEMA)
    assert result.dcr_share > 0.95
    assert result.membership_auc > 0.95


def test_wrong_rows_are_far_away():
    wrong = passengers(300, seed=2)
    wrong["Fare"] = wrong["Fare"].iloc[::-1].to_numpy() * 3
    wrong["Sex"] = "male"
    result = evaluate_rows(wrong, LEARNED, HELD_OUT, SCHEMA, target="Fare")
    by_name = {d.name: d for d in result.columns}
    assert result.w1 > 1.3 * result.w1_floor
    assert by_name["Fare"].value > 5 * by_name["Fare"].floor
    male = (HELD_OUT["Sex"] == "male").mean()
    assert by_name["Sex"].value == pytest.approx(1 - male, abs=1e-9)
    assert result.usefulness.figure == "R²"
    assert result.usefulness.synthetic < result.usefulness.real


def test_nothing_is_said_of_copying_where_the_rows_learned_from_are_not_known():
    result = evaluate_rows(passengers(100, 2), LEARNED, HELD_OUT, SCHEMA, copies=False)
    assert result.dcr_share is None
    assert result.to_json()["dcr_share"] is None


def test_too_few_rows_are_refused():
    with pytest.raises(InvalidInputError, match="at least 5"):
        evaluate_rows(LEARNED, LEARNED, HELD_OUT.head(3), SCHEMA)


def test_json_has_the_promised_figures():
    values = evaluate_rows(passengers(100, 2), LEARNED, HELD_OUT, SCHEMA).to_json()
    for name in ("w1", "w1_floor", "w2", "mmd2", "tstr", "dcr_share"):
        assert np.isscalar(values[name]) or values[name] is None


def test_rows_that_are_nearly_all_equal_can_be_compared():
    """More than half of the pairs of rows are equal: their median distance is no width."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.uniform(size=(300, 3)) < 0.05, columns=list("abc"))
    result = evaluate_rows(frame, frame, frame, find_schema(frame))
    assert abs(result.mmd2) < 0.05


def test_a_level_of_one_row_can_be_foretold_from_many():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=10_500), "y": "common"})
    frame.loc[::2, "y"] = "other"
    frame.loc[0, "y"] = "rare"
    assert usefulness(frame, frame, frame, find_schema(frame)) is not None


def test_a_last_column_that_cannot_be_foretold_is_left_out():
    frame = pd.DataFrame({"x": np.arange(400.0), "y": [f"n{i % 200}" for i in range(400)]})
    schema = find_schema(frame)
    assert usefulness(frame, frame, frame, schema) is None
    with pytest.raises(InvalidInputError, match="200 levels"):
        usefulness(frame, frame, frame, schema, "y")
    gaps = frame.assign(y=[1.5, *[None] * 399])
    assert usefulness(gaps, gaps, gaps, find_schema(gaps)) is None
