"""The claims of the paper that can be put to a test: what it says, what we measured, a verdict.

A claim is judged from the JSON that its experiment wrote; where that is missing it is "not run".
"""

from collections.abc import Mapping, Sequence
from typing import get_args

from bellman_diffusion.report.claims import CLAIMS
from bellman_diffusion.report.claims.base import (
    Claim,
    Finding,
    MissingFigureError,
    Summary,
    Verdict,
)
from bellman_diffusion.report.page import Table


def ledger_rows(results: Mapping[str, Summary]) -> list[tuple[Claim, Finding]]:
    """Every claim with its finding; `results` has a summary for each experiment that was run."""
    return [(claim, _finding(claim, results.get(claim.part))) for claim in CLAIMS]


def ledger_table(results: Mapping[str, Summary], part: str | None = None) -> Table:
    """For pages; of one experiment's claims where its name is given."""
    header = ("place", "claim", "the paper", "ours", "verdict", "evidence")
    rows = [
        (c.place, c.text, c.paper, f.ours, f.verdict, f.evidence)
        for c, f in ledger_rows(results)
        if part in (None, c.part)
    ]
    return Table(header, rows, of_words=True)


def verdict_counts(rows: Sequence[tuple[Claim, Finding]]) -> dict[str, int]:
    """How many claims have each verdict."""
    found = [finding.verdict for _, finding in rows]
    return {verdict: found.count(verdict) for verdict in get_args(Verdict) if verdict in found}


def _finding(claim: Claim, summary: Summary | None) -> Finding:
    if summary is None:
        return Finding("–", "not run", f"bellman reproduce {claim.part} has no results here.")
    try:
        return claim.judge(summary)
    except KeyError as error:
        # A thinned run need not have every table, model and seed.
        return Finding("–", "not run", f"This run left out {error}.")
    except MissingFigureError as error:
        return Finding("–", "not run", f"This run lacks {error}.")
