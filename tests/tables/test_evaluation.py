"""Figures of rows that are known to be good, copied, or wrong."""

import json

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
    result = evaluate_rows(passengers(100, 2), LEARNED, HELD_OUT, SCHEMA, target="Survived")
    values = json.loads(json.dumps(result.to_json()))
    # Those that users look for first come first.
    first = ["w1", "w1_floor", "w2", "mmd2", "dcr_share", "tstr", "tstr_real"]
    assert list(values)[:7] == first
    distances = ("w1", "w1_floor", "w2", "w2_floor", "sliced", "sliced_floor")
    for name in (*first, *distances, "mmd2_floor", "membership_auc"):
        assert type(values[name]) is float, name
        assert np.isfinite(values[name]), name
    assert values["rows"] == 100
    for name in distances:
        assert 0 < values[name] < 10, name
    # In as many rows W2 is no less than W1, and no projection is longer than what is projected.
    assert values["w1"] <= values["w2"]
    assert values["sliced"] <= values["w2"]
    for name in ("dcr_share", "membership_auc"):
        assert 0.3 < values[name] < 0.7, name
    for name in ("tstr", "tstr_real"):
        assert 0.5 < values[name] <= 1, name
    assert abs(values["mmd2"]) < 0.05
    assert (values["tstr"], values["tstr_real"]) == (
        values["usefulness"]["synthetic"],
        values["usefulness"]["real"],
    )
    names = list(REAL.columns)
    assert [column["name"] for column in values["columns"]] == names
    pairs = [f"{a} × {b}" for i, a in enumerate(names) for b in names[i + 1 :]]
    assert [pair["name"] for pair in values["pairs"]] == pairs
    for distance in (*values["columns"], *values["pairs"]):
        assert distance.keys() == {"name", "value", "floor"}
        assert 0 <= distance["value"] <= 1
        assert 0 <= distance["floor"] <= 1


def test_json_has_no_figures_of_what_was_not_asked_for():
    """No copying without the rows learned from, no usefulness of a column that is not foretold."""
    frame = pd.DataFrame({"x": np.arange(400.0), "y": [f"n{i % 200}" for i in range(400)]})
    found = evaluate_rows(frame, frame, frame, find_schema(frame), copies=False)
    values = found.to_json()
    for name in ("dcr_share", "membership_auc", "tstr", "tstr_real", "usefulness"):
        assert values[name] is None, name


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
