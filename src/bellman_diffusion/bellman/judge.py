"""How right a planner's laws are: against the exact ones, or against held-out returns."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from bellman_diffusion.bellman.distribution import ReturnDistribution
from bellman_diffusion.bellman.mdp import Chain, mean_return
from bellman_diffusion.bellman.reference import (
    CharacteristicLaw,
    atoms_at_the_end,
    rewards_only_at_the_end,
)
from bellman_diffusion.bellman.transitions import Returns
from bellman_diffusion.errors import InvalidInputError

# (x, densities of each state, gradients of each state)
Exact = tuple[np.ndarray, np.ndarray, np.ndarray]
_N_POINTS = 4001
_LEVELS = (0.05, 0.95)
_ALPHA = 0.1


def exact_cdf(
    chain: Chain, gamma: float, sigma: float, shrink: float = 1.0
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, "states n"], dict[str, Any]]:
    """The exact smoothed CDFs on a grid, how they were found, and a bound on their error.

    `shrink` = γ gives what the plain backup aims at (`AtomLaw.cdf`), where rewards come at the end.
    """
    law = CharacteristicLaw(chain, gamma, sigma)
    x = np.linspace(law.low, law.high, _N_POINTS)
    if shrink != 1 and not rewards_only_at_the_end(chain):
        raise InvalidInputError("the plain backup's law is known where rewards come at the end")
    if rewards_only_at_the_end(chain):
        atoms = atoms_at_the_end(chain, gamma)
        return (
            x,
            atoms.cdf(x, sigma, shrink),
            {"reference": "atoms", "reference_error": atoms.error},
        )
    how = {"reference": "characteristic function", "reference_error": law.error}
    return x, law.cdf(x), how


def exact_fields(x: np.ndarray, cdf: np.ndarray) -> Exact:
    """Density and gradient from an exact CDF on a fine grid, by differences."""
    density = np.gradient(cdf, x, axis=1)
    return x, density, np.gradient(density, x, axis=1)


def against_exact(
    laws: ReturnDistribution,
    chain: Chain,
    gamma: float,
    sigma: float,
    width: float,
    shrink: float = 1.0,
) -> dict[str, Any]:
    """W1, the errors of the mean and of the gradient field over all states.

    W1 also in shares of the returns' range; the gradient's as ∫ |g − g*| / ∫ |g*|.
    """
    x, exact, how = exact_cdf(chain, gamma, sigma, shrink)
    learned = np.asarray(laws.cdf(jnp.asarray(x, jnp.float32)), float)
    w1 = np.trapezoid(np.abs(learned - exact), x, axis=1)
    slope = exact_fields(x, exact)[2]
    learned_slope = np.asarray(laws.gradient(jnp.asarray(x, jnp.float32)), float)
    gradient = np.abs(learned_slope - slope).sum(axis=1) / np.abs(slope).sum(axis=1)
    mean_error = np.abs(np.asarray(laws.mean(), float) - mean_return(chain, gamma)[:, 0])
    return {
        **how,
        "n_states": chain.n_states,
        "w1_worst": float(w1.max()),
        "w1_mean": float(w1.mean()),
        "w1_worst_relative": float(w1.max() / width),
        "mean_error_worst": float(mean_error.max()),
        "gradient_error_worst": float(gradient.max()),
        "return_range": float(width),
    }


def against_returns(
    laws: ReturnDistribution, returns: Returns, n_groups: int = 4
) -> dict[str, Any]:
    """Calibration against Monte-Carlo returns: the laws are those of the returns' observations.

    Groups are of like predicted means. Returns of one episode overlap, so the figures are less certain
    than their number suggests.
    """
    value = returns.value
    predicted = np.asarray(laws.mean(), float)
    low, high = np.asarray(laws.quantile(jnp.asarray(_LEVELS)), float).T
    pit = np.asarray(laws.cdf(jnp.asarray(value, jnp.float32)[:, None])[:, 0], float)
    even = (np.arange(len(pit)) + 0.5) / len(pit)
    groups = []
    for rows in np.array_split(np.argsort(predicted), n_groups):
        levels = (np.arange(200) + 0.5) / 200
        mixed = _pooled_quantiles(laws[rows], levels)
        actual = np.quantile(value[rows], levels)
        worst = actual[: int(_ALPHA * 200)].mean()
        groups.append(
            {
                "n": len(rows),
                "mean": float(value[rows].mean()),
                "mean_predicted": float(predicted[rows].mean()),
                "w1": float(np.mean(np.abs(mixed - actual))),
                "cvar_10": float(worst),
                "cvar_10_predicted": float(mixed[: int(_ALPHA * 200)].mean()),
            }
        )
    mean, guess = float(value.mean()), float(predicted.mean())
    return {
        "reference": "held-out Monte-Carlo returns",
        "n_returns": len(value),
        "n_episodes": int(np.sum(returns.starts)),
        "mean_monte_carlo": mean,
        "mean_predicted": guess,
        "mean_error_relative": abs(guess - mean) / max(abs(mean), 1e-12),
        "mean_error_start": _start_error(predicted, returns),
        "coverage_90": float(np.mean((value >= low) & (value <= high))),
        "pit_distance": float(np.mean(np.abs(np.sort(pit) - even))),
        "w1_worst_group": max(g["w1"] for g in groups),
        "cvar_10_error_worst_group": max(
            abs(g["cvar_10"] - g["cvar_10_predicted"]) for g in groups
        ),
        "groups": groups,
    }


def _start_error(predicted: np.ndarray, returns: Returns) -> float | None:
    starts = returns.starts
    if not starts.any():
        return None
    mean = float(returns.value[starts].mean())
    return abs(float(predicted[starts].mean()) - mean) / max(abs(mean), 1e-12)


def _pooled_quantiles(laws: ReturnDistribution, levels: np.ndarray) -> np.ndarray:
    """The quantiles of the mean of several laws."""
    grid = jnp.linspace(laws.low, laws.high, 2000)
    pooled = np.maximum.accumulate(np.asarray(jnp.mean(laws.cdf(grid), axis=0), float))
    return np.interp(levels, pooled, np.asarray(grid, float))
