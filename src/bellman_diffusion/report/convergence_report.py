"""The report of Theorems 4.1 and 4.2."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bellman_diffusion.experiments.convergence import TARGETS
from bellman_diffusion.report.captions import caption
from bellman_diffusion.report.figure import new_figure, save_figure
from bellman_diffusion.report.page import Section, Table, shown_range, write_page


def convergence_table(summary: dict[str, Any]) -> Table:
    """One row for each target."""
    header = (
        "target",
        "least density",
        "rate of KL when halved",
        "rate at the end",
        "at time",
        "twice the spectral gap",
    )
    rows = [
        (
            TARGETS[name].title,
            f"{f['least_density']:.1e}",
            f"{f['rate_halved']:.2g}",
            f"{f['rate_end']:.2g}",
            f"{f['time_end']:.0f}",
            f"{2 * f['gap']:.2g}",
        )
        for name, f in summary["convergence"].items()
    ]
    return Table(header, rows, n_names=1)


def errors_table(summary: dict[str, Any]) -> Table:
    """W2 by the fields' error and the horizon."""
    errors = summary["errors"]
    header = ("error of the fields", *(f"T = {t:g}" for t in errors["horizons"]))
    rows = [(f"{row['error']:g}", *(f"{w2:.2g}" for w2 in row["w2"])) for row in errors["rows"]]
    return Table(header, rows, n_names=1)


def convergence_verdict(summary: dict[str, Any]) -> str:
    """What the rates say of Theorem 4.1."""
    rates = summary["convergence"]
    fell = [n for n, f in rates.items() if f["divergence"][-1] < 1e-6 * f["divergence"][0]]
    kept = ", ".join(TARGETS[name].title for name in fell)
    left = ", ".join(
        f"{TARGETS[name].title} (still {f['divergence'][-1] / f['divergence'][0]:.0%} of its start "
        f"at t = {f['time_end']:.0f})"
        for name, f in rates.items()
        if name not in fell
    )
    return (
        f"KL falls exponentially, at twice the spectral gap, for {kept}. It does not for {left}, "
        "though these laws have a log-Sobolev inequality too: the theorem needs p bounded below, and "
        "its step (e) takes the largest value of p instead. Nothing passes the ends of the intervals: "
        "without such walls no density on all of the line is bounded below, and paths of the uniform "
        "law that leave its interval stay where they are."
    )


def errors_verdict(summary: dict[str, Any]) -> str:
    """What the distances say of Theorem 4.2."""
    slopes = error_slopes(summary)
    last = summary["horizon"]["normal"][-1]
    return (
        f"W2 at rest is {shown_range(slopes, '.2f')} times the error of the fields, and does "
        "not grow with T: the bound's factor √T e^(LT/2) is not seen where p is bounded below. For the "
        "normal law no error of the fields is small enough: with exact ones W2 is still "
        f"{last['w2']:.2f} at T = {last['time']:.0f}, since Theorem 4.1 fails there."
    )


def error_slopes(summary: Mapping[str, Any]) -> list[float]:
    """W2 at the last time over the error of the fields, for every error but none."""
    rows = [row for row in summary["errors"]["rows"] if row["error"] > 0]
    return [row["w2"][-1] / row["error"] for row in rows]


def write_convergence_report(out: Path, summary: dict[str, Any], command: str) -> Path:
    """Draw the figures and write `report.html`."""
    rates = _draw_rates(out / "figures" / "convergence.png", summary)
    errors = _draw_errors(out / "figures" / "errors.png", summary)
    sections = [
        Section(
            "Convergence (Theorem 4.1)",
            convergence_verdict(summary),
            convergence_table(summary),
            [caption(rates)],
        ),
        Section(
            "Errors (Theorem 4.2)",
            errors_verdict(summary),
            errors_table(summary),
            [caption(errors)],
        ),
    ]
    return write_page(out / "report.html", "Theorems 4.1 and 4.2", command, sections)


def _draw_rates(path: Path, summary: dict[str, Any]) -> Path:
    figure = new_figure(9, 3.8)
    left, right = figure.subplots(1, 2)
    for name, f in summary["convergence"].items():
        for axes in (left, right):
            axes.plot(f["times"], f["divergence"], label=TARGETS[name].title)
    left.set_xlim(0, 15)
    right.set_xscale("log")
    for axes in (left, right):
        axes.set_yscale("log")
        axes.set_xlabel("time t")
    left.set_ylabel("KL(p_t ‖ p)")
    left.set_title("a straight line is an exponential", fontsize=9)
    right.set_title("the same, all times", fontsize=9)
    lines, names = left.get_legend_handles_labels()
    figure.legend(lines, names, loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    return save_figure(figure, path)


def _draw_errors(path: Path, summary: dict[str, Any]) -> Path:
    errors = summary["errors"]
    rows = [row for row in errors["rows"] if row["error"] > 0]
    figure = new_figure(5.5, 3.4)
    axes = figure.subplots()
    for k, horizon in enumerate(errors["horizons"]):
        axes.plot(
            [row["error"] for row in rows],
            [row["w2"][k] for row in rows],
            # The longest lies on the one before: at rest nothing grows.
            "o--" if k == len(errors["horizons"]) - 1 else "o-",
            label=f"T = {horizon:g}",
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("largest error of both fields")
    axes.set_ylabel("W2 to the target")
    axes.set_title("½(1 + 0.9 cos πx), after the time T", fontsize=9)
    axes.legend(frameon=False, fontsize=8)
    return save_figure(figure, path)
