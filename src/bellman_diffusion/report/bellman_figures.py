"""Figures of the Bellman experiments: linearity, the cost of trajectories, vector returns."""

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from matplotlib.colors import PowerNorm

from bellman_diffusion.experiments.linearity import OPERATORS
from bellman_diffusion.report.figure import new_figure, save_figure
from bellman_diffusion.report.returns import EXACT_STYLE

_COLOURS = ("#1f5f99", "#c2571a", "#3c8d40", "#7d4fa0")


def draw_linearity(path: Path, summary: dict[str, Any], pictures: dict[str, np.ndarray]) -> Path:
    """The start's law after one backup, and the error over repeated backups."""
    figure = new_figure(12, 4.6)
    left, right = figure.subplots(1, 2)
    grid = pictures["grid"]
    state = int(np.argmax(np.abs(pictures["energy (EBM)"] - pictures["exact"]).sum(axis=1)))
    left.plot(grid, pictures["exact"][state], label="exact", **EXACT_STYLE)
    for (name, style), colour in zip(_styles().items(), _COLOURS, strict=True):
        left.plot(grid, pictures[name][state], color=colour, linestyle=style, label=name)
        curve = summary["curves"][f"{name}, exact"]["w1_mean"]
        right.plot(np.arange(1, len(curve) + 1), curve, style, color=colour, label=f"{name}, exact")
    learned = summary["curves"]["fields (density and gradient), learned"]["w1_mean"]
    steps = np.arange(1, len(learned) + 1)
    right.plot(steps, learned, color=_COLOURS[0], alpha=0.5, label="fields, learned from samples")
    left.set(xlim=(-0.2, 1.2), xlabel="return", ylabel="density")
    left.set_title(f"State {state} after one backup (three wrong laws coincide)")
    right.set(yscale="log", xlabel="backups", ylabel="mean W1 over states")
    right.set_title("Distance from the exact law")
    lines, names = left.get_legend_handles_labels()
    figure.legend(lines, names, loc="outside lower left", ncols=2, frameon=False, fontsize=8)
    lines, names = right.get_legend_handles_labels()
    figure.legend(lines, names, loc="outside lower right", ncols=2, frameon=False, fontsize=8)
    return save_figure(figure, path)


def _styles() -> dict[str, str]:
    # Energies, scores and log-densities give the same wrong law: lines that let one another be seen.
    return dict(zip(OPERATORS, ("-", "-", "--", ":"), strict=True))


def draw_chain(path: Path, summary: dict[str, Any]) -> Path:
    """Environment steps by number of blocks."""
    figure = new_figure(6.5, 4.2)
    axis = figure.subplots()
    for (way, steps), colour in zip(summary["steps"].items(), _COLOURS, strict=False):
        label = f"{way}: N^{summary['exponent'][way]:.2f}"
        axis.plot(summary["blocks"], steps, "o-", color=colour, label=label)
    axis.set(xscale="log", yscale="log", xlabel="blocks N", title="Until worst W1 ≤ 0.05")
    axis.set_ylabel("environment steps")
    axis.set_xticks(summary["blocks"], [str(n) for n in summary["blocks"]])
    axis.minorticks_off()
    axis.legend(fontsize=8)
    return save_figure(figure, path)


def draw_treasure(path: Path, extras: dict[str, Any], chosen: tuple[str, str]) -> Path:
    """The joint law by the fields, by a histogram of more atoms, and simulated returns."""
    figure = new_figure(13, 4.2)
    axes = figure.subplots(1, 3)
    returns, laws = extras["returns"], extras["laws"]
    low, high = returns.min(axis=0) - 0.4, np.quantile(returns, 0.999, axis=0)
    # Faint tails are the point of the picture.
    colours = {"norm": PowerNorm(0.4, vmin=0, vmax=1.5)}
    noise = np.random.default_rng(0).normal(size=returns.shape)
    smoothed = returns + float(laws[chosen[0]].sigma) * noise
    span = np.stack([low, high], axis=1).tolist()
    axes[0].hist2d(*smoothed.T, bins=60, range=span, density=True, **colours)
    axes[0].set_title("simulated returns, smoothed")
    ticks = [np.linspace(low[d], high[d], 90) for d in range(2)]
    points = np.stack(np.meshgrid(*ticks, indexing="ij"), axis=-1).reshape(-1, 2)
    for axis, name in zip(axes[1:], chosen, strict=True):
        density = np.asarray(laws[name].pdf(jnp.asarray(points, jnp.float32))).reshape(90, 90)
        axis.pcolormesh(*ticks, np.maximum(density.T, 0), **colours)
        axis.set_title(name)
    for axis in axes:
        axis.set(xlabel="gold", ylabel="silver")
    figure.suptitle("The joint law of two returns from the start")
    return save_figure(figure, path)
