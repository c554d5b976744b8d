"""How near synthetic rows come to real ones, and whether they copy. Each distance with its floor.

The floor of a distance is what it is between real rows and other real rows of the same number: rows
learned from on one side, rows held out on the other.
"""

from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Int

from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.metrics import (
    closest_record_share,
    median_bandwidth,
    membership_auc,
    mmd2,
    sliced_wasserstein,
    wasserstein_1,
    wasserstein_2,
)
from bellman_diffusion.tables.encoder import column_numbers, level_numbers
from bellman_diffusion.tables.metric import MetricSpace
from bellman_diffusion.tables.schema import Column, Schema
from bellman_diffusion.tables.usefulness import Usefulness, usefulness

_MOST_COMPARED = 2000
_LEAST_COMPARED = 5
_MOST_SEARCHED = 20_000
_BINS = 5
# More than any column has.
_MOST_LEVELS = 2**31


@dataclass(frozen=True)
class Distance:
    """A distance of synthetic rows to real ones, and of real rows to real ones."""

    name: str
    value: float
    floor: float


@dataclass(frozen=True)
class Evaluation:
    """All figures of some synthetic rows."""

    rows: int
    """Rows on each side of a distance."""
    w1: float
    w1_floor: float
    w2: float
    w2_floor: float
    sliced: float
    sliced_floor: float
    mmd2: float
    mmd2_floor: float
    dcr_share: float | None
    """The share of synthetic rows nearer to a row learned from than to one held out; 0.5 is right."""
    membership_auc: float | None
    """How well the nearest synthetic row tells rows learned from from others: 0.5 is a guess."""
    columns: list[Distance]
    """Numbers: W1 in standard deviations. Categories: total variation."""
    pairs: list[Distance]
    """Total variation of each two columns together, numbers in five parts."""
    usefulness: Usefulness | None

    def to_json(self) -> dict[str, Any]:
        """Plain values, with the figures that users look for first at the top."""
        values = asdict(self)
        use = self.usefulness
        first: dict[str, Any] = {
            name: values.pop(name) for name in ("w1", "w1_floor", "w2", "mmd2", "dcr_share")
        }
        first["tstr"] = None if use is None else use.synthetic
        first["tstr_real"] = None if use is None else use.real
        return first | values


def evaluate_rows(
    synthetic: pd.DataFrame,
    learned: pd.DataFrame,
    held_out: pd.DataFrame,
    schema: Schema,
    *,
    target: str | None = None,
    seed: int = 0,
    copies: bool = True,
) -> Evaluation:
    """Compare synthetic rows with rows held out, and both with the rows that were learned from.

    `target` is the column that is foretold from the others (by default the last). Without `copies`
    the rows of `learned` are other real rows, and nothing is said of copying.
    """
    n = min(len(synthetic), len(learned), len(held_out), _MOST_COMPARED)
    if n < _LEAST_COMPARED:
        raise InvalidInputError(
            f"there are {n} rows to compare with: at least {_LEAST_COMPARED} are needed"
        )
    rng = np.random.default_rng([seed, 5])
    space = MetricSpace.fit(learned, schema)
    made, known, fresh = (
        space(frame.iloc[rng.permutation(len(frame))[:_MOST_SEARCHED]])
        for frame in (synthetic, learned, held_out)
    )
    frames = [
        frame.iloc[rng.permutation(len(frame))[:n]] for frame in (synthetic, learned, held_out)
    ]
    a, b, c = (space(frame) for frame in frames)
    width = median_bandwidth(known)
    return Evaluation(
        rows=n,
        w1=wasserstein_1(a, c),
        w1_floor=wasserstein_1(b, c),
        w2=wasserstein_2(a, c),
        w2_floor=wasserstein_2(b, c),
        sliced=sliced_wasserstein(a, c, seed),
        sliced_floor=sliced_wasserstein(b, c, seed),
        mmd2=mmd2(a, c, width),
        mmd2_floor=mmd2(b, c, width),
        dcr_share=closest_record_share(made, known, fresh, seed) if copies else None,
        membership_auc=membership_auc(made, known, fresh) if copies else None,
        columns=_columns(frames, schema, space),
        pairs=_pairs(frames, schema),
        usefulness=usefulness(synthetic, learned, held_out, schema, target),
    )


def _columns(frames: list[pd.DataFrame], schema: Schema, space: MetricSpace) -> list[Distance]:
    result = []
    for column in schema.columns:
        if column.is_discrete:
            made, known, fresh = (level_numbers(frame[column.name], column) for frame in frames)
            value, floor = (_variation(x, fresh) for x in (made, known))
        else:
            made, known, fresh = (space.of_column(frame, column)[:, :1] for frame in frames)
            value, floor = (wasserstein_1(x, fresh) for x in (made, known))
        result.append(Distance(column.name, value, floor))
    return result


def _pairs(frames: list[pd.DataFrame], schema: Schema) -> list[Distance]:
    binned = [_binned(frames, column) for column in schema.columns]
    result = []
    for i, j in combinations(range(len(schema.columns)), 2):
        pairs = zip(binned[i], binned[j], strict=True)
        made, known, fresh = (a * _MOST_LEVELS + b for a, b in pairs)
        name = f"{schema.columns[i].name} × {schema.columns[j].name}"
        result.append(Distance(name, _variation(made, fresh), _variation(known, fresh)))
    return result


def _variation(x: Int[np.ndarray, " n"], y: Int[np.ndarray, " n"]) -> float:
    """Half the sum of the differences of the frequencies of levels, of as many rows on each side."""
    levels, place = np.unique(np.concatenate([x, y]), return_inverse=True)
    counts = [np.bincount(part, minlength=len(levels)) for part in np.split(place, 2)]
    return float(np.abs(counts[0] - counts[1]).sum() / (2 * len(x)))


def _binned(frames: list[pd.DataFrame], column: Column) -> list[Int[np.ndarray, " n"]]:
    """Levels, or the fifths of the numbers of rows learned from, missing ones apart."""
    numbers = [column_numbers(frame, column) for frame in frames]
    if column.is_discrete:
        return numbers
    present = numbers[1][np.isfinite(numbers[1])]
    edges = np.unique(np.quantile(present, np.arange(1, _BINS) / _BINS)) if len(present) else []
    return [np.where(np.isnan(x), _BINS, np.searchsorted(edges, x)) for x in numbers]
