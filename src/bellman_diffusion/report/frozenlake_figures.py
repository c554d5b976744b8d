"""The maze figure: a whole trajectory, each panel with the state, the gradient and the scalar field."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from bellman_diffusion.bellman.judge import Exact
from bellman_diffusion.bellman.mixture import MixtureReturn
from bellman_diffusion.experiments.frozenlake import Frame
from bellman_diffusion.report.figure import new_figure, save_figure
from bellman_diffusion.report.returns import EXACT_STYLE

_BLUE, _RED = "#1f5f99", "#b3362b"


def draw_trajectory(
    path: Path, title: str, frames: Sequence[Frame], laws: MixtureReturn, exact: Exact
) -> Path:
    """Six panels, from left to right and top to bottom: the paper's, two in a row to be read."""
    figure = new_figure(12.5, 8.6)
    outer = figure.subfigures(3, 2)
    x = np.linspace(-0.2, 1.2, 300).astype(np.float32)
    heights = np.asarray(laws.pdf(jnp.asarray(x)))
    slopes = np.asarray(laws.gradient(jnp.asarray(x)))
    shown = [frame.state for frame in frames]
    limits = [
        _limits(np.concatenate([own[shown].ravel(), true[shown].ravel()]))
        for own, true in ((heights, exact[1]), (slopes, exact[2]))
    ]
    for part, frame in zip(np.asarray(outer).reshape(-1).tolist(), frames, strict=True):
        state, gradient, scalar = part.subplots(1, 3, width_ratios=(1, 1.5, 1.5))
        state.imshow(frame.picture)
        state.axis("off")
        state.set_title(f"step {frame.step}", fontsize=9)
        _line(gradient, x, slopes[frame.state], exact[0], exact[2][frame.state])
        gradient.set_title("gradient field", fontsize=9)
        gradient.set(xlabel="return", ylabel="slope", ylim=limits[1])
        _line(scalar, x, heights[frame.state], exact[0], exact[1][frame.state])
        mean = float(laws[frame.state].mean())
        scalar.axvline(mean, color=_RED, linestyle=":", label=f"mean {mean:.2f}")
        scalar.set_title("scalar field", fontsize=9)
        scalar.set(xlabel="return", ylabel="density", ylim=limits[0])
        scalar.legend(fontsize=7, loc="upper left")
    figure.suptitle(f"{title} (pale: exact law)")
    return save_figure(figure, path)


def _line(axis: Any, x: np.ndarray, values: np.ndarray, at: np.ndarray, exact: np.ndarray) -> None:
    axis.plot(at, exact, **EXACT_STYLE)
    axis.plot(x, values, color=_BLUE)
    axis.set_xlim(x[0], x[-1])


def _limits(values: np.ndarray) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    margin = 0.08 * (high - low)
    return low - margin, high + margin
