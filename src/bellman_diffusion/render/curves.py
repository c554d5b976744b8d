"""Learning curves of agents."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from bellman_diffusion.metrics.aggregate import iqm, iqm_interval
from bellman_diffusion.render.figure import COLOURS, new_figure, save_figure

# (steps, mean greedy returns of each seed then)
Curve = tuple[np.ndarray, np.ndarray]


def draw_curves(
    path: Path, panels: Mapping[str, Mapping[str, Curve]], solved_at: float | None
) -> Path:
    """Return over steps, a panel by title: seeds thin, their IQM with a 95 % interval."""
    figure = new_figure(6.5 * len(panels), 4.4)
    row = np.atleast_1d(figure.subplots(1, len(panels), sharey=True))
    for axes, (title, curves) in zip(row, panels.items(), strict=True):
        for colour, (name, (steps, returns)) in zip(COLOURS, curves.items(), strict=False):
            axes.plot(steps, returns, color=colour, linewidth=0.5, alpha=0.25)
            low, high = iqm_interval(returns)
            axes.fill_between(steps, low, high, color=colour, alpha=0.2, linewidth=0)
            axes.plot(steps, iqm(returns), color=colour, linewidth=2, label=name)
        if solved_at is not None:
            axes.axhline(solved_at, color="0.5", linestyle=":", linewidth=1, label="goal")
        axes.set(title=title, xlabel="environment steps", ylabel="greedy return")
    # The panels have the same names; below them they hide no line.
    named = row[0].get_legend_handles_labels()
    figure.legend(*named, fontsize=9, loc="outside lower center", ncols=len(named[0]))
    return save_figure(figure, path)
