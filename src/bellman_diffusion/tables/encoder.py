"""A table as a matrix of coordinates, and back with its own columns, dtypes, ranges and gaps."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.tables.coding import LevelCoding, NumberCoding, Transform
from bellman_diffusion.tables.schema import Column, Schema, as_numbers, from_days


@dataclass(frozen=True)
class ColumnCoding:
    """The coordinates of one column: its value, its level, whether it is there."""

    column: Column
    levels: LevelCoding
    """Of a category, the missing one last; of numbers: present, missing."""
    number: NumberCoding | None

    @property
    def n_coordinates(self) -> int:
        """How many coordinates the column takes."""
        return self.levels.n_coordinates + (self.number is not None)

    def encode(self, values: Any, rng: np.random.Generator) -> Float[np.ndarray, "n c"]:
        """A column of a frame to coordinates."""
        coordinates = self.levels.encode(level_numbers(values, self.column), rng)
        if self.number is None:
            return coordinates
        numbers = _spread(_filled(plain_numbers(values, self.column), rng), self.column, rng)
        return np.column_stack([self.number.encode(numbers), coordinates])

    def encode_value(
        self, value: Any, n: int, rng: np.random.Generator
    ) -> Float[np.ndarray, "n c"]:
        """n codings of one value: a level, or a number (dates: days since 1970)."""
        if self.column.is_discrete:
            return self.levels.encode(np.full(n, self.column.levels.index(value)), rng)
        present = self.levels.encode(np.zeros(n, int), rng)
        if self.number is None:
            return present
        numbers = _spread(np.full(n, float(value)), self.column, rng)
        return np.column_stack([self.number.encode(numbers), present])

    def decode(self, coordinates: Float[np.ndarray, "n c"]) -> pd.Series:
        """Coordinates to a column of a frame."""
        own = coordinates[:, self.n_coordinates - self.levels.n_coordinates :]
        level = self.levels.decode(own)
        if self.column.is_discrete:
            return _as_levels(level, self.column)
        numbers = np.full(len(coordinates), self.column.low)
        if self.number is not None:
            # Beyond the column's range a power transform has no inverse.
            ends = self.number.encode(np.array([self.column.low, self.column.high]))
            reached = np.clip(coordinates[:, 0], *ends)
            numbers = _on_grid(self.number.decode(reached), self.column)
        return _as_dtype(np.where(level == 1, np.nan, numbers), self.column)


class TableEncoder:
    """All columns together."""

    def __init__(self, codings: list[ColumnCoding]) -> None:
        self.codings = codings

    @classmethod
    def fit(
        cls, frame: pd.DataFrame, schema: Schema, transform: Transform, rng: np.random.Generator
    ) -> "TableEncoder":
        """Learn each column's coding from the rows."""
        codings = [_fit(frame[column.name], column, transform, rng) for column in schema.columns]
        encoder = cls(codings)
        if encoder.n_coordinates == 0:
            raise InvalidInputError("every column has one value only: there is nothing to learn")
        return encoder

    @property
    def n_coordinates(self) -> int:
        """Of a row."""
        return sum(coding.n_coordinates for coding in self.codings)

    def place_of(self, name: str) -> int | None:
        """Which coordinate a column's value is; None for a column with one value only."""
        at = 0
        for coding in self.codings:
            if coding.column.name == name:
                return at if coding.n_coordinates else None
            at += coding.n_coordinates
        raise KeyError(name)

    def encode(self, frame: pd.DataFrame, rng: np.random.Generator) -> Float[np.ndarray, "n dim"]:
        """Rows to coordinates; `rng` spreads values over their cells."""
        parts = [coding.encode(frame[coding.column.name], rng) for coding in self.codings]
        return np.concatenate(parts, axis=1)

    def decode(self, coordinates: Float[np.ndarray, "n dim"]) -> pd.DataFrame:
        """Coordinates to rows."""
        columns, at = {}, 0
        for coding in self.codings:
            part = coordinates[:, at : at + coding.n_coordinates]
            columns[coding.column.name] = coding.decode(part)
            at += coding.n_coordinates
        return pd.DataFrame(columns)

    def encode_known(
        self, known: Mapping[str, Any], n: int, rng: np.random.Generator
    ) -> Float[np.ndarray, "n dim"]:
        """n rows with the given values, NaN in the coordinates of other columns."""
        parts = [
            coding.encode_value(known[coding.column.name], n, rng)
            if coding.column.name in known
            else np.full((n, coding.n_coordinates), np.nan)
            for coding in self.codings
        ]
        return np.concatenate(parts, axis=1)

    def to_json(self) -> list[dict[str, Any]]:
        """Plain values, without the columns themselves."""
        return [
            {
                "counts": coding.levels.counts.tolist(),
                "transform": coding.number.transform if coding.number else None,
                "knots": coding.number.knots.tolist() if coding.number else [],
            }
            for coding in self.codings
        ]

    @classmethod
    def from_json(cls, schema: Schema, values: list[dict[str, Any]]) -> "TableEncoder":
        """What `to_json` gave."""
        pairs = zip(schema.columns, values, strict=True)
        return cls([_restored(column, value) for column, value in pairs])


