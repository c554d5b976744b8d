"""Intervals with a coverage that is promised: split conformal prediction (Romano et al. 2019).

From n episodes that the model was not trained on, one start each, the predicted interval is widened by
the ⌈(n + 1)(1 − α)⌉-th smallest of the scores max(low − G, G − high). For a fresh episode the return
then lies inside with a probability of at least 1 − α, whatever the model: starts and returns of
episodes are exchangeable.
"""

import math

import jax.numpy as jnp
import msgspec
import numpy as np
from jaxtyping import Float

from bellman_diffusion.planning.transitions import Returns
from bellman_diffusion.returns.distribution import ReturnDistribution

LEVELS = (0.8, 0.9, 0.95)


class Conformal(msgspec.Struct, frozen=True, kw_only=True):
    """How much the interval of one level is widened at each end (negative: narrowed)."""

    level: float
    widening: float
    n_episodes: int
    coverage_raw: float
    """Of the model's own intervals, over the episodes that calibrate."""


def calibrate(predicted: ReturnDistribution, returns: Returns) -> list[Conformal]:
    """For the levels that so many episodes are enough for; `predicted` are those of their starts."""
    value, n, found = returns.value, len(returns.value), []
    for level in LEVELS:
        rank = math.ceil((n + 1) * level)
        if rank > n:
            continue
        low, high = interval(predicted, level)
        score = np.maximum(low - value, value - high)
        raw = float(np.mean(score <= returns.slack))
        widening = float(np.sort(score)[rank - 1])
        found.append(Conformal(level=level, widening=widening, n_episodes=n, coverage_raw=raw))
    return found


def interval(
    predicted: ReturnDistribution, level: float, widening: float = 0.0
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Both ends for each state; a narrowed interval is never empty."""
    tail = (1 - level) / 2
    ends = np.asarray(predicted.quantile(jnp.asarray([tail, 1 - tail], jnp.float32)), float)
    low, high = ends[..., 0] - widening, ends[..., 1] + widening
    middle = (low + high) / 2
    return np.minimum(low, middle), np.maximum(high, middle)
