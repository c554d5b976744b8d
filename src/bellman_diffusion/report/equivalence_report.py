"""The report of Propositions 3.1 and 3.2."""

from pathlib import Path
from typing import Any

from bellman_diffusion.report.page import Section, Table, bullets, write_page


def equivalence_table(summary: dict[str, Any]) -> Table:
    """One row for each ε."""
    header = (
        "ε",
        "gradient loss (3.1)",
        "scalar loss (3.1)",
        "sliced gradient loss (3.2)",
        "boxed gradient loss",
        "boxed scalar loss",
    )
    names = ("gradient", "scalar", "sliced", "projected_gradient", "projected_scalar")
    rows = [
        (f"{row['epsilon']:g}", *(f"{row[name]:.2g}" for name in names)) for row in summary["rows"]
    ]
    return Table(header, rows, n_names=1)


def equivalence_text(summary: dict[str, Any]) -> str:
    """What is compared, and what is found."""
    last = summary["rows"][-1]
    rows = summary["rows"]
    boxed = min(max(row["projected_gradient"], row["projected_scalar"]) for row in rows)
    return (
        f"Losses of {summary['fields']} random fields on a mixture in the plane, by quadrature. Shown "
        "is how much a loss differs from the one that is meant by more than a constant, in shares of "
        f"that loss's spread over the fields. At ε = {last['epsilon']:g} the losses of Proposition 3.1 "
        f"are off by {last['gradient']:.1%} and {last['scalar']:.1%}, the sliced one by "
        f"{last['sliced']:.1%}; the boxed losses, whose kernel sees projections, by {boxed:.0%} or "
        "more at every ε: they are losses of another field than the density.\n\n"
        + _divergences_text(summary)
    )


def _divergences_text(summary: dict[str, Any]) -> str:
    """What Theorem B.1 says of the two divergences, by quadrature."""
    said = {"gradient": "D_grad", "scalar": "D_id"}
    found = [
        f"{said[name]}: {f['itself']:.1g} at p, {f['least_of_others']:.2g} or more at p moved or "
        f"widened; near p a quadratic form, to a relative {f['quadratic']:.0e}."
        for name, f in summary["divergences"].items()
    ]
    return f"Theorem B.1 (both losses are divergences):\n\n{bullets(found)}"


def pairs_table(summary: dict[str, Any]) -> Table:
    """One row for each number of columns."""
    rows = [
        (str(row["dim"]), f"{row['whole']:,.0f}", f"{row['projected']:,.0f}")
        for row in summary["pairs"]
    ]
    return Table(
        ("columns", "pairs, kernel of all columns", "pairs, kernel of a projection"),
        rows,
        n_names=1,
    )


def pairs_text(summary: dict[str, Any]) -> str:
    """What the second slice is for."""
    last = summary["pairs"][-1]
    return (
        "How many pairs of standard normal rows the mean of the kernel (ε = 0.1) takes for an error of "
        f"a tenth, in closed form: with {last['dim']} columns {last['whole']:.0e} for a kernel of all "
        f"columns, {last['projected']:,.0f} for one of a projection."
    )


def write_equivalence_report(out: Path, summary: dict[str, Any], command: str) -> Path:
    """Write `report.html`."""
    sections = [
        Section("Field matching", equivalence_text(summary), equivalence_table(summary)),
        Section("Slices of the kernel", pairs_text(summary), pairs_table(summary)),
    ]
    return write_page(out / "report.html", "Propositions 3.1 and 3.2", command, sections)
