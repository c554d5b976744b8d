"""The synthetic figures: data, scalar field, gradient field, samples, and a score model's samples."""

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from bellman_diffusion.render.figure import new_figure, save_figure

_BLUE, _RED, _GREY = "#1f5f99", "#b3362b", "#888888"
Panels = dict[str, np.ndarray]
# Shares of lost paths that a picture tells of.
_MENTIONED = 0.005


def draw_field_row(
    path: Path, title: str, panels: Panels, others: dict[str, Panels], lost: float
) -> None:
    """Panels for one set and model, three in a row; `others` adds panels of other models' samples.

    `lost` is the share of the paths that were lost.
    """
    n_panels = 4 + len(others)
    n_columns = 2 if n_panels == 4 else 3
    n_rows = -(-n_panels // n_columns)
    figure = new_figure(3.7 * n_columns, 3.0 * n_rows + 0.3)
    axes = figure.subplots(n_rows, n_columns).reshape(-1)
    for axis in axes[n_panels:]:
        axis.set_axis_off()
    draw = _draw_line if panels["data"].shape[1] == 1 else _draw_plane
    draw(axes[:n_panels], panels, others)
    if lost >= _MENTIONED:
        axes[3].set_title(f"samples ({lost:.0%} of the paths lost)", fontsize=10)
    figure.suptitle(title)
    save_figure(figure, path)


def _draw_line(axes: Any, panels: Panels, others: dict[str, Panels]) -> None:
    x, order = panels["grid"][:, 0], np.argsort(panels["grid"][:, 0])
    bins = np.linspace(x.min(), x.max(), 80)
    _histogram(axes[0], "data", panels["data"], None, bins)
    axes[1].plot(x[order], panels["s"][order], color=_BLUE, label="scalar field s")
    if "density" in panels:
        axes[1].plot(x[order], panels["density"][order], color=_RED, lw=1, label="density")
    axes[1].legend(loc="upper center", fontsize=8, ncols=2)
    axes[1].set_ylim(0, 1.3 * max(panels["s"].max(), panels.get("density", panels["s"]).max()))
    _label(axes[1], "scalar field", "x", "s(x)")
    axes[2].plot(x[order], panels["g"][order, 0], color=_BLUE)
    axes[2].axhline(0, color=_GREY, lw=0.5)
    _label(axes[2], "gradient field", "x", "g(x)")
    _histogram(axes[3], "samples", panels["samples"], panels["data"], bins)
    for axis, (name, other) in zip(axes[4:], others.items(), strict=True):
        _histogram(axis, f"samples of the {name} model", other["samples"], panels["data"], bins)


def _histogram(
    axis: Axes,
    title: str,
    x: Float[np.ndarray, "n 1"],
    reference: Float[np.ndarray, "m 1"] | None,
    bins: np.ndarray,
) -> None:
    inside = x[(x[:, 0] >= bins[0]) & (x[:, 0] <= bins[-1]), 0]
    # As a share of all points, so that points outside the picture are missing from it.
    heights = np.histogram(inside, bins)[0] / len(x) / np.diff(bins)
    axis.stairs(heights, bins, fill=True, color=_BLUE, alpha=0.6)
    if reference is not None:
        axis.hist(
            reference[:, 0],
            bins=bins.tolist(),
            density=True,
            histtype="step",
            color=_RED,
            label="data",
        )
        axis.legend(loc="upper right", fontsize=8)
    _label(axis, title, "x", "density")


def _draw_plane(axes: Any, panels: Panels, others: dict[str, Panels]) -> None:
    grid = panels["grid"]
    n = round(len(grid) ** 0.5)
    shape = (n, n)
    x, y = grid[:, 0].reshape(shape), grid[:, 1].reshape(shape)
    _scatter(axes[0], "data", panels["data"], grid)
    mesh = axes[1].pcolormesh(x, y, panels["s"].reshape(shape), cmap="viridis", shading="gouraud")
    axes[1].figure.colorbar(mesh, ax=axes[1], label="s(x)", shrink=0.8)
    if "density" in panels:
        density = panels["density"].reshape(shape)
        levels = density.max() * np.array([0.05, 0.2, 0.4, 0.6, 0.8])
        axes[1].contour(x, y, density, levels=levels, colors="white", linewidths=0.7)
        _label(axes[1], "scalar field (contours: density)", "x₁", "x₂")
    else:
        _label(axes[1], "scalar field", "x₁", "x₂")
    _arrows(axes[2], panels, shape)
    _scatter(axes[3], "samples", panels["samples"], grid)
    for axis, (name, other) in zip(axes[4:], others.items(), strict=True):
        _scatter(axis, f"samples of the {name} model", other["samples"], grid)


def _arrows(axis: Axes, panels: Panels, shape: tuple[int, int]) -> None:
    every = max(1, shape[0] // 20)
    pick = np.zeros(shape, bool)
    pick[every // 2 :: every, every // 2 :: every] = True
    pick = pick.reshape(-1)
    at, g = panels["grid"][pick], panels["g"][pick]
    length = np.linalg.norm(g, axis=1)
    # Direction by the arrow, size by its colour: lengths differ by orders of magnitude.
    unit = g / np.maximum(length, 1e-12)[:, None]
    arrows = axis.quiver(
        at[:, 0], at[:, 1], unit[:, 0], unit[:, 1], length, cmap="viridis", pivot="mid", scale=25
    )
    assert axis.figure is not None
    axis.figure.colorbar(arrows, ax=axis, label="|g(x)|", shrink=0.8)
    _label(axis, "gradient field", "x₁", "x₂")


def _scatter(
    axis: Axes, title: str, x: Float[np.ndarray, "n 2"], grid: Float[np.ndarray, "m 2"]
) -> None:
    axis.scatter(x[:, 0], x[:, 1], s=2, alpha=0.4, color=_BLUE, linewidths=0)
    axis.set_xlim(grid[:, 0].min(), grid[:, 0].max())
    axis.set_ylim(grid[:, 1].min(), grid[:, 1].max())
    _label(axis, title, "x₁", "x₂")


def _label(axis: Axes, title: str, x: str, y: str) -> None:
    axis.set_title(title, fontsize=10)
    axis.set_xlabel(x)
    axis.set_ylabel(y)
