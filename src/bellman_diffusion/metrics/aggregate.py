"""Figures over seeds with bootstrap intervals (rliable's way)."""

import numpy as np
from jaxtyping import Float
from scipy.stats import trim_mean

_RESAMPLES = 1000
_LEVEL = 0.95


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
