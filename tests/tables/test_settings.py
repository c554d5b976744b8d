"""Settings that suit a table."""

import numpy as np
import pandas as pd
import pytest

from bellman_diffusion.tables import find_schema
from bellman_diffusion.tables.settings import table_recipe
from tests.tables.frames import passengers


def settings_of(frame):
    return table_recipe(find_schema(frame), frame)


def normal_rows(n, dim):
    rows = np.random.default_rng(0).normal(size=(n, dim))
    return pd.DataFrame(rows, columns=[f"x{i}" for i in range(dim)])


def test_the_least_noise_follows_the_distance_between_rows():
    """Of uniform rows on a line of four equal columns the distance by coordinate is known."""
    n = 2001
    even = pd.DataFrame({f"x{i}": np.linspace(0, 1, n) for i in range(4)})
    near = settings_of(even).sigma_min
    assert near == 0.03  # 1.5 · √12 / 2000 of a standard deviation is below the least
    few = settings_of(even.iloc[::40]).sigma_min
    # Values on a grid are spread over its cells, so that a step is known to about a tenth.
    assert few == pytest.approx(1.5 * np.sqrt(12) * 40 / (n - 1), rel=0.25)
    assert settings_of(normal_rows(100, 12)).sigma_min == 0.15


def test_equal_rows_have_no_distance():
    frame = pd.concat([normal_rows(40, 5)] * 3, ignore_index=True)
    assert settings_of(frame).sigma_min == settings_of(normal_rows(40, 5)).sigma_min


def test_gaps_and_levels_keep_little_noise():
    assert settings_of(passengers(200)).sigma_min == 0.03
