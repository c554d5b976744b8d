"""Figures over seeds: the interquartile mean with a bootstrap interval (rliable's way)."""

import numpy as np
from jaxtyping import Float
from scipy.stats import trim_mean

_RESAMPLES = 1000


def iqm(values: Float[np.ndarray, "*n seeds"]) -> Float[np.ndarray, "*n"]:
    """The mean of the middle half of the seeds."""
    return np.asarray(trim_mean(values, 0.25, axis=-1))


def iqm_interval(
    values: Float[np.ndarray, "*n seeds"], level: float = 0.95, seed: int = 0
) -> tuple[Float[np.ndarray, "*n"], Float[np.ndarray, "*n"]]:
    """The percentile bootstrap over seeds."""
    rng = np.random.default_rng(seed)
    n = values.shape[-1]
    pick = rng.integers(0, n, (_RESAMPLES, n))
    figures = iqm(np.moveaxis(values[..., pick], -2, 0))
    tail = 100 * (1 - level) / 2
    low, high = np.percentile(figures, [tail, 100 - tail], axis=0)
    return np.asarray(low), np.asarray(high)
