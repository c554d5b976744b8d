"""The ledger of claims; Propositions 3.1 and 3.2, Theorems 4.1 and 4.2."""

from bellman_diffusion.report.claims.base import LEGEND
from bellman_diffusion.report.convergence_report import (
    convergence_table,
    convergence_verdict,
    errors_table,
    errors_verdict,
)
from bellman_diffusion.report.equivalence_report import (
    equivalence_table,
    equivalence_text,
    pairs_table,
    pairs_text,
)
from bellman_diffusion.report.ledger import ledger_rows, ledger_table, verdict_counts
from bellman_diffusion.report.paper_report import read_results
from pages.common import RESULTS, WIDE, command, pictures, published, table, unpublished


def claims_page() -> str:
    """The ledger."""
    results = read_results(RESULTS)
    rows = ledger_rows(results)
    counts = ", ".join(f"{n} {name}" for name, n in verdict_counts(rows).items())
    return f"""{WIDE}# The paper's claims

The paper's claims that can be put to a test, with what we measured: {counts}. {LEGEND}
`bellman reproduce all` makes all of it, with one report; `--quick` a thinned version.

{table(ledger_table(results))}
"""


def theorems_page() -> str:
    """Propositions 3.1 and 3.2, Theorems 4.1 and 4.2."""
    losses, summary = published("equivalence"), published("convergence")
    if losses is None or summary is None:
        return unpublished("# Propositions and theorems", "convergence")
    # Shown each in its place.
    pictures("convergence")
    return f"""{WIDE}# Propositions and theorems

## Field matching (Propositions 3.1 and 3.2)

{command("equivalence")}

{equivalence_text(losses)}

{table(equivalence_table(losses))}

{pairs_text(losses)}

{table(pairs_table(losses))}

## The dynamics

{command("convergence")}

One dimension, exact fields, and no sampling: the Fokker–Planck equation of $dx = p'dt + \\sqrt{{p}}\\,dw$ on a grid.

### Convergence (Theorem 4.1)

{convergence_verdict(summary)}

{table(convergence_table(summary))}

![KL to the target over time](pictures/convergence.png)

### Errors of the fields (Theorem 4.2)

A wave of the given height is added to both fields of ½(1 + 0.9 cos πx). {errors_verdict(summary)}

{table(errors_table(summary))}

![W2 to the target over the error of the fields](pictures/errors.png)
"""
