"""The report of the ablation: W1 against ε and n, beside the paper's."""

from pathlib import Path
from typing import Any

from bellman_diffusion.experiments.ablation import POINTS, PRESETS
from bellman_diffusion.experiments.uci_cases import CASES
from bellman_diffusion.report.figure import new_figure, save_figure
from bellman_diffusion.report.page import Section, Table, with_error, write_page

_TITLES = {"paper": "paper preset, stabilised", "default": "default"}


def ablation_table(summary: dict[str, Any]) -> Table:
    """One row for each ε and n."""
    tables = _tables(summary)
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
    parts = []
    for table in _tables(summary):
        for preset in PRESETS:
            w1 = {p.name: summary[table][preset][p.name]["w1"] for p in POINTS}
            by_epsilon = {p.epsilon: w1[p.name] for p in POINTS if p.n_slices == 1 and w1[p.name]}
            name = f"{CASES[table].title}, {_TITLES[preset]}"
            if not by_epsilon:
                parts.append(f"{name}: no rows.")
                continue
            best = min(by_epsilon, key=lambda e: by_epsilon[e])
            spread = max(by_epsilon.values()) / min(by_epsilon.values()) - 1
            text = f"{name}: best ε {best:g}, the worst {spread:.0%} above it"
            slices = [w1[p.name] for p in POINTS if p.epsilon == 0.5]
            if all(slices):
                gain = 1 - min(slices[1:]) / slices[0]
                text += f"; two or three slices {abs(gain):.1%} {'better' if gain > 0 else 'worse'}"
            parts.append(text + ".")
    return " ".join(parts)


def write_ablation_report(out: Path, summary: dict[str, Any], command: str) -> Path:
    """Draw the figure and write `report.html`."""
    picture = draw_ablation(out / "figures" / "ablation.png", summary)
    section = Section(
        "Kernel variance and slices",
        f"Means over {len(summary['seeds'])} seeds. {ablation_verdict(summary)}",
        ablation_table(summary),
        [(picture, "W1 over its floor against ε and n")],
    )
    return write_page(out / "report.html", "Ablation (Appendix F.2)", command, [section])


def draw_ablation(path: Path, summary: dict[str, Any]) -> Path:
    """W1 over the floor against ε (n = 1) and against n (ε = 0.5)."""
    tables = _tables(summary)
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
                axes.plot(x, y, "o-", label=_TITLES[preset])
        line[0].set_xscale("log")
        line[0].set_xlabel("ε (n = 1)")
        line[1].set_xlabel("n (ε = 0.5)")
        line[1].set_xticks([1, 2, 3])
        for axes in line:
            axes.set_title(CASES[table].title)
            axes.set_ylabel("W1 / floor")
            axes.set_ylim(bottom=0)
    grid[0, 0].legend(frameon=False)
    return save_figure(figure, path)


def _figure(f: dict[str, Any]) -> str:
    if f["w1"] is None:
        return f"no rows for {f['failed']} seed(s)"
    w1 = with_error(f["w1"], [cell.get("w1") for cell in f["per_seed"]], ".3f")
    return f"{w1} ({f['w1_over_floor']:.2f} × floor)"


def _tables(summary: dict[str, Any]) -> list[str]:
    return [name for name in POINTS[0].paper if name in summary]
