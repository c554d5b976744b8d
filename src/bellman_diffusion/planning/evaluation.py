"""How accurate a planner is: against exact return distributions, or against held-out returns."""

import warnings

import jax.numpy as jnp
import msgspec
import numpy as np
from jaxtyping import Float

from bellman_diffusion.planning.certify import Certified, certified_distribution, certify
from bellman_diffusion.planning.transitions import Returns
from bellman_diffusion.returns.atoms import AtomicReturn
from bellman_diffusion.returns.distance import wasserstein
from bellman_diffusion.returns.distribution import ReturnDistribution
from bellman_diffusion.returns.mdp import Chain

_N_POINTS = 1001
_STATES_AT_ONCE = 8
_REFERENCE_ACCURACY = 1e-3
_N_LEVELS = 200
_BAND = (0.05, 0.5, 0.95)
_PIT_BINS = 10
# At which quantiles of groups are kept for the report.
QUANTILE_LEVELS = tuple(i / 20 for i in range(1, 20))
_ALPHA = 0.1
# Of the range: what is spread less widely is taken as a point.
_NARROWEST = 1e-7


class ExactEvaluation(msgspec.Struct, frozen=True, kw_only=True):
    """Errors over all states of a finite environment.

    W1 is to the return's own distribution, also in shares of the returns' range. The error of the
    gradient is ∫ |g − g*| / ∫ |g*|, both fields being those of return + N(0, σ²).
    """

    reference: str
    reference_error: float
    n_states: int
    w1_worst: float
    w1_mean: float
    w1_worst_relative: float
    mean_error_worst: float
    gradient_error_worst: float | None = None
    return_range: float


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """States of like predicted means."""

    n: int
    mean: float
    mean_predicted: float
    w1: float
    cvar_10: float
    cvar_10_predicted: float
    quantiles: list[float] = []
    """Of the held-out returns, at `QUANTILE_LEVELS`."""
    quantiles_predicted: list[float] = []
    """Of the mean of the predicted distributions."""


class HeldOutEvaluation(msgspec.Struct, frozen=True, kw_only=True):
    """Calibration against Monte-Carlo returns of held-out episodes."""

    reference: str = "held-out Monte-Carlo returns"
    n_returns: int
    n_episodes: int
    mean_monte_carlo: float
    mean_predicted: float
    mean_error_relative: float
    mean_error_start: float | None
    coverage_90: float
    pit_distance: float
    pit_histogram: list[float] = []
    """Shares of the probability integral transform in bins of equal width: even where all is right."""
    w1_worst_group: float
    cvar_10_error_worst_group: float
    groups: list[Group]


def reference_returns(chain: Chain, gamma: float, horizon: int | None = None) -> Certified:
    """The return's own distributions, certified to a fine grid: what planners are compared with."""
    with warnings.catch_warnings():
        # Where memory is short a coarser reference serves; the evaluation states its error.
        warnings.simplefilter("ignore", RuntimeWarning)
        return certify(chain, gamma, accuracy=_REFERENCE_ACCURACY, memory_gb=1.0, horizon=horizon)


def evaluate_exactly(
    predicted: ReturnDistribution, reference: Certified, sigma: float
) -> ExactEvaluation:
    """Compare the distributions of every state with the return's own, and the fields at one σ."""
    low, high = reference.range
    truth = certified_distribution(reference, np.arange(len(reference.moments.mean)))
    distance, slope = wasserstein(predicted, truth), []
    for first in range(0, predicted.batch_shape[0], _STATES_AT_ONCE):
        part = slice(first, first + _STATES_AT_ONCE)
        own, true = predicted[part], truth[part]
        ends = min(low, float(own.low)), max(high, float(own.high))
        wide = jnp.linspace(ends[0] - 4 * sigma, ends[1] + 4 * sigma, _N_POINTS)
        exact = true.gradient(wide, sigma)
        gap = np.abs(own.gradient(wide) - exact).sum(axis=1)
        slope.append(np.asarray(gap / np.abs(exact).sum(axis=1), float))
    gradient = np.concatenate(slope)
    mean_error = np.abs(np.asarray(predicted.mean(), float) - reference.moments.mean)
    return ExactEvaluation(
        reference="the return's own distribution (certified)",
        reference_error=float(reference.certificate().w1().max()),
        n_states=len(distance),
        w1_worst=float(distance.max()),
        w1_mean=float(distance.mean()),
        w1_worst_relative=float(distance.max() / (high - low)),
        mean_error_worst=float(mean_error.max()),
        gradient_error_worst=float(gradient.max()),
        return_range=float(high - low),
    )


