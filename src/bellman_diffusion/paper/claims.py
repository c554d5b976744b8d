"""Claims of the paper that can be put to a test: what it says, what we measured, a verdict."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Literal, NamedTuple, TypeVar, get_args

from bellman_diffusion.render.page import Table

Verdict = Literal["reproduced", "better", "not reproduced", "claim wrong", "not run"]
# Shares of a field's size up to which it is said to be accurate.
ACCURATE = 0.25

LEGEND = (
    "Reproduced: we find what the paper says. Better: our figure is better than the paper's, or our "
    "default does what the paper's recipe as written does not. Not reproduced: we do not find it, or "
    "the difference is not significant. Claim wrong: no setting could make it right. ± is the "
    "standard error over seeds; a difference is significant if the 95 % t-interval over seeds excludes "
    "zero."
)


class Finding(NamedTuple):
    """What we measured, and one or two sentences of evidence."""

    ours: str
    verdict: Verdict
    evidence: str


S = TypeVar("S")


@dataclass(frozen=True)
class Claim(Generic[S]):
    """A claim and how it is tested."""

    place: str
    text: str
    paper: str
    """The paper's number or words."""
    finding: Callable[[S], Finding]


def claim(place: str, text: str, paper: str) -> Callable[[Callable[[S], Finding]], Claim[S]]:
    """A decorator: the function below it is how this claim is tested."""
    return partial(Claim, place, text, paper)


def reproduced(found: bool, recipe_too: bool = True) -> Verdict:
    """Whether we find what the paper says, and whether its recipe as written does so too."""
    return ("reproduced" if recipe_too else "better") if found else "not reproduced"


class MissingFigureError(Exception):
    """A figure that this run did not make."""


def known(value: Any, name: str) -> Any:
    """A figure that a thinned run may lack."""
    require(value is not None, name)
    return value


def require(there: bool, name: str) -> None:
    """Raise where a thinned run does not have this."""
    if not there:
        raise MissingFigureError(name)


class LedgerRow(NamedTuple):
    """A claim with what was found."""

    experiment: str
    claim: Claim[Any]
    finding: Finding


def ledger(claims: Sequence[Claim[Any]], experiment: str, summary: Any | None) -> list[LedgerRow]:
    """An experiment's claims with their findings; without a summary they are "not run"."""
    return [LedgerRow(experiment, claim, _find(claim, experiment, summary)) for claim in claims]


def _find(claim: Claim[Any], experiment: str, summary: Any | None) -> Finding:
    if summary is None:
        return Finding("–", "not run", f"bellman reproduce {experiment} has no results here.")
    try:
        return claim.finding(summary)
    except MissingFigureError as error:
        # A thinned run need not have every table, model and seed.
        return Finding("–", "not run", f"This run lacks {error}.")


def ledger_table(rows: Sequence[LedgerRow]) -> Table:
    """For pages."""
    header = ("place", "claim", "the paper", "ours", "verdict", "evidence")
    cells = [
        (r.claim.place, r.claim.text, r.claim.paper, r.finding.ours, r.finding.verdict,
         r.finding.evidence) for r in rows
    ]  # fmt: skip
    return Table(header, cells, of_words=True)


def verdict_counts(rows: Sequence[LedgerRow]) -> dict[str, int]:
    """How many claims have each verdict."""
    found = [row.finding.verdict for row in rows]
    return {verdict: found.count(verdict) for verdict in get_args(Verdict) if verdict in found}
