"""Conditions on rows, as in `Sex=F, Rings>10`."""

import csv
import operator
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.tables.schema import Column, Schema, as_numbers

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "!=": operator.ne,
    "==": operator.eq,
    "=": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
}
_CLAUSE = re.compile(r"(.+?)\s*(<=|>=|!=|==|=|<|>)\s*(.+)")
_EXAMPLE = 'write conditions as in "Sex=F, Rings>10"'
_SHOWN = 10


class Condition(NamedTuple):
    """One comparison of a column with a value."""

    column: Column
    sign: str
    value: Any
    """A number (dates: days since 1970), or a level."""

    @property
    def is_equality(self) -> bool:
        """Whether the value is known, not only bounded."""
        return self.sign in ("=", "==")

    def holds(self, frame: pd.DataFrame) -> np.ndarray:
        """For each row; never where the value is missing."""
        values: Any = frame[self.column.name]
        present = values.notna().to_numpy(bool)
        result = np.zeros(len(frame), bool)
        if self.column.is_discrete:
            found = values[present].to_numpy(object)
        else:
            found = as_numbers(
                values[present], self.column.name, self.column.kind, self.column.form
            )
        result[present] = _OPERATORS[self.sign](found, self.value)
        return result


def read_conditions(text: str, schema: Schema) -> list[Condition]:
    """The conditions of a text, all of which must hold."""
    try:
        clauses = next(csv.reader([text], skipinitialspace=True), [])
    except csv.Error as error:
        raise InvalidInputError(f"{text!r} cannot be read ({error}): {_EXAMPLE}") from error
    conditions = [_read(clause.strip(), schema) for clause in clauses if clause.strip()]
    if not conditions:
        raise InvalidInputError(f"there is no condition in {text!r}: {_EXAMPLE}")
    return conditions


def _read(clause: str, schema: Schema) -> Condition:
    found = _CLAUSE.fullmatch(clause)
    if not found:
        raise InvalidInputError(f"{clause!r} is no condition: {_EXAMPLE}")
    name, sign, text = (part.strip() for part in found.groups())
    column = schema[name]
    if column.is_discrete:
        return Condition(column, sign, _level(column, sign, text))
    value = float(as_numbers(pd.Series([text]), name, column.kind, column.form)[0])
    if sign in ("=", "==") and not column.low <= value <= column.high:
        raise InvalidInputError(
            f"{clause!r}: {name!r} lies between {column.low:g} and {column.high:g} in the table"
        )
    return Condition(column, sign, value)


def _level(column: Column, sign: str, text: str) -> Any:
    if sign not in ("=", "==", "!="):
        raise InvalidInputError(
            f"column {column.name!r} holds categories, which have no order: use = or !="
        )
    for level in column.levels:
        if str(level) == text:
            return level
    shown = ", ".join(repr(str(level)) for level in column.levels[:_SHOWN])
    more = " …" if len(column.levels) > _SHOWN else ""
    raise InvalidInputError(f"column {column.name!r} has no {text!r}: it has {shown}{more}")