def evaluate_against_returns(
    predicted: ReturnDistribution, returns: Returns, n_groups: int = 4
) -> HeldOutEvaluation:
    """`predicted` are the distributions of the returns' observations.

    Returns of one episode overlap, so the figures are less certain than their number suggests.
    """
    value = returns.value
    means = np.asarray(predicted.mean(), float)
    low, middle, high = np.asarray(predicted.quantile(jnp.asarray(_BAND)), float).T
    # What the end of a cut-off episode was worth is not known: of what it may be, the likeliest.
    likely = np.clip(middle, value - returns.slack, value + returns.slack)
    pit = probability_transform(predicted, likely)
    even = (np.arange(len(pit)) + 0.5) / len(pit)
    groups = [
        _group(predicted[rows], value[rows], means[rows])
        for rows in np.array_split(np.argsort(means), n_groups)
    ]
    mean, guess = float(value.mean()), float(means.mean())
    return HeldOutEvaluation(
        n_returns=len(value),
        n_episodes=int(np.sum(returns.starts)),
        mean_monte_carlo=mean,
        mean_predicted=guess,
        mean_error_relative=_relative_error(guess, mean),
        mean_error_start=_start_error(means, returns),
        coverage_90=float(np.mean((likely >= low) & (likely <= high))),
        pit_distance=float(np.mean(np.abs(np.sort(pit) - even))),
        pit_histogram=(np.histogram(pit, _PIT_BINS, (0, 1))[0] / len(pit)).tolist(),
        w1_worst_group=max(g.w1 for g in groups),
        cvar_10_error_worst_group=max(abs(g.cvar_10 - g.cvar_10_predicted) for g in groups),
        groups=groups,
    )


def probability_transform(
    predicted: ReturnDistribution, value: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """Evenly distributed where the predictions are right: an atom's share is drawn from at random."""
    x = jnp.asarray(value, jnp.float32)[:, None]
    hair = 4e-6 * (predicted.high - predicted.low)
    at, below = (np.asarray(predicted.cdf(y)[:, 0], float) for y in (x, x - hair))
    return below + np.random.default_rng(0).uniform(size=len(value)) * (at - below)


def _group(predicted: ReturnDistribution, value: np.ndarray, means: np.ndarray) -> Group:
    levels = (np.arange(_N_LEVELS) + 0.5) / _N_LEVELS
    shown = np.array(QUANTILE_LEVELS)
    n_worst = int(_ALPHA * _N_LEVELS)
    mixed, actual = _pooled_quantiles(predicted, levels), np.quantile(value, levels)
    return Group(
        n=len(value),
        mean=float(value.mean()),
        mean_predicted=float(means.mean()),
        w1=float(np.mean(np.abs(mixed - actual))),
        cvar_10=float(actual[:n_worst].mean()),
        cvar_10_predicted=float(mixed[:n_worst].mean()),
        quantiles=np.quantile(value, shown).tolist(),
        quantiles_predicted=np.interp(shown, levels, mixed).tolist(),
    )


def _relative_error(value: float, reference: float) -> float:
    return abs(value - reference) / max(abs(reference), 1e-12)


def _start_error(means: np.ndarray, returns: Returns) -> float | None:
    starts = returns.starts
    if not starts.any():
        return None
    return _relative_error(float(means[starts].mean()), float(returns.value[starts].mean()))


def _pooled_quantiles(predicted: ReturnDistribution, levels: np.ndarray) -> np.ndarray:
    """The quantiles of the mean of several distributions."""
    grid = np.linspace(float(predicted.low), float(predicted.high), 2000)
    if isinstance(predicted, AtomicReturn):
        pooled = _pooled_cdf(predicted, grid)
    else:
        pooled = np.asarray(jnp.mean(predicted.cdf(jnp.asarray(grid)), axis=0), float)
    return np.interp(levels, np.maximum.accumulate(pooled), grid)


def _pooled_cdf(predicted: AtomicReturn, x: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """The mean CDF of many states, in the time that sorting their atoms takes.

    An atom spread over ± h is a ramp of slope m/2h between two kinks: Σ slope (x − kink)₊.
    """
    pooled = predicted.mixture()
    arrays = (np.asarray(a, float) for a in (pooled.mass, pooled.atoms, pooled.half_width))
    mass, atoms, half = arrays
    wide = half > _NARROWEST * (x[-1] - x[0])
    steps = np.append(0, np.cumsum(mass[~wide]))
    cdf = steps[np.searchsorted(atoms[~wide], x, side="right")]
    ramp = mass[wide] / (2 * half[wide])
    kink = np.concatenate([atoms[wide] - half[wide], atoms[wide] + half[wide]])
    order = np.argsort(kink)
    kink, slope = kink[order], np.concatenate([ramp, -ramp])[order]
    passed = np.searchsorted(kink, x, side="right")
    total, moment = (np.append(0, np.cumsum(a)) for a in (slope, slope * kink))
    return cdf + x * total[passed] - moment[passed]
