"""Bellman updates of every state's return distribution at once, to the fixed point (`--exact`)."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from bellman_diffusion.errors import BellmanError
from bellman_diffusion.returns.mdp import Chain, check_gamma
from bellman_diffusion.returns.projection import Projection

_LARGEST_COEFFICIENT = 1e6


class Solution(NamedTuple):
    """The coefficients of every state's distribution, and how the updates went."""

    coefficients: Float[np.ndarray, "states k"]
    n_updates: int
    change: float
    """The largest change of a coefficient in the last update."""


def solve(
    chain: Chain,
    gamma: float,
    projection: Projection,
    *,
    tolerance: float = 1e-10,
    max_updates: int = 100_000,
    report: Callable[[int, float], None] | None = None,
) -> Solution:
    """Apply the projected backup until no coefficient moves by more than `tolerance`.

    Double precision on the host: the fixed point is wanted to many digits, and the update is a few
    products of small matrices.
    """
    check_gamma(gamma, chain)
    rewards, which = chain.distinct_rewards()
    moves = []
    constant = np.zeros((chain.n_states, len(projection.basis.centres)))
    for i, reward in enumerate(rewards):
        on = (which == i) & ~chain.done
        if on.any():
            moves.append((chain.matrix(on), projection.backed_up(reward, gamma).T))
        ended = chain.mean_over_rows(((which == i) & chain.done).astype(float))
        if ended.any():
            constant += np.outer(ended, projection.terminal(reward))
    k = constant.shape[1]
    coefficients, change = np.full_like(constant, 1 / k), np.inf
    for n_updates in range(1, max_updates + 1):
        new = constant + sum(matrix @ (coefficients @ move) for matrix, move in moves)
        change = float(np.max(np.abs(new - coefficients)))
        coefficients = new
        if report is not None:
            report(n_updates, change)
        if change <= tolerance:
            return Solution(coefficients, n_updates, change)
        if not change < _LARGEST_COEFFICIENT:
            raise BellmanError(
                "the Bellman updates diverge: the plain backup and the L2 objective are not "
                "contractions. Use the noise-preserving backup and the Cramér objective (mode default)."
            )
    raise BellmanError(
        f"after {max_updates} updates the distributions still change by {change:.2g}: episodes under "
        "this policy are very long. Lower gamma, or raise max_updates."
    )
