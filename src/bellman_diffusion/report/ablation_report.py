"""The report of the ablation: W1 against ε and n, beside the paper's."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bellman_diffusion.experiments.ablation import POINTS, PRESETS, UNSLICED
from bellman_diffusion.experiments.uci_cases import CASES
from bellman_diffusion.metrics.aggregate import Difference, paired_difference
from bellman_diffusion.report.captions import caption
from bellman_diffusion.report.figure import new_figure, save_figure
from bellman_diffusion.report.page import Section, Table, bullets, counted, with_error, write_page

_TITLES = {"paper": "paper preset, stabilised", "default": "default"}


def ablation_table(summary: dict[str, Any]) -> Table:
    """One row for each ε and n."""
    tables = ablation_tables(summary)
    header = ["ε", "n"]
    for table in tables:
        title = CASES[table].title
        header += [f"{title}: the paper's W", *(f"{title}: {_TITLES[p]}, W1" for p in PRESETS)]
    rows = []
    for point in POINTS:
        row = [f"{point.epsilon:g}", str(point.n_slices)]
        for table in tables:
            found = [summary[table][preset][point.name] for preset in PRESETS]
            row += [f"{point.paper[table]:.3f}", *map(_figure, found)]
        rows.append(tuple(row))
    return Table(tuple(header), rows)


def ablation_verdict(summary: dict[str, Any]) -> str:
    """Whether the paper's two findings hold: a best ε in between, and little gain from more slices."""
    found = []
    for table in ablation_tables(summary):
        for preset in PRESETS:
            name = f"{CASES[table].title}, {_TITLES[preset]}"
            found.append(f"{name}: {_finding(summary[table][preset])}.")
        if UNSLICED in summary[table]:
            found.append(
                f"{CASES[table].title}, without slices: {unsliced_finding(summary[table])}."
            )
    return bullets(found)


def _finding(figures: dict[str, Any]) -> str:
    by_epsilon = {
        p.epsilon: figures[p.name]["w1"]
        for p in POINTS
        if p.n_slices == 1 and figures[p.name]["w1"]
    }
    if not by_epsilon:
        return "no rows"
    best = min(by_epsilon, key=lambda e: by_epsilon[e])
    spread = max(by_epsilon.values()) / min(by_epsilon.values()) - 1
    text = f"best ε {best:g}, the worst {spread:.1%} above it"
    one, three = (figures[p.name] for p in POINTS if p.epsilon == 0.5 and p.n_slices != 2)
    gain = paired_gain(one, three)
    if gain is not None:
        than = "nearer" if gain.mean > 0 else "farther"
        text += f"; three slices {abs(gain.mean):.1%} ± {gain.error:.1%} {than} than one"
        text += "" if gain.is_clear else " (no more than seeds explain)"
    return text


def unsliced_finding(figures: Mapping[str, Any]) -> str:
    """The paper's recipe with the kernel of all columns and the whole trace, beside the sliced one."""
    whole, sliced = (figures[kind][POINTS[0].name] for kind in (UNSLICED, "paper"))
    if whole["w1"] is None or sliced["w1"] is None:
        return f"{_figure(whole)}; with them {_figure(sliced)}"
    ratios = f"{whole['w1_over_floor']:.2f} × floor, with them {sliced['w1_over_floor']:.2f}"
    gain = paired_gain(whole, sliced)
    if gain is None:
        return ratios
    sure = "" if gain.is_clear else " (no more than seeds explain)"
    return f"{ratios}: slices bring it {gain.mean:.0%} ± {gain.error:.0%} nearer{sure}"


def paired_gain(first: Mapping[str, Any], second: Mapping[str, Any]) -> Difference | None:
    """How much nearer the second is than the first, seed by seed; None for one seed, or no rows."""
    pairs = zip(first["per_seed"], second["per_seed"], strict=True)
    gains = [1 - b["w1"] / a["w1"] for a, b in pairs if "w1" in a and "w1" in b]
    complete = len(gains) == len(first["per_seed"]) > 1
    return paired_difference(gains) if complete else None


def write_ablation_report(out: Path, summary: dict[str, Any], command: str) -> Path:
    """Draw the figure and write `report.html`."""
    picture = draw_ablation(out / "figures" / "ablation.png", summary)
    section = Section(
        "Kernel variance and slices",
        f"Means over {counted(len(summary['seeds']), 'seed')}; ± is the standard error.\n\n"
        + ablation_verdict(summary),
        ablation_table(summary),
        [caption(picture)],
    )
    return write_page(out / "report.html", "Ablation (Appendix F.2)", command, [section])


def draw_ablation(path: Path, summary: dict[str, Any]) -> Path:
    """W1 over the floor against ε (n = 1) and against n (ε = 0.5)."""
    tables = ablation_tables(summary)
    figure = new_figure(9, 3.2 * len(tables))
    grid = figure.subplots(len(tables), 2, squeeze=False)
    for line, table in zip(grid, tables, strict=True):
        for preset in PRESETS:
            found = summary[table][preset]
            by_epsilon = {p.epsilon: found[p.name] for p in POINTS if p.n_slices == 1}
            by_slices = {p.n_slices: found[p.name] for p in POINTS if p.epsilon == 0.5}
            panels: list[tuple[Any, dict[Any, Any]]] = [(line[0], by_epsilon), (line[1], by_slices)]
            for axes, points in panels:
                x = sorted(k for k, f in points.items() if f["w1_over_floor"])
                y = [points[k]["w1_over_floor"] for k in x]
                errors = [_ratio_error(points[k]["per_seed"]) for k in x]
                axes.errorbar(x, y, errors, fmt="o-", capsize=3, label=_TITLES[preset])
        line[0].set_xscale("log")
        line[0].set_xlabel("ε (n = 1)")
        line[1].set_xlabel("n (ε = 0.5)")
        line[1].set_xticks([1, 2, 3])
        for axes in line:
            axes.set_title(CASES[table].title)
            axes.set_ylabel("W1 / floor")
            axes.set_ylim(0, 1.15 * axes.get_ylim()[1])
            axes.legend(frameon=False, fontsize=8, loc="lower right")
    return save_figure(figure, path)


def _ratio_error(cells: list[dict[str, Any]]) -> float:
    """The standard error of W1 over its floor; none of one seed."""
    ratios = [cell["w1"] / cell["w1_floor"] for cell in cells]
    return float(np.std(ratios, ddof=1) / np.sqrt(len(ratios))) if len(ratios) > 1 else 0.0


def _figure(f: dict[str, Any]) -> str:
    if f["w1"] is None:
        return f"no rows for {counted(f['failed'], 'seed')}"
    w1 = with_error(f["w1"], [cell.get("w1") for cell in f["per_seed"]], ".3f")
    return f"{w1} ({f['w1_over_floor']:.2f} × floor)"


def ablation_tables(summary: Mapping[str, Any]) -> list[str]:
    """The tables of a run, which a thinned one has not all of."""
    return [name for name in POINTS[0].paper if name in summary]
