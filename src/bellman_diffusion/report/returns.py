"""Pictures of return laws: the scalar field, the gradient field, risk."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from bellman_diffusion.bellman.distribution import ReturnDistribution
from bellman_diffusion.bellman.judge import Exact
from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.report.figure import new_figure, save_figure

_COLOURS = ("#1f5f99", "#c2571a", "#3c8d40", "#7d4fa0")
# Under the learned law, wide and pale: what sticks out is the error.
EXACT_STYLE = {"color": "0.8", "linewidth": 5, "zorder": 0}


def draw_return(
    law: ReturnDistribution, axes: Any = None, n_points: int = 400, **style: Any
) -> Any:
    """The density of one state's return, its mean as a line."""
    if law.batch_shape:
        raise InvalidInputError(
            f"this holds the laws of {law.batch_shape} states: choose one, as in law[0].plot()"
        )
    if axes is None:
        import matplotlib.pyplot as plt  # noqa: PLC0415 (only a user at a screen needs it)

        axes = plt.subplots()[1]
    x = return_grid(law, n_points)
    (line,) = axes.plot(x, law.pdf(jnp.asarray(x)), **style)
    axes.axvline(float(law.mean()), color=line.get_color(), linestyle=":", linewidth=1)
    axes.set(xlabel="return", ylabel="density")
    return axes


def return_grid(law: ReturnDistribution, n_points: int = 400) -> np.ndarray:
    """Returns that cover the law's mass."""
    return np.linspace(float(law.low), float(law.high), n_points).astype(np.float32)


def draw_laws(
    path: Path,
    title: str,
    names: Sequence[str],
    laws: ReturnDistribution,
    exact: Exact | None = None,
) -> Path:
    """A few states' laws: scalar field, gradient field, quantiles and CVaR side by side."""
    figure = new_figure(13, 3.8)
    left, middle, right = figure.subplots(1, 3)
    levels = ((np.arange(200) + 0.5) / 200).astype(np.float32)
    x = return_grid(laws[0])
    quantiles = np.asarray(laws.quantile(levels))
    # The mean of the worst share: the running mean of evenly spaced quantiles.
    tails = np.cumsum(quantiles, axis=1) / np.arange(1, 201)
    slopes = np.asarray(laws.gradient(jnp.asarray(x)))
    for i, name in enumerate(names):
        colour = _COLOURS[i % len(_COLOURS)]
        draw_return(laws[i], left, color=colour, label=name)
        middle.plot(x, slopes[i], color=colour)
        right.plot(levels, quantiles[i], color=colour, label=f"{name}: quantile")
        right.plot(levels, tails[i], color=colour, linestyle="--", label=f"{name}: CVaR")
        if exact is not None:
            label = "exact" if i == 0 else None
            left.plot(exact[0], exact[1][i], label=label, **EXACT_STYLE)
            middle.plot(exact[0], exact[2][i], **EXACT_STYLE)
    if exact is not None:
        left.set_xlim(x[0], x[-1])
        middle.set_xlim(x[0], x[-1])
    left.set(title="scalar field (dotted: mean)", xlabel="return", ylabel="density")
    middle.set(title="gradient field", xlabel="return", ylabel="slope of the density")
    right.set(title="risk", xlabel="share of worst returns", ylabel="return")
    left.legend(fontsize=8)
    right.legend(fontsize=7)
    figure.suptitle(title)
    return save_figure(figure, path)
