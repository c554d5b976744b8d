"""The page of the cart-pole comparison."""

from pathlib import Path
from typing import Any

import numpy as np

from bellman_diffusion.experiments.cartpole import FIELD_WIDTH, IN_A_ROW, SETTINGS, SOLVED
from bellman_diffusion.report.agent_figures import COLOURS, draw_curves
from bellman_diffusion.report.cartpole_compare import speed_gain, steadiness_gain
from bellman_diffusion.report.figure import new_figure, save_figure
from bellman_diffusion.report.page import Section, Table, with_error, write_page

_HEADER = (
    "settings",
    "algorithm",
    f"median steps to 475 ({IN_A_ROW} times in a row)",
    "worst seed",
    "late evaluations below 475",
    "IQM of return (95 %)",
    "W1 of the law",
    "error of s",
    "error of g",
    "seconds",
)
ABOUT_ERRORS = (
    f"Errors of s and g are ∫|s − s*|/∫|s*| and the same of g, s* and g* being the fields of those "
    f"returns smoothed by {FIELD_WIDTH:.0%} of the range (as the paper's model smooths its ends): 2 is "
    "that of a law in quite another place."
)


def cartpole_table(summary: dict[str, Any]) -> Table:
    """One row for each setting and algorithm."""
    rows = []
    for setting in SETTINGS:
        for algo, figures in summary[setting].items():
            rows.append((setting, algo, *_figures(figures)))
    return Table(_HEADER, rows)


def _figures(figures: dict[str, Any]) -> tuple[str, ...]:
    late, seeds = figures["late_failures"], figures["per_seed"]
    low, high = figures["iqm_interval"]
    return (
        shown_steps(figures["median_steps"]),
        shown_steps(figures["worst_steps"]),
        "–" if late is None else with_error(late, seeds["late_failures"], ".1%"),
        f"{figures['iqm']:.0f} ({low:.0f}–{high:.0f})",
        with_error(figures["law_w1"], seeds["law_w1"], ".1%"),
        *(
            with_error(figures[name], seeds[name], ".2f")
            for name in ("scalar_error", "gradient_error")
        ),
        "–" if figures["seconds"] is None else f"{figures['seconds']:.0f}",
    )


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
        speed = (
            f"reaches 475 at {mine:,.0f} steps, C51 at {its:,.0f}: {speed_gain(ours, c51)} faster"
        )
    steady = steadiness_gain(ours, c51)
    if steady is None:
        return f"{setting}: {algo} {speed}."
    kind = "steadier" if steady.gain > 0 else "less steady"
    how = kind if steady.is_clear else "as steady, as far as seeds tell"
    return f"{setting}: {algo} {speed}; it is {how} (late failures: {steady})."


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
        f"of the range of returns (100). {ABOUT_ERRORS} " + cartpole_verdict(summary)
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


def shown_steps(value: float | None) -> str:
    """Steps to a solved cart-pole."""
    return "never" if value is None else f"{value:,.0f}"
