"""The UCI tables at the paper's dimensions, and how their rows are split.

A fifth of the rows is held out for the figures; of the others an eighth says when to stop.
"""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Int

from bellman_diffusion.data.uci import TABLES, UciTable


class Case(NamedTuple):
    """A table and how its rows are split."""

    name: str
    table: UciTable
    by_subject: bool = False
    whole: bool = False
    """All columns, categories as such; otherwise the paper's dimensions, categories as codes."""

    @property
    def title(self) -> str:
        """For tables and pictures."""
        suffix = ", by subject" if self.by_subject else ", all columns" if self.whole else ""
        return self.table.title + suffix

    @property
    def in_paper(self) -> bool:
        """Whether it is a row of the paper's table."""
        return not (self.by_subject or self.whole)

    def read(self) -> tuple[pd.DataFrame, Int[np.ndarray, " n"]]:
        """The columns, and which rows belong together."""
        frame = self.table.read() if self.whole else _codes(self.table.read_paper_columns())
        if self.by_subject:
            together: Any = self.table.read()[self.table.group]
            return frame, pd.factorize(together)[0]
        if self.name == "mushroom":
            # Equal rows are other mushrooms.
            return frame, np.arange(len(frame))
        # Equal rows of measurements are the same row twice: they stay on one side.
        together = frame.groupby(list(frame.columns), sort=False, dropna=False).ngroup()
        return frame, np.asarray(together)

    def split(self, seed: int) -> "Parts":
        """The parts of one seed."""
        return split(*self.read(), seed)


def _codes(frame: pd.DataFrame) -> pd.DataFrame:
    for name in frame.columns:
        if not pd.api.types.is_numeric_dtype(frame[name]):
            frame[name] = frame[name].astype("category").cat.codes.astype(int)
    return frame


CASES = {
    **{name: Case(name, table) for name, table in TABLES.items()},
    "telemonitoring-by-subject": Case("telemonitoring", TABLES["telemonitoring"], by_subject=True),
    **{f"{name}-whole": Case(name, table, whole=True) for name, table in TABLES.items()},
}


class Parts(NamedTuple):
    """Rows to learn from, to stop by, and to compare with."""

    learned: pd.DataFrame
    validation: pd.DataFrame
    held_out: pd.DataFrame

    @property
    def training(self) -> pd.DataFrame:
        """All that is not held out."""
        return pd.concat([self.learned, self.validation], ignore_index=True)


def split(frame: pd.DataFrame, groups: Int[np.ndarray, " n"], seed: int) -> Parts:
    """A fifth held out, an eighth of the rest for validation, groups kept whole."""
    rng = np.random.default_rng([seed, 11])
    place = rng.permutation(groups.max() + 1)[groups]
    order = np.argsort(place, kind="stable")
    n_out = round(0.2 * len(frame))
    # The group at a border goes to the side where it begins.
    n_out = int(np.searchsorted(place[order], place[order][n_out]))
    rest = rng.permutation(order[n_out:]) if groups.max() + 1 == len(frame) else order[n_out:]
    n_validation = max(20, round(len(rest) / 8))
    parts = (rest[n_validation:], rest[:n_validation], order[:n_out])
    return Parts(*(frame.iloc[rng.permutation(part)].reset_index(drop=True) for part in parts))
