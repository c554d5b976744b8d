"""Pictures of agents: learning curves, and the laws that an agent expects."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from bellman_diffusion.agents.judge import Judged
from bellman_diffusion.metrics.aggregate import iqm, iqm_interval
from bellman_diffusion.report.figure import new_figure, save_figure
from bellman_diffusion.report.returns import EXACT_STYLE, return_grid

COLOURS = ("#1f5f99", "#c2571a", "#3c8d40", "#7d4fa0", "#8c6d31")
# (steps, mean greedy returns of each seed then)
Curve = tuple[np.ndarray, np.ndarray]


def draw_curves(
    path: Path,
    titles: Sequence[str],
    panels: Sequence[Mapping[str, Curve]],
    solved_at: float | None,
) -> Path:
    """Return over steps: every seed thin, their interquartile mean with a 95 % interval."""
    figure = new_figure(6.5 * len(panels), 4)
    for axes, title, curves in zip(
        np.atleast_1d(figure.subplots(1, len(panels), sharey=True)), titles, panels, strict=True
    ):
        for colour, (name, (steps, returns)) in zip(COLOURS, curves.items(), strict=False):
            axes.plot(steps, returns, color=colour, linewidth=0.5, alpha=0.25)
            low, high = iqm_interval(returns)
            axes.fill_between(steps, low, high, color=colour, alpha=0.2, linewidth=0)
            axes.plot(steps, iqm(returns), color=colour, linewidth=2, label=name)
        if solved_at is not None:
            axes.axhline(solved_at, color="0.5", linestyle=":", linewidth=1, label="solved")
        axes.set(title=title, xlabel="environment steps", ylabel="greedy return")
        axes.legend(fontsize=8, loc="lower right")
    return save_figure(figure, path)


def draw_judged(
    path: Path, title: str, models: Mapping[str, Sequence[tuple[str, Judged, int]]]
) -> Path:
    """Fields at some states against Monte-Carlo returns: scalar field above, gradient field below.

    One column for each (name, judged, state) of the first model's list; models are colours.
    """
    n_columns = len(next(iter(models.values())))
    figure = new_figure(5.5 * n_columns, 6)
    grid = figure.subplots(2, n_columns, squeeze=False)
    for colour, (model, states) in zip(COLOURS, models.items(), strict=False):
        for column, (name, judged, state) in enumerate(states):
            law = judged.laws[state]
            x = return_grid(law, 600)
            upper, lower = grid[:, column]
            upper.plot(x, law.pdf(jnp.asarray(x)), color=colour, label=model)
            lower.plot(x, law.gradient(jnp.asarray(x)), color=colour, label=model)
            for value in np.unique(judged.returns[state].round(3)):
                upper.axvline(float(value), **(EXACT_STYLE | {"color": colour, "alpha": 0.25}))
            upper.set(title=f"{name} (bars: Monte-Carlo)", ylabel="density")
            lower.set(xlabel="return", ylabel="slope of the density")
            upper.legend(fontsize=8)
    figure.suptitle(title)
    return save_figure(figure, path)
