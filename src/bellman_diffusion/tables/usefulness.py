"""Train on synthetic, test on real: what a model learned from synthetic rows is worth on real ones."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.tables.encoder import column_numbers
from bellman_diffusion.tables.schema import Schema

# Of categories the trees can take.
_MOST_LEVELS = 255
# Each level of a target is a tree in every round.
_MOST_FORETOLD = 100


@dataclass(frozen=True)
class Usefulness:
    """The score of gradient-boosted trees on rows held out."""

    target: str
    figure: str
    """R² for numbers, accuracy for categories."""
    synthetic: float
    """Trained on synthetic rows."""
    real: float
    """Trained on the rows learned from."""


def usefulness(
    synthetic: pd.DataFrame,
    learned: pd.DataFrame,
    held_out: pd.DataFrame,
    schema: Schema,
    target: str | None = None,
) -> Usefulness | None:
    """Predict one column from the others.

    None where there is nothing to predict it from, or nothing to predict: the last column, which is
    taken where none is named, may be missing nearly everywhere or have too many levels.
    """
    column = schema[target] if target is not None else schema.columns[-1]
    others = [c for c in schema.columns if c.name != column.name]
    if not others:
        return None
    frames = [frame.dropna(subset=column.name) for frame in (synthetic, learned, held_out)]
    problem = None
    if min(map(len, frames)) < 2:
        problem = f"column {column.name!r} is missing in nearly every row"
    elif len(column.levels) > _MOST_FORETOLD:
        problem = (
            f"column {column.name!r} has {len(column.levels)} levels, more than trees can predict"
        )
    if problem is not None:
        if target is None:
            return None
        raise InvalidInputError(f"{problem}: name another --target")
    categorical = [c.is_discrete and len(c.levels) < _MOST_LEVELS for c in others]
    inputs = [
        np.column_stack([column_numbers(frame, c) for c in others]).astype(float)
        for frame in frames
    ]
    answers = [column_numbers(frame, column) for frame in frames]
    discrete = column.is_discrete
    kind: Any = HistGradientBoostingClassifier if discrete else HistGradientBoostingRegressor
    scores = []
    for x, y in zip(inputs[:2], answers[:2], strict=True):
        if len(np.unique(y)) < 2:
            return None
        # The rows that trees would stop by are drawn by class, which a class of one row does not allow.
        model = kind(
            categorical_features=categorical,
            early_stopping=False if discrete else "auto",
            random_state=0,
        ).fit(x, y)
        scores.append(float(model.score(inputs[2], answers[2])))
    figure = "accuracy" if discrete else "R²"
    return Usefulness(column.name, figure, *scores)
