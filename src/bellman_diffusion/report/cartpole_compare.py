"""How much faster and steadier than C51, with what the seeds leave open."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from bellman_diffusion.metrics.aggregate import median_ratio_interval

Figures = Mapping[str, Any]


class Gain(NamedTuple):
    """C51's median steps over another's, and the ends of the 95 % interval."""

    ratio: float
    low: float
    high: float

    def __str__(self) -> str:
        shown = ["∞" if np.isinf(value) else f"{value:.1f}" for value in self]
        return f"{shown[0]} × ({shown[1]} to {shown[2]})"


class Difference(NamedTuple):
    """How many fewer late evaluations fail than C51's, and its standard error."""

    gain: float
    error: float

    @property
    def is_clear(self) -> bool:
        """More than seeds explain, for better or for worse."""
        return abs(self.gain) > 2 * self.error

    def __str__(self) -> str:
        than = "fewer" if self.gain >= 0 else "more"
        return f"{abs(self.gain):.1%} ± {self.error:.1%} {than} than C51's"


def speed_gain(ours: Figures, c51: Figures) -> Gain:
    """By the steps to a solved cart-pole; seeds that never got there count as infinite."""
    theirs, own = (
        np.array([np.inf if value is None else float(value) for value in figures["first_solved"]])
        for figures in (c51, ours)
    )
    with np.errstate(invalid="ignore"):
        ratio = float(np.median(theirs) / np.median(own))
    return Gain(1.0 if np.isnan(ratio) else ratio, *median_ratio_interval(theirs, own))


def steadiness_gain(ours: Figures, c51: Figures) -> Difference | None:
    """None where a run was too short for late evaluations, or has one seed."""
    pair = [late_failures(figures) for figures in (ours, c51)]
    if any(late is None or len(late) < 2 for late in pair):
        return None
    own, theirs = (np.asarray(late) for late in pair)
    error = np.sqrt(sum(late.var(ddof=1) / len(late) for late in (own, theirs)))
    return Difference(float(theirs.mean() - own.mean()), float(error))


def late_failures(figures: Figures) -> Float[np.ndarray, " seeds"] | None:
    """Each seed's share of late evaluations below the bar."""
    late = figures["per_seed"]["late_failures"]
    return None if late is None else np.array(late, float)
