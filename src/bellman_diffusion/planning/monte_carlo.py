"""Plain Monte Carlo next to a planner's figures: what episodes say, and whether the two agree."""

from typing import Any

import msgspec
import numpy as np
from jaxtyping import Float

from bellman_diffusion.returns.mdp import Chain

_ALPHA = 0.1
# Rewards that are discounted to this share of the first are left out.
_NEGLIGIBLE = 1e-7
# Standard errors that chance alone hardly ever exceeds.
_SURPRISING = 4.0


class Estimate(msgspec.Struct, frozen=True):
    """A figure, its standard error, and what it hardly ever lies outside of."""

    value: float
    error: float
    range: tuple[float, float]

    @classmethod
    def of(cls, value: float, error: float, slack: float) -> "Estimate":
        """Normally distributed; `slack` is what cut-off episodes may have kept from it."""
        reach = _SURPRISING * error + slack
        return cls(value, error, (value - reach, value + reach))

    def disagrees(self, low: float, high: float) -> bool:
        """Whether an interval is too far away to be chance."""
        gap = max(low - self.range[1], self.range[0] - high)
        return gap > 1e-6 * (1 + abs(self.value))


class MonteCarlo(msgspec.Struct, frozen=True, kw_only=True):
    """Of fresh episodes from one start."""

    n_episodes: int
    mean: Estimate
    quantile_05: Estimate
    quantile_95: Estimate
    cvar_10: Estimate

    @classmethod
    def of(cls, returns: Float[np.ndarray, " n"], slack: float = 0.0) -> "MonteCarlo":
        """Figures with standard errors; every return may be off by `slack`."""
        n = len(returns)
        ordered = np.sort(returns)
        worst = int(np.ceil(_ALPHA * n))
        level = ordered[worst - 1]
        shortfall = np.maximum(level - ordered, 0)
        return cls(
            n_episodes=n,
            mean=Estimate.of(float(returns.mean()), float(returns.std(ddof=1) / np.sqrt(n)), slack),
            quantile_05=_quantile(ordered, 0.05, slack),
            quantile_95=_quantile(ordered, 0.95, slack),
            cvar_10=Estimate.of(
                float(level - shortfall.mean() / _ALPHA),
                float(shortfall.std(ddof=1) / _ALPHA / np.sqrt(n)),
                slack,
            ),
        )


def _quantile(ordered: Float[np.ndarray, " n"], q: float, slack: float) -> Estimate:
    """By the order statistics that many standard errors of the rank away."""
    n = len(ordered)
    rank, error = q * n, np.sqrt(q * (1 - q) * n)
    deviations = (-_SURPRISING, -1, 0, 1, _SURPRISING)
    at = [int(np.clip(rank + d * error, 0, n - 1)) for d in deviations]
    least, low, middle, high, greatest = (float(ordered[i]) for i in at)
    return Estimate(middle, (high - low) / 2, (least - slack, greatest + slack))


def simulate(
    chain: Chain, gamma: float, state: int, n: int, seed: int, horizon: int | None = None
) -> Float[np.ndarray, "n dim"]:
    """Returns of n episodes from a state, all at once."""
    rng, draw = np.random.default_rng(seed), chain.sampler()
    where, total = np.full(n, state), np.zeros((n, chain.reward.shape[1]))
    discount, alive, step = 1.0, np.arange(n), 0
    while alive.size and discount > _NEGLIGIBLE and step != horizon:
        row = draw(where[alive], rng)
        total[alive] += discount * chain.reward[row]
        where[alive] = chain.next_state[row]
        alive, discount, step = alive[~chain.done[row]], discount * gamma, step + 1
    return total


def disagreements(found: MonteCarlo, risk: Any) -> list[str]:
    """The figures of a start that Monte Carlo contradicts, in words."""
    words = {"mean": "mean", "quantile_05": "5 % quantile", "quantile_95": "95 % quantile",
             "cvar_10": "CVaR 10 %"}  # fmt: skip
    said = []
    for name, word in words.items():
        estimate, value = getattr(found, name), getattr(risk, name)
        low, high = getattr(risk, f"{name}_bounds") or (value, value)
        if estimate.disagrees(low, high):
            said.append(
                f"{word} {value:.4g}, but {estimate.value:.4g} ± {estimate.error:.2g} in "
                f"{found.n_episodes:,} episodes"
            )
    return said
