"""Figures over seeds with bootstrap intervals (rliable's way)."""

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.stats import sem, trim_mean, ttest_1samp, ttest_ind

_RESAMPLES = 1000
_LEVEL = 0.95


class Difference(NamedTuple):
    """A difference of means over seeds, with its 95 % interval by Student's t."""

    mean: float
    error: float
    """The standard error."""
    low: float
    high: float

    @property
    def margin(self) -> float:
        """Half of the interval: few seeds leave more open than two standard errors."""
        return (self.high - self.low) / 2

    @property
    def is_clear(self) -> bool:
        """Whether the interval excludes zero."""
        return abs(self.mean) > self.margin

    @classmethod
    def of(cls, test: Any, mean: float, error: float) -> "Difference":
        """From one of SciPy's t-tests."""
        interval = test.confidence_interval(_LEVEL)
        return cls(mean, error, float(interval.low), float(interval.high))


def paired_difference(differences: Sequence[float]) -> Difference:
    """Of differences that were taken seed by seed."""
    values = np.asarray(differences, float)
    with warnings.catch_warnings():
        # Equal differences have no spread: their interval is a point.
        warnings.simplefilter("ignore", RuntimeWarning)
        return Difference.of(ttest_1samp(values, 0), float(values.mean()), float(sem(values)))


def difference(above: Sequence[float], below: Sequence[float]) -> Difference:
    """mean(above) − mean(below) of independent seeds (Welch)."""
    one, other = np.asarray(above, float), np.asarray(below, float)
    mean, error = one.mean() - other.mean(), np.hypot(sem(one), sem(other))
    if error == 0:
        return Difference(float(mean), 0.0, float(mean), float(mean))
    return Difference.of(ttest_ind(one, other, equal_var=False), float(mean), float(error))


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
