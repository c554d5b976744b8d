"""What a claim of the paper is, and what we found of it."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

Verdict = Literal["reproduced", "better", "not reproduced", "claim wrong", "not run"]
Summary = Mapping[str, Any]
# Shares of a field's size up to which it is said to be accurate.
ACCURATE = 0.25


LEGEND = (
    "Reproduced: we find what the paper says. Better: our figure is better than the paper's, or our "
    "default does what the paper's recipe, as it is written, does not. Not reproduced: we do not "
    "find it, or no more of it than seeds explain. Claim wrong: no setting could make it right. ± is "
    "the standard error over seeds; what seeds explain is the 95 % interval of Student's t."
)


class Finding(NamedTuple):
    """What we measured, and one sentence of evidence."""

    ours: str
    verdict: Verdict
    evidence: str


class Claim(NamedTuple):
    """A claim and how it is judged."""

    place: str
    text: str
    paper: str
    """The paper's number or words."""
    part: str
    """The experiment that it is judged by."""
    judge: Callable[[Summary], Finding]


class MissingFigureError(Exception):
    """A figure that this run did not make."""


def known(value: float | None, name: str) -> float:
    """A figure that a thinned run may lack."""
    if value is None:
        raise MissingFigureError(name)
    return value
