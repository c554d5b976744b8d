"""Figures over seeds with bootstrap intervals (rliable's way)."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.stats import t as student
from scipy.stats import trim_mean

_RESAMPLES = 1000
_LEVEL = 0.95


class Difference(NamedTuple):
    """A difference of means over seeds, its standard error, and the degrees of freedom of that."""

    mean: float
    error: float
    freedom: float

    @property
    def margin(self) -> float:
        """Half of the 95 % interval by Student's t: few seeds leave more open than two errors."""
        return float(student.ppf((1 + _LEVEL) / 2, self.freedom)) * self.error

    @property
    def is_clear(self) -> bool:
        """More than seeds explain, for better or for worse."""
        return abs(self.mean) > self.margin


def paired_difference(differences: Sequence[float]) -> Difference:
    """Of differences that were taken seed by seed."""
    values = np.asarray(differences, float)
    n = len(values)
    return Difference(float(values.mean()), float(values.std(ddof=1) / np.sqrt(n)), n - 1)


def difference(above: Sequence[float], below: Sequence[float]) -> Difference:
    """mean(above) − mean(below) of seeds that have nothing to do with each other (Welch)."""
    one, other = (np.asarray(values, float) for values in (above, below))
    parts = [values.var(ddof=1) / len(values) for values in (one, other)]
    spread = sum(p**2 / (len(v) - 1) for p, v in zip(parts, (one, other), strict=True))
    freedom = sum(parts) ** 2 / spread if spread else np.inf
    return Difference(float(one.mean() - other.mean()), float(np.sqrt(sum(parts))), float(freedom))


def iqm(values: Float[np.ndarray, "*n seeds"]) -> Float[np.ndarray, "*n"]:
    """The mean of the middle half of the seeds."""
    return np.asarray(trim_mean(values, 0.25, axis=-1))


def iqm_interval(
    values: Float[np.ndarray, "*n seeds"], level: float = _LEVEL, seed: int = 0
) -> tuple[Float[np.ndarray, "*n"], Float[np.ndarray, "*n"]]:
    """The percentile bootstrap over seeds."""
    rng = np.random.default_rng(seed)
    n = values.shape[-1]
    pick = rng.integers(0, n, (_RESAMPLES, n))
    figures = iqm(np.moveaxis(values[..., pick], -2, 0))
    tail = 100 * (1 - level) / 2
    low, high = np.percentile(figures, [tail, 100 - tail], axis=0)
    return np.asarray(low), np.asarray(high)


def median_ratio_interval(
    above: Float[np.ndarray, " m"], below: Float[np.ndarray, " n"], seed: int = 0
) -> tuple[float, float]:
    """The percentile bootstrap of median(above) / median(below), the seeds of both drawn apart.

    Infinite values are seeds that never got there; where neither median did, the ratio is 1.
    """
    rng = np.random.default_rng(seed)
    medians = [
        np.median(values[rng.integers(0, len(values), (_RESAMPLES, len(values)))], axis=1)
        for values in (above, below)
    ]
    with np.errstate(invalid="ignore"):
        ratios = medians[0] / medians[1]
    ratios[np.isnan(ratios)] = 1.0
    tail = (1 - _LEVEL) / 2
    # Values that there are: between a finite and an infinite one nothing lies.
    low, high = np.quantile(ratios, [tail, 1 - tail], method="nearest")
    return float(low), float(high)
