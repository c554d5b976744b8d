"""The page of the cart-pole comparison."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from bellman_diffusion.experiments.cartpole import FIELD_WIDTH, IN_A_ROW, SETTINGS, SOLVED
from bellman_diffusion.report.agent_figures import COLOURS, draw_curves
from bellman_diffusion.report.captions import caption
from bellman_diffusion.report.cartpole_compare import (
    shown_steadiness,
    speed_gain,
    steadiness_gain,
)
from bellman_diffusion.report.figure import new_figure, save_figure
from bellman_diffusion.report.page import Section, Table, bullets, counted, with_error, write_page

# Errors beyond are told by their size alone.
_MANY = 100
_HEADER = (
    "settings",
    "algorithm",
    f"median steps to 475 ({IN_A_ROW} times in a row)",
    "worst seed",
    "below 475 after the first at it",
    "IQM of return (95 %)",
    "W1 of the law",
    "error of s",
    "error of g",
    "seconds",
)
ABOUT_FIGURES = bullets(
    [
        f"Steps to 475 are those to the first of {IN_A_ROW} evaluations in a row.",
        "How steady an agent is, is counted from its first evaluation at 475 on.",
        "W1 is the mean distance of the predicted return law to Monte-Carlo returns from 20 states of "
        "the final policy, in shares of the range of returns (100).",
        "Errors of s and g are ∫|s − s₀|/∫|s₀| and the same of g, s₀ and g₀ being the fields of those "
        f"returns, all smoothed by {FIELD_WIDTH:.0%} of the range: 2 is that of a law in quite another "
        "place.",
        "± is the standard error over seeds.",
    ]
)


def cartpole_table(summary: dict[str, Any]) -> Table:
    """One row for each setting and algorithm."""
    rows = []
    for setting in SETTINGS:
        for algo, figures in summary[setting].items():
            rows.append((setting, algo, *_figures(figures)))
    return Table(_HEADER, rows)


def _figures(figures: dict[str, Any]) -> tuple[str, ...]:
    seeds = figures["per_seed"]
    relapses = [share for share in seeds["relapses"] if share is not None]
    low, high = figures["iqm_interval"]
    return (
        shown_steps(figures["median_steps"]),
        shown_steps(figures["worst_steps"]),
        with_error(figures["relapses"], relapses, ".1%") if relapses else "–",
        f"{figures['iqm']:.0f} ({low:.0f}–{high:.0f})",
        with_error(figures["law_w1"], seeds["law_w1"], ".1%"),
        *(
            with_error(figures[name], seeds[name], ".2f" if figures[name] < _MANY else ".0e")
            for name in ("scalar_error", "gradient_error")
        ),
        "–" if figures["seconds"] is None else f"{figures['seconds']:.0f}",
    )


def cartpole_verdict(summary: dict[str, Any]) -> str:
    """On "1.5 times faster and more stable than C51", for the default and for the paper's own model."""
    found = [
        _compare(setting, algo, summary[setting][algo], summary[setting]["c51"])
        for setting in SETTINGS
        for algo in ("bellman", "bellman-paper")
        if "c51" in summary[setting] and algo in summary[setting]
    ]
    return bullets(found)


def _compare(setting: str, algo: str, ours: dict[str, Any], c51: dict[str, Any]) -> str:
    mine, its = ours["median_steps"], c51["median_steps"]
    own = "never lasts at 475" if mine is None else f"lasts at 475 from step {mine:,.0f} on"
    other = "never" if its is None else f"from step {its:,.0f} on"
    text = f"{setting.capitalize()} settings, {algo}: the median seed {own}, C51's {other}"
    if mine is not None and its is not None:
        text += f", {speed_gain(ours, c51)} as many steps"
    steady = steadiness_gain(ours, c51)
    if steady is None:
        return f"{text}."
    return f"{text}. Below 475 after the first at it: {shown_steadiness(steady)} than C51's."


def write_cartpole_report(out: Path, summary: dict[str, Any], command: str) -> Path:
    """Draw curves and fields, and write `report.html`."""
    cells = summary["cells"]
    panels = [
        {
            algo: (np.array(cell["steps"]), np.array(cell["returns"]).T)
            for algo, cell in cells[setting].items()
        }
        for setting in SETTINGS
    ]
    titles = ["plain settings", "each algorithm's best settings"]
    curves = draw_curves(out / "figures" / "curves.png", titles, panels, SOLVED)
    fields = _draw_fields(out / "figures" / "fields.png", cells["best"])
    text = (
        f"{counted(len(summary['seeds']), 'seed')}, {summary['steps']:,} steps; 20 greedy episodes "
        f"every 1,000 steps.\n\n{ABOUT_FIGURES}\n\n{cartpole_verdict(summary)}"
    )
    sections = [
        Section("Cart-pole: the paper's comparison with C51", text, cartpole_table(summary)),
        Section("Learning", pictures=[caption(curves)]),
        Section("Fields", pictures=[caption(fields)]),
    ]
    return write_page(out / "report.html", "Cart-pole", command, sections)


def _draw_fields(path: Path, cells: dict[str, Any]) -> Path:
    """A column for each algorithm; both fields at both states below each other."""
    figure = new_figure(3.1 * len(cells), 8.5)
    grid = figure.subplots(4, len(cells), squeeze=False)
    states = (("first state", (-15, 115)), ("last state before a fall", (-15, 45)))
    for column, (colour, (algo, cell)) in enumerate(zip(COLOURS, cells.items(), strict=False)):
        for number, (name, shown) in enumerate(states):
            state = cell["fields"][number]
            rows = (("density s", state["density"]), ("slope g", state["slope"]))
            for row, (quantity, values) in enumerate(rows, start=2 * number):
                axes = grid[row, column]
                axes.plot(state["x"], values, color=colour)
                if quantity == "density s":
                    axes.set_ylim(bottom=0)
                    _mark_if_empty(axes, np.array(state["x"]), np.array(values), shown)
                axes.axvline(state["return"], color="0.4", alpha=0.35, linewidth=4, zorder=0)
                axes.set(xlim=shown, title=f"{algo}\n{name}" if row == 2 * number else "")
                if column == 0:
                    axes.set_ylabel(quantity)
        grid[-1, column].set_xlabel("discounted return")
    return save_figure(figure, path)


def _mark_if_empty(axes: Axes, x: np.ndarray, s: np.ndarray, shown: tuple[float, float]) -> None:
    """Say so where a law lies outside of what is shown."""
    if s[(x >= shown[0]) & (x <= shown[1])].max() < 0.01 * s.max():
        axes.text(0.5, 0.5, "its mass is elsewhere", transform=axes.transAxes, ha="center")


def shown_steps(value: float | None) -> str:
    """Steps to a solved cart-pole."""
    return "never" if value is None else f"{value:,.0f}"
