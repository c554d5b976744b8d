"""Any table is coded and comes back, or is refused in words: never a traceback."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bellman_diffusion.errors import BellmanError
from bellman_diffusion.tables import (
    MetricSpace,
    evaluate_rows,
    find_schema,
    read_table,
    write_table,
)
from bellman_diffusion.tables.encoder import TableEncoder

FIELD = st.one_of(
    st.integers(-(10**6), 10**6).map(str),
    st.floats(allow_nan=True, allow_infinity=True).map(repr),
    st.sampled_from(
        ["", "NA", "true", "False", "2020-01-31", "31/12/2021 10:00", "1e300", "?", "x"]
    ),
    st.text(st.characters(blacklist_categories=["Cs"]), max_size=6),
)


@st.composite
def tables(draw):
    """Mostly well-formed CSV: columns of one kind, some fields of any kind, now and then damaged."""
    n_columns, n_rows = draw(st.integers(1, 4)), draw(st.integers(0, 12))
    columns = []
    for _ in range(n_columns):
        pool = draw(st.lists(FIELD, min_size=1, max_size=5))
        columns.append(draw(st.lists(st.sampled_from(pool), min_size=n_rows, max_size=n_rows)))
    names = draw(st.lists(st.sampled_from("abcdef"), min_size=n_columns, max_size=n_columns))
    separator = draw(st.sampled_from([",", ";", "\t"]))
    lines = [names, *zip(*columns, strict=True)]
    text = "\n".join(separator.join(line) for line in lines)
    content = text.encode(draw(st.sampled_from(["utf-8"] * 9 + ["utf-16"])))
    cut = draw(st.one_of(st.none(), st.integers(0, len(content))))
    return content[:cut]


@given(content=tables(), transform=st.sampled_from(["plain", "power", "quantile"]))
@settings(
    max_examples=500, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_file_is_coded_or_refused(tmp_path, content, transform):
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    rng = np.random.default_rng(0)
    try:
        frame = read_table(path)
        schema = find_schema(frame)
        encoder = TableEncoder.fit(frame, schema, transform, rng)
    except BellmanError:
        return
    coordinates = encoder.encode(frame, rng)
    assert np.all(np.isfinite(coordinates))
    back = encoder.decode(coordinates)
    assert back.dtypes.to_dict() == frame.dtypes.to_dict()
    assert back.isna().equals(frame.isna())
    for column in schema.columns:
        if column.is_discrete:
            pd.testing.assert_series_equal(back[column.name], frame[column.name])
    assert np.all(np.isfinite(MetricSpace.fit(frame, schema)(back)))
    write_table(back, tmp_path / "back.csv")


@given(content=tables())
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_table_is_evaluated_or_refused(tmp_path, content):
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    try:
        frame = read_table(path)
        figures = evaluate_rows(frame, frame, frame, find_schema(frame)).to_json()
    except BellmanError:
        return
    assert figures["w1"] == pytest.approx(0, abs=1e-6)
    assert np.isfinite(figures["mmd2"])
