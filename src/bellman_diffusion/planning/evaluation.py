"""How accurate a planner is: against exact return distributions, or against held-out returns."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import msgspec
import numpy as np
from jaxtyping import Float

from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.planning.transitions import Returns
from bellman_diffusion.returns.distribution import ReturnDistribution
from bellman_diffusion.returns.mdp import Chain, mean_return
from bellman_diffusion.returns.reference import (
    CharacteristicReference,
    atoms_at_the_end,
    rewards_only_at_the_end,
)

_N_POINTS = 4001
_N_LEVELS = 200
_BAND = (0.05, 0.95)
_ALPHA = 0.1


class ExactReturns(NamedTuple):
    """The exact smoothed distributions of some states on a grid of returns."""

    x: Float[np.ndarray, " n"]
    cdf: Float[np.ndarray, "states n"]
    reference: str
    """How they were found."""
    error: float
    """A bound on the error of the CDF."""

    def pdf(self) -> Float[np.ndarray, "states n"]:
        """The densities, by differences."""
        return np.gradient(self.cdf, self.x, axis=1)

    def gradient(self) -> Float[np.ndarray, "states n"]:
        """The densities' gradients, by differences."""
        return np.gradient(self.pdf(), self.x, axis=1)

    def of(self, states: Any) -> "ExactReturns":
        """Those of some states."""
        return self._replace(cdf=self.cdf[states])


class ExactEvaluation(msgspec.Struct, frozen=True, kw_only=True):
    """Errors over all states of a finite environment.

    W1 also in shares of the returns' range; the gradient's error is ∫ |g − g*| / ∫ |g*|.
    """

    reference: str
    reference_error: float
    n_states: int
    w1_worst: float
    w1_mean: float
    w1_worst_relative: float
    mean_error_worst: float
    gradient_error_worst: float
    return_range: float


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """States of like predicted means."""

    n: int
    mean: float
    mean_predicted: float
    w1: float
    cvar_10: float
    cvar_10_predicted: float


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
    w1_worst_group: float
    cvar_10_error_worst_group: float
    groups: list[Group]


def exact_returns(chain: Chain, gamma: float, sigma: float, shrink: float = 1.0) -> ExactReturns:
    """The exact distributions of every state, smoothed by σ.

    `shrink` = γ gives what the plain backup converges to (`AtomicReference.cdf`), where rewards come at
    the end.
    """
    reference = CharacteristicReference(chain, gamma, sigma)
    x = np.linspace(reference.low, reference.high, _N_POINTS)
    if rewards_only_at_the_end(chain):
        atoms = atoms_at_the_end(chain, gamma)
        return ExactReturns(x, atoms.cdf(x, sigma, shrink), "atoms", atoms.error)
    if shrink != 1:
        raise InvalidInputError("the plain backup's limit is known where rewards come at the end")
    return ExactReturns(x, reference.cdf(x), "characteristic function", reference.error)


def evaluate_exactly(
    predicted: ReturnDistribution, exact: ExactReturns, means: np.ndarray, width: float
) -> ExactEvaluation:
    """Compare the distributions of every state with the exact ones, and their means with `means`."""
    x = jnp.asarray(exact.x, jnp.float32)
    w1 = np.trapezoid(np.abs(np.asarray(predicted.cdf(x), float) - exact.cdf), exact.x, axis=1)
    slope = exact.gradient()
    gradient = np.abs(np.asarray(predicted.gradient(x), float) - slope).sum(axis=1)
    gradient /= np.abs(slope).sum(axis=1)
    mean_error = np.abs(np.asarray(predicted.mean(), float) - means)
    return ExactEvaluation(
        reference=exact.reference,
        reference_error=exact.error,
        n_states=len(means),
        w1_worst=float(w1.max()),
        w1_mean=float(w1.mean()),
        w1_worst_relative=float(w1.max() / width),
        mean_error_worst=float(mean_error.max()),
        gradient_error_worst=float(gradient.max()),
        return_range=float(width),
    )


def evaluate_chain(
    predicted: ReturnDistribution,
    chain: Chain,
    gamma: float,
    sigma: float,
    width: float,
    shrink: float = 1.0,
) -> ExactEvaluation:
    """`evaluate_exactly` for every state of a chain."""
    exact = exact_returns(chain, gamma, sigma, shrink)
    return evaluate_exactly(predicted, exact, mean_return(chain, gamma)[:, 0], width)


def evaluate_against_returns(
    predicted: ReturnDistribution, returns: Returns, n_groups: int = 4
) -> HeldOutEvaluation:
    """`predicted` are the distributions of the returns' observations.

    Returns of one episode overlap, so the figures are less certain than their number suggests.
    """
    value = returns.value
    means = np.asarray(predicted.mean(), float)
    low, high = np.asarray(predicted.quantile(jnp.asarray(_BAND)), float).T
    pit = np.asarray(predicted.cdf(jnp.asarray(value, jnp.float32)[:, None])[:, 0], float)
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
        coverage_90=float(np.mean((value >= low) & (value <= high))),
        pit_distance=float(np.mean(np.abs(np.sort(pit) - even))),
        w1_worst_group=max(g.w1 for g in groups),
        cvar_10_error_worst_group=max(abs(g.cvar_10 - g.cvar_10_predicted) for g in groups),
        groups=groups,
    )


def _group(predicted: ReturnDistribution, value: np.ndarray, means: np.ndarray) -> Group:
    levels = (np.arange(_N_LEVELS) + 0.5) / _N_LEVELS
    n_worst = int(_ALPHA * _N_LEVELS)
    mixed, actual = _pooled_quantiles(predicted, levels), np.quantile(value, levels)
    return Group(
        n=len(value),
        mean=float(value.mean()),
        mean_predicted=float(means.mean()),
        w1=float(np.mean(np.abs(mixed - actual))),
        cvar_10=float(actual[:n_worst].mean()),
        cvar_10_predicted=float(mixed[:n_worst].mean()),
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
    grid = jnp.linspace(predicted.low, predicted.high, 2000)
    pooled = np.maximum.accumulate(np.asarray(jnp.mean(predicted.cdf(grid), axis=0), float))
    return np.interp(levels, pooled, np.asarray(grid, float))
