"""Columns to coordinates and back."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.tables import Schema, find_schema
from bellman_diffusion.tables.coding import TRANSFORMS, LevelCoding, NumberCoding
from bellman_diffusion.tables.encoder import TableEncoder
from bellman_diffusion.tables.schema import from_days
from tests.tables.frames import passengers


@given(
    levels=hnp.arrays(np.int64, st.integers(2, 60), elements=st.integers(0, 39)),
    seed=st.integers(0, 99),
)
@settings(max_examples=60, deadline=None)
def test_levels_come_back(levels, seed):
    coding = LevelCoding.fit(levels, 40)
    coordinates = coding.encode(levels, np.random.default_rng(seed))
    assert coordinates.shape == (len(levels), int(len(set(levels.tolist())) > 1))
    np.testing.assert_array_equal(coding.decode(coordinates), levels)


def test_no_level_comes_out_that_did_not_go_in():
    for n_levels in (5, 100):
        seen = np.arange(0, n_levels, 3).repeat(4)
        coding = LevelCoding.fit(seen, n_levels)
        anywhere = np.linspace(-50, 150, 1001)[:, None]
        assert set(coding.decode(anywhere).tolist()) <= set(seen.tolist())


def test_parts_of_many_levels_make_a_standard_normal_coordinate():
    rng = np.random.default_rng(0)
    levels = rng.integers(0, 200, 20_000)
    x = LevelCoding.fit(levels, 200).encode(levels, rng)[:, 0]
    # Tolerances: five standard errors of 20,000 normal draws.
    assert abs(x.mean()) < 0.036
    assert abs(x.std() - 1) < 0.026


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_numbers_come_back(transform):
    values = np.exp(np.random.default_rng(0).normal(size=500)) * 1e6
    coding = NumberCoding.fit(values, transform)
    np.testing.assert_allclose(coding.decode(coding.encode(values)), values, rtol=1e-6)


@pytest.mark.parametrize("transform", ["power", "quantile"])
def test_heavy_tails_are_taken_in(transform):
    values = np.exp(2 * np.random.default_rng(0).normal(size=2000))
    z = NumberCoding.fit(values, transform).encode(values)
    assert (
        np.abs((z - z.mean()) / z.std()).max() < 5 < (values.max() - values.mean()) / values.std()
    )


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_a_table_comes_back_whole(transform):
    frame = passengers()
    schema = find_schema(frame)
    rng = np.random.default_rng(0)
    encoder = TableEncoder.fit(frame, schema, transform, rng)
    coordinates = encoder.encode(frame, rng)
    assert np.all(np.isfinite(coordinates))
    pd.testing.assert_frame_equal(encoder.decode(coordinates), frame, check_exact=False, atol=1e-6)
    # The same after a trip through JSON.
    again = TableEncoder.from_json(schema, json.loads(json.dumps(encoder.to_json())))
    pd.testing.assert_frame_equal(again.decode(coordinates), encoder.decode(coordinates))


def test_dtypes_come_back():
    n = 60
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "int8": rng.integers(0, 5, n).astype("int8"),
            "Int64": pd.array([None, 1, 2] * 20, "Int64"),
            "float32": rng.normal(size=n).astype("float32"),
            "bool": rng.integers(0, 2, n).astype(bool),
            "boolean": pd.array([None, True, False] * 20, "boolean"),
            "category": pd.Categorical(rng.choice(["a", "b"], n)),
            "moment": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 90, n), "h"),
            "zone": pd.date_range("2024-03-01", periods=n, freq="D", tz="Europe/Paris"),
            "text": rng.choice(["x", "y"], n),
        }
    )
    encoder = TableEncoder.fit(frame, find_schema(frame), "plain", rng)
    back = encoder.decode(encoder.encode(frame, rng))
    pd.testing.assert_frame_equal(back, frame, check_exact=False, atol=1e-5)


def test_far_coordinates_stay_in_the_ranges():
    frame = passengers()
    schema = find_schema(frame)
    rng = np.random.default_rng(0)
    for transform in TRANSFORMS:
        encoder = TableEncoder.fit(frame, schema, transform, rng)
        back = encoder.decode(30 * rng.normal(size=(500, encoder.n_coordinates)))
        for name in ("Age", "Fare", "Siblings"):
            present = back[name].dropna()
            assert present.min() >= frame[name].min()
            assert present.max() <= frame[name].max()
        assert set(back["Siblings"]) <= set(range(frame["Siblings"].max() + 1))


def test_a_table_of_constants_is_refused():
    frame = pd.DataFrame({"a": [1, 1, 1], "b": ["x", "x", "x"]})
    with pytest.raises(InvalidInputError, match="one value only"):
        TableEncoder.fit(frame, find_schema(frame), "plain", np.random.default_rng(0))


def test_an_unknown_level_is_refused():
    frame = passengers(100)
    encoder = TableEncoder.fit(frame, find_schema(frame), "plain", np.random.default_rng(0))
    frame.loc[3, "Sex"] = "unknown"
    with pytest.raises(InvalidInputError, match="'unknown', which the model never saw"):
        encoder.encode(frame, np.random.default_rng(0))


def test_ordered_categories_keep_their_order_and_those_without_rows():
    dtype = pd.CategoricalDtype(["low", "mid", "high", "never"], ordered=True)
    frame = pd.DataFrame({"a": pd.Series(["mid", "low", "high", None] * 5, dtype=dtype)})
    schema = Schema.from_json(json.loads(json.dumps(find_schema(frame).to_json())))
    rng = np.random.default_rng(0)
    encoder = TableEncoder.fit(frame, schema, "plain", rng)
    pd.testing.assert_frame_equal(encoder.decode(encoder.encode(frame, rng)), frame)


def test_an_hour_that_the_clocks_leave_out_is_the_next():
    times = pd.Series(pd.date_range("2024-03-31", periods=5, freq="h", tz="Europe/Berlin"))
    (column,) = find_schema(pd.DataFrame({"t": times})).columns
    gap = (pd.Timestamp("2024-03-31 02:30") - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1)
    assert from_days(np.array([gap]), column).iloc[0].hour == 3
