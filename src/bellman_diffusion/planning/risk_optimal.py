"""Policies that are best for the whole return: dynamic programming on state and stock.

For a level b the stock y starts at −b and takes up the rewards: y' = (y + r)/γ. Then y + X' is what
the return will have missed or passed the level by, on the scale of the present step, and

    V(z, y) = max_a E[ κ V(z', (y + r)/γ) ],    V = f(y + r) at an end,

is an ordinary Bellman equation for max E f(X − b), with κ = γ for f(z) = s₊ max(z, 0) + s₋ min(z, 0)
and κ = 1 for f(z) = 1(z ≥ 0). CVaR_α is max_b b + E min(X − b, 0)/α, a mixture of mean and CVaR has
both slopes, quantiles and P(X ≥ x) have the step.

The policy is a table over state and stock, the stock rounded to a grid at every step: a finite
controller, whose return distribution is certified like any other chain's.
"""

import io
from pathlib import Path
from typing import Any, NamedTuple, no_type_check

import numpy as np
from jaxtyping import Float, Int
from numba import njit, prange

from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.returns.mdp import Chain, FiniteMDP, check_gamma
from bellman_diffusion.returns.moments import mean_return, possible_returns
from bellman_diffusion.returns.tabular_policies import optimal_policy
from bellman_diffusion.training.files import write_atomically

_HELP = "use mean, cvar:ALPHA, quantile:Q, above:RETURN or mean-cvar:WEIGHT:ALPHA, as in cvar:0.1"
# Values of state and stock in all, and stocks of a state at least and at most.
_N_VALUES, _N_STOCKS = 4_000_000, (257, 4097)
_TOLERANCE = 1e-7
_MOST_SWEEPS = 20_000
_CHOOSE_EVERY = 8


class Objective(NamedTuple):
    """mean; cvar: the mean of the worst share; quantile; above: P(return ≥ level); mean-cvar.

    `weight` is the share of CVaR in the mixture of mean and CVaR.
    """

    kind: str = "mean"
    level: float = 0.0
    weight: float = 1.0

    @classmethod
    def parse(cls, text: str) -> "Objective":
        """From `mean`, `cvar:0.1`, `quantile:0.05`, `above:10` or `mean-cvar:0.5:0.1`."""
        kind, *numbers = text.split(":")
        try:
            values = [float(number) for number in numbers]
        except ValueError:
            values = []
        if kind == "mean" and not numbers:
            return cls()
        if kind == "cvar" and len(values) == 1 and 0 < values[0] <= 1:
            return cls("cvar", values[0])
        if kind == "quantile" and len(values) == 1 and 0 < values[0] < 1:
            return cls("quantile", values[0])
        if kind == "above" and len(values) == 1 and np.isfinite(values[0]):
            return cls("above", values[0])
        if kind == "mean-cvar" and len(values) == 2 and 0 <= values[0] <= 1 and 0 < values[1] <= 1:
            return cls("cvar", values[1], values[0])
        raise InvalidInputError(f"objective {text!r}: {_HELP}")

    @property
    def is_step(self) -> bool:
        """Whether only the probability of reaching the level counts."""
        return self.kind in ("quantile", "above")

    @property
    def slopes(self) -> tuple[float, float]:
        """s₋ and s₊."""
        rest = 1 - self.weight
        return rest + self.weight / max(self.level, 1e-300), rest


class StockPolicy(NamedTuple):
    """An action for every state and stock; what is missing to the level is counted in grid points."""

    action: Int[np.ndarray, "states stocks"]
    low: float
    """The stock of the first grid point."""
    width: float
    gamma: float
    first: int
    """The grid point that an episode starts with."""
    level: float
    """The level b that the policy plays for."""
    value: float
    """The objective by dynamic programming, up to the grid."""

    def next_stock(self, stock: Any, reward: Any) -> Any:
        """The grid point after a reward."""
        y = (self.low + self.width * np.asarray(stock) + reward) / self.gamma
        nearest = np.round((y - self.low) / self.width)
        return np.clip(nearest, 0, self.action.shape[1] - 1).astype(np.int64)

    def save(self, path: Path) -> None:
        """Write an NPZ archive."""
        content = io.BytesIO()
        np.savez_compressed(content, **self._asdict())
        write_atomically(path, content.getvalue())

    @classmethod
    def load(cls, path: Path) -> "StockPolicy":
        """Read what `save` wrote."""
        try:
            with np.load(path, allow_pickle=False) as archive:
                values = {name: archive[name] for name in cls._fields}
        except (OSError, ValueError, KeyError) as error:
            raise InvalidInputError(
                f"{path} is not a policy over state and stock: {error}"
            ) from error
        numbers = {name: float(v) for name, v in values.items() if name not in ("action", "first")}
        return cls(action=values["action"], first=int(values["first"]), **numbers)


