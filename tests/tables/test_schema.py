"""What columns are found to be."""

import numpy as np
import pandas as pd
import pytest

from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.tables import Schema, find_schema

MIXED = pd.DataFrame(
    {
        "weight": [0.5, 1.25, 3.0, 2.75],
        "rings": [3, 4, 9, 5],
        "age": [30.0, np.nan, 41.0, 22.0],
        "alive": [True, False, True, True],
        "said": ["True", "false", None, "TRUE"],
        "sex": ["F", "M", "F", "I"],
        "born": ["2001-02-03", "1999-12-31", None, "2020-06-01"],
        "when": pd.to_datetime(["2001-02-03", "1999-12-31", "2000-01-01", "2020-06-01"]),
    }
)


def test_kinds_are_found():
    schema = find_schema(MIXED)
    kinds = {column.name: column.kind for column in schema.columns}
    assert kinds == {
        "weight": "number",
        "rings": "integer",
        "age": "integer",
        "alive": "boolean",
        "said": "boolean",
        "sex": "category",
        "born": "date",
        "when": "date",
    }
    assert schema["age"].missing == 0.25
    assert schema["sex"].levels[0] == "F"
    assert schema["weight"].step == pytest.approx(0.25)
    assert (schema["rings"].low, schema["rings"].high) == (3, 9)


def test_kinds_can_be_overruled():
    assert find_schema(MIXED, {"rings": "category"})["rings"].levels == (3, 4, 5, 9)
    with pytest.raises(InvalidInputError, match="no column 'ring'"):
        find_schema(MIXED, {"ring": "category"})
    with pytest.raises(InvalidInputError, match="'colour' is none of number"):
        find_schema(MIXED, {"sex": "colour"})
    with pytest.raises(InvalidInputError, match="'sex' cannot be read as number"):
        find_schema(MIXED, {"sex": "number"})


def test_steps_of_decimals():
    values = {
        "fives": np.array([0.455, 0.35, 0.53]),
        "halves": np.array([0.5, 1.0, 3.5]),
        "tens": np.array([10, 30, 80]),
        "real": np.random.default_rng(0).normal(size=3),
    }
    schema = find_schema(pd.DataFrame(values))
    steps = [schema[name].step for name in values]
    assert steps == pytest.approx([0.015, 0.5, 10, 0])


def test_a_schema_survives_json():
    schema = find_schema(MIXED)
    assert Schema.from_json(schema.to_json()) == schema


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, 1e300], "holds 1e\\+300"),
        ([1.0, np.inf], "holds inf"),
        ([None, None], "empty in every row"),
        (["1", "2", "x"], "numbers, but 'x' in row 2"),
        ([f"name {i}" for i in range(60)], "names the rows"),
        ([1.0], "has 1 row"),
    ],
)
def test_columns_that_cannot_be_learned_are_named(values, message):
    with pytest.raises(InvalidInputError, match=message):
        find_schema(pd.DataFrame({"a": values}))


@pytest.mark.parametrize(
    ("values", "kinds", "message"),
    [
        ([[1], [2]], None, "holds lists"),
        (pd.to_datetime(["2020-01-01", "2021-01-01"]), {"a": "category"}, "give --type a=date"),
        ([2**60, 2**60 + 1], None, "beyond 2⁵³"),
    ],
)
def test_values_that_no_model_can_keep_are_refused(values, kinds, message):
    with pytest.raises(InvalidInputError, match=message):
        find_schema(pd.DataFrame({"a": values}), kinds)


def test_very_large_numbers_are_no_whole_numbers():
    assert find_schema(pd.DataFrame({"a": [6e23, 1e20]}))["a"].kind == "number"
