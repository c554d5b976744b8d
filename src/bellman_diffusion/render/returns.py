"""Pictures of return distributions: the scalar field, the gradient field, risk."""

from collections.abc import Sequence
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from bellman_diffusion.render.figure import COLOURS, EXACT_STYLE, new_figure, save_figure
from bellman_diffusion.returns.distribution import ReturnDistribution

_N_LEVELS = 200


def draw_returns(
    path: Path,
    title: str,
    names: Sequence[str],
    distributions: ReturnDistribution,
    exact: ReturnDistribution | None = None,
) -> Path:
    """A few states: scalar field, gradient field, quantiles and CVaR in three panels."""
    figure = new_figure(13, 3.8)
    left, middle, right = figure.subplots(1, 3)
    levels = ((np.arange(_N_LEVELS) + 0.5) / _N_LEVELS).astype(np.float32)
    x = distributions.grid_of_returns()
    quantiles = np.asarray(distributions.quantile(levels))
    # CVaR is the running mean of evenly spaced quantiles.
    cvar = np.cumsum(quantiles, axis=1) / np.arange(1, _N_LEVELS + 1)
    for i, name in enumerate(names):
        colour = COLOURS[i % len(COLOURS)]
        distributions[i].plot(left, color=colour, label=name)
        _, stems, rest = distributions[i].split_atoms()
        # Stems would dwarf the rest; where there is no rest, they are all there is to draw.
        shown = distributions[i] if stems.sum() > 0.98 else rest
        middle.plot(x, shown.gradient(jnp.asarray(x)), color=colour)
        right.plot(levels, quantiles[i], color=colour, label=f"{name}: quantile")
        right.plot(levels, cvar[i], color=colour, linestyle="--", label=f"{name}: CVaR")
    if exact is not None:
        points, sigma = jnp.asarray(x), distributions.sigma
        left.plot(x, exact.pdf(points, sigma).T, label="exact", **EXACT_STYLE)
        middle.plot(x, exact.gradient(points, sigma).T, **EXACT_STYLE)
    left.set(title="scalar field, with atoms of 2 % or more (dotted: mean)")
    middle.set(title="gradient field", xlabel="return", ylabel="slope of the density")
    right.set(title="risk", xlabel="probability level", ylabel="return")
    left.legend(fontsize=8)
    right.legend(fontsize=7)
    figure.suptitle(title)
    return save_figure(figure, path)
