"""Exact planning on quantiles (Dabney et al. 2018): each update keeps k equally likely returns."""

from typing import no_type_check

import numpy as np
from jaxtyping import Float
from numba import njit

from bellman_diffusion.returns.backup import BellmanBackup
from bellman_diffusion.returns.mdp import Chain, check_gamma

_MOST_UPDATES = 20_000


def quantile_dynamic_programming(
    chain: Chain, gamma: float, k: int, tolerance: float = 1e-9
) -> Float[np.ndarray, "states k"]:
    """The fixed point: of each state the quantiles at (i + ½)/k of r + γX' over its rows.

    That projection is the nearest in W1 among k equally likely returns; iterated, its error adds up.
    """
    check_gamma(gamma, chain)
    order = np.argsort(chain.state, kind="stable")
    first = np.searchsorted(chain.state[order], np.arange(chain.n_states + 1))
    backup = BellmanBackup(chain.reward[order, 0], gamma * ~chain.done[order])
    rows = (first, chain.next_state[order], chain.probability[order])
    quantiles = np.zeros((chain.n_states, k))
    for _ in range(_MOST_UPDATES):
        new = _update(*rows, backup.reward, backup.discount, quantiles)
        change = float(np.abs(new - quantiles).max())
        quantiles = new
        if change <= tolerance * max(1.0, float(np.abs(new).max())):
            break
    return quantiles


@njit(cache=True)
@no_type_check
def _update(first, next_state, probability, reward, discount, quantiles):
    n_states, k = quantiles.shape
    new = np.empty_like(quantiles)
    for s in range(n_states):
        n = first[s + 1] - first[s]
        value, mass = np.empty(n * k), np.empty(n * k)
        for i in range(n):
            row = first[s] + i
            for j in range(k):
                value[i * k + j] = reward[row] + discount[row] * quantiles[next_state[row], j]
                mass[i * k + j] = probability[row] / k
        order = np.argsort(value)
        total, at = mass[order[0]], 0
        for j in range(k):
            while total < (j + 0.5) / k - 1e-12 and at < n * k - 1:
                at += 1
                total += mass[order[at]]
            new[s, j] = value[order[at]]
    return new
