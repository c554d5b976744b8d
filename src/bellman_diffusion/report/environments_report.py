"""The page of the agents on other environments than the paper's."""

from pathlib import Path
from typing import Any

import numpy as np

from bellman_diffusion.experiments.agents import CASES
from bellman_diffusion.report.agent_figures import draw_curves
from bellman_diffusion.report.captions import caption
from bellman_diffusion.report.page import Section, Table, write_page

_HEADER = (
    "environment",
    "agent",
    "steps",
    "mean return",
    "each seed",
    "bar",
    "seeds at the bar",
)


def environments_table(summary: dict[str, Any]) -> Table:
    """One row for each agent: greedy returns at the end of training."""
    rows = []
    for name in _cases(summary):
        for label, figures in summary[name].items():
            at_bar = (
                f"{figures['at_bar']} of {len(figures['returns'])}" if "bar" in figures else "–"
            )
            rows.append(
                (
                    CASES[name].env_id,
                    label,
                    f"{figures['steps']:,}",
                    f"{figures['mean']:.4g}",
                    ", ".join(f"{value:.3g}" for value in figures["returns"]),
                    f"{figures['bar']:g}" if "bar" in figures else "–",
                    at_bar,
                )
            )
    return Table(_HEADER, rows)


def cliff_table(summary: dict[str, Any]) -> Table:
    """Mean and worst tenth of each seed's returns on the windy cliff."""
    rows = [
        (label, str(seed), f"{one['mean']:.2f}", f"{one['worst']:.2f}")
        for label, figures in summary["windycliff"].items()
        for seed, one in zip(summary["seeds"], figures["cliff"], strict=True)
    ]
    return Table(("agent", "seed", "mean return", "mean of the worst tenth"), rows)


def write_environments_report(out: Path, summary: dict[str, Any], command: str) -> Path:
    """Draw every environment's curves and write `report.html`."""
    text = (
        f"{len(summary['seeds'])} seeds with the registered settings; the returns are those of greedy "
        "episodes at the end of training."
    )
    sections = [Section("Agents on other environments", text, environments_table(summary))]
    if "windycliff" in summary:
        sections.append(
            Section(
                "A careful agent",
                "On the windy cliff the short way has the better mean and the long way the better "
                "worst tenth. 4,000 greedy episodes of each seed.",
                cliff_table(summary),
            )
        )
    for name in _cases(summary):
        curves = {
            label: (np.array(cell["steps"]), np.array(cell["returns"]).T)
            for label, cell in summary["cells"][name].items()
        }
        case = CASES[name]
        path = out / "figures" / f"learning-{name}.png"
        picture = draw_curves(path, [case.env_id], [curves], case.bar)
        sections.append(Section(case.env_id, pictures=[caption(picture)]))
    return write_page(out / "report.html", "Agents", command, sections)


def _cases(summary: dict[str, Any]) -> list[str]:
    return [name for name in CASES if name in summary]
