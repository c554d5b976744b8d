"""The page of the cart-pole comparison."""

from pathlib import Path
from typing import Any

import numpy as np

from bellman_diffusion.experiments.cartpole import SETTINGS, SOLVED
from bellman_diffusion.report.agent_figures import COLOURS, draw_curves
from bellman_diffusion.report.figure import new_figure, save_figure
from bellman_diffusion.report.page import Section, Table, write_page

_HEADER = (
    "settings",
    "algorithm",
    "median steps to 475",
    "worst seed",
    "late evaluations below 475",
    "IQM of return",
    "W1 of the law",
    "seconds",
)


def cartpole_table(summary: dict[str, Any]) -> Table:
    """One row for each setting and algorithm."""
    rows = []
    for setting in SETTINGS:
        for algo, figures in summary[setting].items():
            late = figures["late_failures"]
            rows.append(
                (
                    setting,
                    algo,
                    _steps(figures["median_steps"]),
                    _steps(figures["worst_steps"]),
                    "–" if late is None else f"{late:.1%}",
                    f"{figures['iqm']:.1f}",
                    f"{figures['law_w1']:.1%}",
                    "–" if figures["seconds"] is None else f"{figures['seconds']:.0f}",
                )
            )
    return Table(_HEADER, rows)


def cartpole_verdict(summary: dict[str, Any]) -> str:
    """On "1.5 times faster and more stable than C51", for the default and for the paper's own model."""
    sentences = []
    for setting in SETTINGS:
        row = summary[setting]
        if "c51" not in row:
            continue
        for algo in ("bellman", "bellman-paper"):
            if algo in row:
                sentences.append(_compare(setting, algo, row[algo], row["c51"]))
    return " ".join(sentences)


def _compare(setting: str, algo: str, ours: dict[str, Any], c51: dict[str, Any]) -> str:
    mine, its = ours["median_steps"], c51["median_steps"]
    if mine is None:
        speed = "does not reach 475 at its median seed"
    elif its is None:
        speed = f"reaches 475 at {mine:,.0f} steps where C51's median seed never does"
    else:
        times = "times fewer" if its >= mine else "times as many"
        speed = f"needs {max(its / mine, mine / its):.2f} {times} steps than C51"
    late, other = ours["late_failures"], c51["late_failures"]
    if late is None or other is None:
        return f"{setting}: {algo} {speed}."
    steady = "as steady" if late == other else "steadier" if late < other else "less steady"
    return f"{setting}: {algo} {speed} and is {steady} ({late:.1%} against {other:.1%})."


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
        f"{len(summary['seeds'])} seeds, {summary['steps']:,} steps; 20 greedy episodes every 1,000 "
        "steps. Late evaluations are those after 25,000 steps. W1 is the mean distance of the "
        "predicted return law to Monte-Carlo returns from 20 states of the final policy, in shares "
        "of the range of returns (100). " + cartpole_verdict(summary)
    )
    sections = [
        Section("Cart-pole: the paper's comparison with C51", text, cartpole_table(summary)),
        Section(
            "Learning",
            "Thin lines are seeds; thick ones the interquartile mean with its 95 % interval.",
            pictures=[(curves, "Greedy return over steps")],
        ),
        Section(
            "Fields",
            "The scalar and the gradient field of the greedy action's return at a start, and at the "
            "last state before the pole falls; the grey bars are the mean returns that follow.",
            pictures=[(fields, "Fields at the first and the last state of an episode")],
        ),
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
                axes.axvline(state["return"], color="0.4", alpha=0.35, linewidth=4, zorder=0)
                axes.set(xlim=shown, title=f"{algo}\n{name}" if row == 2 * number else "")
                if column == 0:
                    axes.set_ylabel(quantity)
        grid[-1, column].set_xlabel("discounted return")
    return save_figure(figure, path)


def _steps(value: float | None) -> str:
    return "never" if value is None else f"{value:,.0f}"