def _restored(column: Column, value: Mapping[str, Any]) -> ColumnCoding:
    levels = LevelCoding(np.asarray(value["counts"], int))
    number = None
    if value["transform"] is not None:
        number = NumberCoding(value["transform"], np.asarray(value["knots"], float))
    return ColumnCoding(column, levels, number)


def _fit(
    values: Any, column: Column, transform: Transform, rng: np.random.Generator
) -> ColumnCoding:
    levels = level_numbers(values, column)
    if column.is_discrete:
        return ColumnCoding(column, LevelCoding.fit(levels, len(column.levels) + 1), None)
    presence = LevelCoding.fit(levels, 2)
    numbers = _spread(plain_numbers(values, column), column, rng)
    present = numbers[np.isfinite(numbers)]
    constant = not len(present) or present.min() == present.max() or column.low == column.high
    chosen = transform if column.heavy_tailed and not column.is_coarse else "plain"
    number = None if constant else NumberCoding.fit(present, chosen)
    return ColumnCoding(column, presence, number)


def level_numbers(values: Any, column: Column) -> Int[np.ndarray, " n"]:
    """Levels by number, the missing one last; of numbers 0 for present and 1 for missing."""
    missing = values.isna().to_numpy(bool)
    if not column.is_discrete:
        return missing.astype(int)
    number = {level: i for i, level in enumerate(column.levels)}
    found = values.astype(object).map(number)
    unknown = found.isna().to_numpy(bool) & ~missing
    if unknown.any():
        raise InvalidInputError(
            f"column {column.name!r} holds {values[unknown].iloc[0]!r}, which the model never saw"
        )
    return found.fillna(len(number)).to_numpy(int)


def plain_numbers(values: Any, column: Column) -> Float[np.ndarray, " n"]:
    """Numbers, and dates in days; NaN where missing."""
    present = values.notna().to_numpy(bool)
    numbers = np.full(len(values), np.nan)
    numbers[present] = as_numbers(values[present], column.name, column.kind, column.form)
    return numbers


def column_numbers(frame: pd.DataFrame, column: Column) -> Any:
    """A column of a frame as numbers: its levels, or its values."""
    values = frame[column.name]
    return level_numbers(values, column) if column.is_discrete else plain_numbers(values, column)


def _spread(
    numbers: Float[np.ndarray, "*n"], column: Column, rng: np.random.Generator
) -> Float[np.ndarray, "*n"]:
    """Numbers on a fine grid are spread evenly over their cells."""
    if column.is_coarse:
        return numbers
    return numbers + column.step * rng.uniform(-0.5, 0.5, numbers.shape)


def _filled(numbers: Float[np.ndarray, " n"], rng: np.random.Generator) -> Float[np.ndarray, " n"]:
    """A random present value for each missing one: what stands there is never shown."""
    missing = np.isnan(numbers)
    if not missing.any():
        return numbers
    present = numbers[~missing]
    if not len(present):
        return np.zeros_like(numbers)
    filled = numbers.copy()
    filled[missing] = rng.choice(present, int(missing.sum()))
    return filled


def _on_grid(numbers: Float[np.ndarray, " n"], column: Column) -> Float[np.ndarray, " n"]:
    """Rounded to the column's step and kept in its range."""
    if column.step:
        steps = np.round((numbers - column.low) / column.step)
        # Written with the step's own decimals: 0.1 + 0.2 must come out as 0.3.
        numbers = np.round(column.low + steps * column.step, 9)
    return np.clip(numbers, column.low, column.high)


def _as_levels(level: Int[np.ndarray, " n"], column: Column) -> pd.Series:
    values = np.empty(len(column.levels) + 1, object)
    values[:-1], values[-1] = column.levels, np.nan
    dtype = _kept(column.dtype)
    if isinstance(dtype, pd.CategoricalDtype):
        dtype = pd.CategoricalDtype(list(column.categories), ordered=column.ordered)
    return pd.Series(values[level]).astype(dtype)


def _as_dtype(numbers: Float[np.ndarray, " n"], column: Column) -> pd.Series:
    if column.kind == "date":
        return from_days(numbers, column)
    values = pd.Series(numbers)
    if column.dtype in ("object", "str", "string"):
        # Numbers that were written as text.
        written = repr if column.kind == "number" else lambda v: str(int(v))
        text = values.map(lambda v: None if np.isnan(v) else written(v))
        return text.astype(_kept(column.dtype))
    if values.isna().any() and column.dtype.startswith(("int", "uint")):
        return values
    return values.astype(_kept(column.dtype))


def _kept(dtype: str) -> Any:
    return pd.api.types.pandas_dtype(dtype)
