"""Rows as points that distances are measured between.

Numbers and dates in standard deviations of the rows learned from, a missing one at their mean with a
coordinate that says so; categories as indicators, two different ones at the distance 1. Of very many
categories some share an indicator.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float

from bellman_diffusion.tables.encoder import level_numbers, plain_numbers
from bellman_diffusion.tables.schema import Column, Schema

_MOST_INDICATORS = 100


@dataclass(frozen=True)
class MetricSpace:
    """Where distances between rows of a table are taken."""

    schema: Schema
    scales: dict[str, tuple[float, float]]
    """The mean and deviation of each column of numbers."""

    @classmethod
    def fit(cls, learned: pd.DataFrame, schema: Schema) -> "MetricSpace":
        """With the scales of the rows learned from."""
        scales = {}
        for column in schema.columns:
            if not column.is_discrete:
                numbers = plain_numbers(learned[column.name], column)
                present = numbers[np.isfinite(numbers)]
                mean, spread = (present.mean(), present.std()) if len(present) else (0.0, 0.0)
                scales[column.name] = (float(mean), float(spread) or 1.0)
        return cls(schema, scales)

    def __call__(self, frame: pd.DataFrame) -> Float[np.ndarray, "n dim"]:
        """Rows to points."""
        return np.concatenate([self.of_column(frame, c) for c in self.schema.columns], axis=1)

    def of_column(self, frame: pd.DataFrame, column: Column) -> Float[np.ndarray, "n d"]:
        """The coordinates of one column."""
        levels = level_numbers(frame[column.name], column)
        if column.is_discrete:
            # One for missing values too: other rows may have some where those learned from had none.
            n_levels = min(len(column.levels) + 1, _MOST_INDICATORS)
            return np.eye(n_levels)[levels % n_levels] / np.sqrt(2)
        mean, deviation = self.scales[column.name]
        numbers = (plain_numbers(frame[column.name], column) - mean) / deviation
        points = [np.nan_to_num(numbers)]
        if column.has_missing:
            points.append(levels.astype(float))
        return np.column_stack(points)
