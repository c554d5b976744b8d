"""The report of training on synthetic rows and testing on real ones."""

from pathlib import Path
from typing import Any

from bellman_diffusion.report.page import Section, Table, write_page


def usefulness_table(summary: dict[str, Any]) -> Table:
    """R² by what the trees learned from, ours above what TabDDPM's authors report."""
    rows = [
        ("ours", _interval(summary, "tstr"), "scikit-learn's trees"),
        ("real rows", _interval(summary, "real"), "scikit-learn's trees"),
        *(
            (name, f"{value:.3f}", "as published, CatBoost")
            for name, value in summary["published"].items()
        ),
    ]
    return Table(("learned from", "R² of the rings on real rows", "by"), rows)


def usefulness_text(summary: dict[str, Any]) -> str:
    """What is compared."""
    return (
        f"Abalone with TabDDPM's sizes, mean and deviation over {len(summary['seeds'])} splits. Trees "
        f"that learn from synthetic rows reach {summary['tstr'] / summary['real']:.1%} of the R² of "
        "those that learn from the real rows."
    )


def write_usefulness_report(out: Path, summary: dict[str, Any], command: str) -> Path:
    """Write `report.html`."""
    section = Section("Abalone", usefulness_text(summary), usefulness_table(summary))
    return write_page(out / "report.html", "Train on synthetic, test on real", command, [section])


def _interval(summary: dict[str, Any], name: str) -> str:
    deviation = summary[f"{name}_deviation"]
    return f"{summary[name]:.3f}" + ("" if deviation is None else f" ± {deviation:.3f}")
