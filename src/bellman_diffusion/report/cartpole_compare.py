"""How much faster and steadier than C51, with what the seeds leave open."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from bellman_diffusion.metrics.aggregate import Difference, difference, median_ratio_interval

Figures = Mapping[str, Any]


class Gain(NamedTuple):
    """C51's median steps over another's, and the ends of the 95 % interval.

    0 and ∞ where one of them never gets there, not a number where neither does.
    """

    ratio: float
    low: float
    high: float

    def __str__(self) -> str:
        if np.isfinite(self.ratio) and self.ratio > 0:
            ends = ["∞" if np.isinf(end) else f"{end:.1f}" for end in (self.low, self.high)]
            return f"{self.ratio:.1f} × ({ends[0]} to {ends[1]})"
        if np.isnan(self.ratio):
            return "neither median seed gets there"
        # Nothing can be said of a ratio that seeds leave anywhere.
        unclear = self.low <= 1 <= self.high
        who = "C51's median seed never gets there" if self.ratio else "only C51's gets there"
        return f"{who}; which is faster the seeds leave open" if unclear else who


def speed_gain(ours: Figures, c51: Figures, criterion: str = "first_solved") -> Gain:
    """By the steps to a solved cart-pole; seeds that never got there count as infinite."""
    theirs, own = (
        np.array([np.inf if value is None else float(value) for value in figures[criterion]])
        for figures in (c51, ours)
    )
    with np.errstate(invalid="ignore"):
        ratio = float(np.median(theirs) / np.median(own))
    return Gain(ratio, *median_ratio_interval(theirs, own))


def steadiness_gain(ours: Figures, c51: Figures) -> Difference | None:
    """How many fewer evaluations relapse than C51's; None where fewer than two seeds got there."""
    own, theirs = (
        [share for share in figures["per_seed"]["relapses"] if share is not None]
        for figures in (ours, c51)
    )
    return difference(theirs, own) if min(len(own), len(theirs)) > 1 else None


def shown_steadiness(gain: Difference) -> str:
    """In percentage points, with the standard error."""
    than = "fewer" if gain.mean >= 0 else "more"
    points = f"{100 * abs(gain.mean):.1f} ± {100 * gain.error:.1f} percentage points {than}"
    return points if gain.is_clear else f"{points} (no more than seeds explain)"
