"""Returns that are whole multiples of one reward: exact, one level after the other.

At γ = 1, with rewards u·h of one sign, the probability x_n(s) of the return n·h obeys

    x_n = e_n + Σ_u P_u x_{n−u},

where P_u are the transitions with the reward u·h and e_n those that end the episode with n·h. What is
on the right with u > 0 is known from lower levels; transitions without a reward make one small linear
system, which is factorised once. So every level costs one pass over the transitions, and nothing is
iterated. The levels end where next to no probability is left; the rest goes into the last cell with
its mean and variance.
"""

from typing import NamedTuple, no_type_check

import numpy as np
import scipy.sparse
from jaxtyping import Float
from numba import njit
from scipy.sparse.linalg import SuperLU, splu

from bellman_diffusion.planning.cells import Cells, Grid, Transitions
from bellman_diffusion.returns.moments import Moments

# The levels end when every state has less probability left.
_LEFT = 1e-6
_MOST_LEVELS = 20_000
# More states than this with transitions without a reward are too many to factorise.
_MOST_COUPLED = 20_000
_BYTES_PER_LEVEL = 4 * 8
_DEVIATIONS = 16.0


class Levels(NamedTuple):
    """A cell for each level, and a bound on the error of all probabilities of a state together."""

    grid: Grid
    cells: Cells
    error: float


def exact_levels(
    rows: Transitions, step: float, moments: Moments, memory_gb: float
) -> Levels | None:
    """The distributions of all states; none where rewards have both signs or levels are too many."""
    sign = -1.0 if rows.reward.min() < 0 else 1.0
    units = np.round(sign * rows.reward / step).astype(np.int64)
    n_states = len(rows.first) - 1
    most = min(_MOST_LEVELS, int(memory_gb * 1e9 / (_BYTES_PER_LEVEL * n_states)))
    expected = (np.abs(moments.mean) + _DEVIATIONS * np.sqrt(moments.variance)).max() / step
    if units.min() < 0 or min(expected, _MOST_LEVELS) > most:
        return None
    coupled, system = _without_reward(rows, units)
    if len(coupled) > _MOST_COUPLED:
        return None
    table = np.zeros((min(256, most), n_states))
    left, error, n = np.ones(n_states), 0.0, 0
    eps = float(np.finfo(float).eps)
    while left.max() > _LEFT:
        if n == most:
            return None
        if n == len(table):
            table = np.concatenate([table, np.zeros((min(n, most - n), n_states))])
        level = table[n]
        _known(rows.first, rows.next_state, rows.probability, units, rows.done, table, n, level)
        residual = 0.0
        if system is not None:
            residual = _solve(system, coupled, level)
        error += residual + (rows.most + 4) * eps * float(level.max())
        left -= level
        n += 1
    return _in_cells(table[:n], sign, step, moments, error * moments.steps + n * eps)


class _System(NamedTuple):
    """1 − P₀ of the states that have transitions without a reward."""

    factors: SuperLU
    inner: scipy.sparse.csr_array
    outer: scipy.sparse.csr_array
    """From those states to all others."""


def _without_reward(rows: Transitions, units: np.ndarray) -> tuple[np.ndarray, _System | None]:
    """The states that have transitions without a reward that go on, and their system."""
    n_states = len(rows.first) - 1
    state = np.repeat(np.arange(n_states), np.diff(rows.first))
    free = (units == 0) & ~rows.done
    coupled = np.unique(state[free])
    if not len(coupled):
        return coupled, None
    entries = (rows.probability[free], (state[free], rows.next_state[free]))
    matrix = scipy.sparse.csr_array(entries, shape=(n_states, n_states))[coupled]
    others = np.ones(n_states)
    others[coupled] = 0
    inner = matrix[:, coupled]
    factors = splu(scipy.sparse.csc_matrix(scipy.sparse.eye_array(len(coupled)) - inner))
    return coupled, _System(factors, inner, matrix @ scipy.sparse.diags_array(others))


def _solve(system: _System, coupled: np.ndarray, level: Float[np.ndarray, " states"]) -> float:
    """Complete a level in place; the residual."""
    right = level[coupled] + system.outer @ level
    found = np.maximum(system.factors.solve(right), 0.0)
    level[coupled] = found
    return float(np.abs(right + system.inner @ found - found).max())


@njit(cache=True)
@no_type_check
def _known(first, next_state, probability, units, done, table, n, level):
    """What ends with this level, and what comes from lower ones."""
    for s in range(len(first) - 1):
        total = 0.0
        for row in range(first[s], first[s + 1]):
            u = units[row]
            if done[row]:
                if u == n:
                    total += probability[row]
            elif 0 < u <= n:
                total += probability[row] * table[n - u, next_state[row]]
        level[s] = total


def _in_cells(
    table: Float[np.ndarray, "levels states"],
    sign: float,
    step: float,
    moments: Moments,
    error: float,
) -> Levels:
    """A cell around every level, and one for all that is beyond: what the moments leave for it."""
    n, n_states = table.shape
    mass = np.zeros((n_states, n + 1))
    mass[:, :n] = table.T
    offset, variance = np.full_like(mass, 0.5), np.zeros_like(mass)
    left = 1 - mass.sum(axis=1)
    # Counted from the first level that is missing, so that few digits cancel.
    below = np.arange(n) - float(n)
    mean = sign * moments.mean / step - n
    first = mean - mass[:, :n] @ below
    second = moments.variance / step**2 + mean**2 - mass[:, :n] @ below**2
    kept = left > error
    mass[:, n] = np.where(kept, left, 0.0)
    safe = np.where(kept, left, 1.0)
    beyond = np.where(kept, np.maximum(first / safe, 0.0), 0.0)
    # The probability that is left is known up to the error, and so are its moments.
    doubt = (error * n**2 + moments.variance_error / step**2 + n * moments.mean_error / step) / safe
    offset[:, n] += beyond
    variance[:, n] = np.where(kept, np.maximum(second / safe - beyond**2, 0.0) + doubt, 0.0)
    if sign > 0:
        return Levels(Grid(-0.5 * step, step, n + 1), Cells(mass, offset, variance), error)
    back = (slice(None), slice(None, None, -1))
    tables = (np.ascontiguousarray(a[back]) for a in (mass, 1 - offset, variance))
    return Levels(Grid((-n - 0.5) * step, step, n + 1), Cells(*tables), error)
