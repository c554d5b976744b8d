"""Pictures of synthetic rows next to real ones."""

import math
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from bellman_diffusion.render.figure import new_figure, save_figure
from bellman_diffusion.tables.encoder import level_numbers, plain_numbers
from bellman_diffusion.tables.schema import Column, Schema

_REAL, _SYNTHETIC = "#777777", "#c4452d"
_MOST_COLUMNS = 24
_MOST_LEVELS = 12
_MOST_PAIRED = 5
_MOST_POINTS = 1000
_BINS = 30


def draw_marginals(path: Path, schema: Schema, synthetic: pd.DataFrame, real: pd.DataFrame) -> Path:
    """A histogram of each column, real and synthetic."""
    columns = schema.columns[:_MOST_COLUMNS]
    across = min(4, len(columns))
    figure, panels = _panels(len(columns), across, 3.2, 2.3)
    for axes, column in zip(panels, columns, strict=True):
        if column.is_discrete:
            _draw_levels(axes, column, synthetic, real)
        else:
            _draw_numbers(axes, column, synthetic, real)
        axes.set_title(_short(column.name), fontsize=9)
    for axes in panels[::across]:
        axes.set_ylabel("share of rows", fontsize=8)
    return _saved(figure, path)


def draw_pairs(
    path: Path, schema: Schema, synthetic: pd.DataFrame, real: pd.DataFrame
) -> Path | None:
    """Points of the numeric columns that vary together most; None for fewer than two of them."""
    columns = [c for c in schema.columns if not c.is_discrete and c.low < c.high]
    if len(columns) < 2:
        return None
    values = np.column_stack([plain_numbers(real[c.name], c) for c in columns])
    chosen = _most_related(values, min(_MOST_PAIRED, len(columns)))
    pairs = list(combinations(sorted(chosen), 2))[:9]
    figure, panels = _panels(len(pairs), min(3, len(pairs)), 3.6, 3.2)
    for axes, (i, j) in zip(panels, pairs, strict=True):
        n = min(len(real), len(synthetic), _MOST_POINTS)
        for frame, name, colour in ((real, "real", _REAL), (synthetic, "synthetic", _SYNTHETIC)):
            x, y = (plain_numbers(frame[columns[k].name].head(n), columns[k]) for k in (i, j))
            axes.plot(x, y, ".", ms=2, alpha=0.5, color=colour, label=name)
        axes.set_xlabel(_short(columns[i].name), fontsize=8)
        axes.set_ylabel(_short(columns[j].name), fontsize=8)
    return _saved(figure, path, markerscale=5)


def _panels(n: int, across: int, width: float, height: float) -> tuple[Figure, Any]:
    """A figure with n panels in rows."""
    down = math.ceil(n / across)
    figure = new_figure(width * across, height * down + 0.4)
    panels = figure.subplots(down, across, squeeze=False).ravel()
    for axes in panels:
        axes.tick_params(labelsize=7)
    for axes in panels[n:]:
        axes.set_visible(False)
    return figure, panels[:n]


def _saved(figure: Figure, path: Path, **style: Any) -> Path:
    """With the legend of the first panel, which is that of all."""
    named = figure.axes[0].get_legend_handles_labels()
    figure.legend(*named, loc="outside upper right", ncols=2, frameon=False, **style)
    return save_figure(figure, path)


def _draw_numbers(axes: Any, column: Column, synthetic: pd.DataFrame, real: pd.DataFrame) -> None:
    samples = [plain_numbers(frame[column.name], column) for frame in (real, synthetic)]
    present = [s[np.isfinite(s)] for s in samples]
    # Far-out values would leave one bar in an empty picture.
    joined = np.concatenate(present)
    ends = np.quantile(joined, [0.002, 0.998], method="nearest") if len(joined) else (0.0, 1.0)
    low, high = (float(end) for end in ends)
    edges = np.linspace(low, high if high > low else low + 1, _BINS + 1)
    if column.is_coarse:
        edges = (
            np.arange(column.low, column.high + 1.5 * column.step, column.step) - column.step / 2
        )
    styles = (
        {"histtype": "stepfilled", "color": _REAL, "alpha": 0.5, "label": "real"},
        {"histtype": "step", "color": _SYNTHETIC, "label": "synthetic"},
    )
    for values, style in zip(present, styles, strict=True):
        axes.hist(values, edges, weights=np.full(len(values), 1 / max(len(values), 1)), **style)
    if column.kind == "date":
        axes.set_xlabel("days since 1970", fontsize=7)


def _draw_levels(axes: Any, column: Column, synthetic: pd.DataFrame, real: pd.DataFrame) -> None:
    names = [str(level) for level in column.levels] + ["missing"] * column.has_missing
    shares = []
    for frame in (real, synthetic):
        counts = np.bincount(level_numbers(frame[column.name], column), minlength=len(names))
        shares.append(counts / max(counts.sum(), 1))
    order = np.argsort(-shares[0][: len(names)])[:_MOST_LEVELS]
    at = np.arange(len(order))
    axes.bar(at - 0.2, shares[0][order], 0.4, color=_REAL, alpha=0.5, label="real")
    axes.bar(at + 0.2, shares[1][order], 0.4, color=_SYNTHETIC, label="synthetic")
    axes.set_xticks(at, [_short(names[i], 8) for i in order], rotation=45 if len(order) > 4 else 0)
    if len(names) > len(order):
        axes.set_xlabel(f"the {len(order)} most frequent of {len(names)}", fontsize=7)


def _most_related(values: np.ndarray, n: int) -> list[int]:
    """The columns with the largest correlations to others."""
    complete = values[np.all(np.isfinite(values), axis=1)]
    if len(complete) < 3:
        return list(range(n))
    with np.errstate(invalid="ignore", divide="ignore"):
        r = np.nan_to_num(np.abs(np.corrcoef(complete.T)))
    np.fill_diagonal(r, 0)
    return [int(i) for i in np.argsort(-r.max(axis=1), kind="stable")[:n]]


def _short(name: str, length: int = 24) -> str:
    return name if len(name) <= length else name[: length - 1] + "…"