def risk_optimal_policy(
    mdp: FiniteMDP, gamma: float, objective: Objective, n_stocks: int | None = None
) -> StockPolicy:
    """The policy over state and stock that is best for the return from the start."""
    check_gamma(gamma)
    if mdp.dim != 1:
        raise InvalidInputError("rewards are vectors: choose one return to optimise")
    # Any action may be taken: the widest range of returns, and the best mean.
    limits = possible_returns(mdp.under(_anything(mdp)), gamma)
    low, high = limits[:, 0].min(), limits[:, 1].max()
    if not np.isfinite(low + high):
        raise InvalidInputError(
            "returns have no bound: an episode may go on for ever with gamma = 1. Set gamma below 1"
        )
    usual = optimal_policy(mdp, gamma)
    best = mean_return(mdp.under(usual), gamma)[:, 0]
    n_stocks = n_stocks or int(np.clip(_N_VALUES // mdp.n_states, *_N_STOCKS))
    stocks = np.linspace(-high, -low, n_stocks)
    value, action = _solve(mdp, gamma, objective, stocks, best, limits, usual.argmax(axis=1))
    return _with_best_start(mdp, gamma, objective, stocks, value, action)


def _anything(mdp: FiniteMDP) -> Float[np.ndarray, "states actions"]:
    available = mdp.available()
    return available / available.sum(axis=1, keepdims=True)


def _with_best_start(
    mdp: FiniteMDP,
    gamma: float,
    objective: Objective,
    stocks: np.ndarray,
    value: np.ndarray,
    action: np.ndarray,
) -> StockPolicy:
    """The level that is best from the start distribution."""
    from_start = mdp.start @ value
    levels = -stocks
    if objective.kind == "above":
        first = int(np.argmin(np.abs(levels - objective.level)))
        best = from_start[first]
    elif objective.kind == "quantile":
        # The greatest level that is missed with a probability below q.
        good = np.flatnonzero(1 - from_start <= objective.level)
        first = int(good[np.argmax(levels[good])]) if len(good) else len(stocks) - 1
        best = levels[first]
    else:
        totals = levels + from_start
        first = int(np.argmax(totals))
        best = totals[first]
    width = stocks[1] - stocks[0]
    return StockPolicy(
        action, float(stocks[0]), float(width), gamma, first, float(levels[first]), float(best)
    )


def _solve(
    mdp: FiniteMDP,
    gamma: float,
    objective: Objective,
    stocks: np.ndarray,
    best: np.ndarray,
    limits: np.ndarray,
    usual: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Value iteration to the fixed point: values and actions of every state and stock."""
    order = np.lexsort((mdp.action, mdp.state))
    pair = (mdp.state * mdp.n_actions + mdp.action)[order]
    first = np.searchsorted(pair, np.arange(mdp.n_states * mdp.n_actions + 1))
    reward = mdp.reward[order, 0]
    rows = (first, mdp.next_state[order], mdp.probability[order], reward, mdp.done[order])
    low_slope, high_slope = objective.slopes
    step = objective.is_step
    factor = 1.0 if step else gamma
    value = np.zeros((mdp.n_states, len(stocks)))
    action = np.zeros(value.shape, np.int64)
    scale = max(1.0, float(np.abs(stocks).max()) * low_slope) if not step else 1.0
    new = np.empty_like(value)
    for sweep in range(_MOST_SWEEPS):
        # Most sweeps evaluate the actions of the last one that chose them.
        choose = sweep % _CHOOSE_EVERY == 0
        _improve(
            *rows, mdp.n_actions, gamma, factor, step, low_slope, high_slope, stocks, best, limits,
            usual, choose, value, new, action,
        )  # fmt: skip
        if choose and float(np.abs(new - value).max()) <= _TOLERANCE * scale:
            return new, action
        value, new = new, value
    raise InvalidInputError(
        "the values of state and stock do not settle: episodes are very long. Lower gamma"
    )


@njit(parallel=True, cache=True)
@no_type_check
def _improve(
    first_row, next_state, probability, reward, done, n_actions, gamma, factor, step, low_slope,
    high_slope, stocks, best, limits, usual, choose, value, new, action,
):  # fmt: skip
    """One sweep; ties go to the action that is best for the mean."""
    n = stocks.shape[0]
    low, width = stocks[0], stocks[1] - stocks[0]
    for z in prange(value.shape[0]):
        for k in range(n):
            top, chosen = -np.inf, 0
            for i in range(n_actions if choose else 1):
                a = (usual[z] + i) % n_actions if choose else action[z, k]
                start, stop = first_row[z * n_actions + a], first_row[z * n_actions + a + 1]
                if start == stop:
                    continue
                total = 0.0
                for row in range(start, stop):
                    y = stocks[k] + reward[row]
                    if done[row]:
                        if step:
                            gain = 1.0 if y >= -1e-9 else 0.0
                        else:
                            gain = low_slope * min(y, 0.0) + high_slope * max(y, 0.0)
                        total += probability[row] * gain
                        continue
                    y /= gamma
                    s = next_state[row]
                    if y + limits[s, 0] >= 0.0:
                        gain = 1.0 if step else high_slope * (y + best[s])
                    elif y + limits[s, 1] < 0.0:
                        gain = 0.0 if step else low_slope * (y + best[s])
                    else:
                        place = min(max((y - low) / width, 0.0), n - 1.0)
                        j = min(int(place), n - 2)
                        t = place - j
                        gain = (1 - t) * value[s, j] + t * value[s, j + 1]
                    total += probability[row] * factor * gain
                if total > top + 1e-9 * (1.0 + abs(top)) or i == 0:
                    top, chosen = total, a
            new[z, k], action[z, k] = top, chosen


class ControlledChain(NamedTuple):
    """The chain of states and stocks that a policy reaches from the start."""

    chain: Chain
    state: Int[np.ndarray, " pairs"]
    stock: Int[np.ndarray, " pairs"]


def controlled_chain(mdp: FiniteMDP, policy: StockPolicy) -> ControlledChain:
    """From every state where an episode may start, with the first stock."""
    n = policy.action.shape[1]
    order = np.lexsort((mdp.action, mdp.state))
    pair = (mdp.state * mdp.n_actions + mdp.action)[order]
    first = np.searchsorted(pair, np.arange(mdp.n_states * mdp.n_actions + 1))
    number = np.full(mdp.n_states * n, -1)
    frontier = np.flatnonzero(mdp.start > 0) * n + policy.first
    number[frontier] = np.arange(len(frontier))
    known, parts = [frontier], []
    count = len(frontier)
    while len(frontier):
        state, stock = np.divmod(frontier, n)
        taken = state * mdp.n_actions + policy.action[state, stock]
        sizes = first[taken + 1] - first[taken]
        source = np.repeat(np.arange(len(frontier)), sizes)
        rows = order[
            np.repeat(first[taken] - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
        ]
        target = mdp.next_state[rows] * n + policy.next_stock(stock[source], mdp.reward[rows, 0])
        target = np.where(mdp.done[rows], frontier[source], target)
        parts.append((number[frontier][source], rows, target))
        frontier = np.unique(target[number[target] < 0])
        number[frontier] = count + np.arange(len(frontier))
        count += len(frontier)
        known.append(frontier)
    pairs = np.concatenate(known)
    source, rows, target = (np.concatenate(column) for column in zip(*parts, strict=True))
    state, stock = np.divmod(pairs, n)
    start = np.zeros(count)
    starts = len(known[0])
    start[:starts] = mdp.start[state[:starts]]
    chain = Chain(
        count,
        source,
        mdp.probability[rows],
        number[target],
        mdp.reward[rows],
        mdp.done[rows],
        start,
    )
    return ControlledChain(chain, state, stock)
