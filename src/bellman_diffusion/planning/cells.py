"""Certified return distributions of a finite chain.

A state's return X is held in K cells of a common grid. A cell keeps the probability that X falls into
it, the mean of X there and the variance of X there: mass, mean and variance of one atom. Moving all
mass of a cell to its mean is a mean-preserving contraction, so the atoms X̲ satisfy X̲ ≤ X in convex
order: there is a coupling X = X̲ + D with E[D | X̲] = 0, and the cells hold E[D² | X̲] exactly.

A Bellman update moves every atom x of the next state to r + γx and its variance v to γ²v, then merges
what falls into one cell. It keeps the coupling, so **every iterate is valid**: from the start, where
X̲ is the mean and D has the exact variance of the return (a linear system), through coarse grids to
fine ones, whose cells divide those of the coarse one. `certificate.py` turns cells into bounds.

The updates are loops over transitions and cells with data-dependent targets, which Numba compiles to
about 3 ns for a transition and cell; XLA's gathers take 20 times as long on a CPU.
"""

import os
from typing import Any, NamedTuple, no_type_check

import numpy as np
from jaxtyping import Bool, Float, Int
from numba import njit, prange

from bellman_diffusion.returns.mdp import Chain

# Threads that wait must not spin: on a busy machine they keep those that they wait for from running.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# Blocks of states are updated in turn, each with the newest cells of the others.
_N_BLOCKS = 16
# Atoms of less mass are dropped: rounding, by which every interval is widened, is over 1e10 times as
# much. In large models most states have few cells left, and no number is too small to be fast.
_NEGLIGIBLE = 1e-30
# Rows × cells of a block below which one thread is quicker than several.
_SERIAL = 30_000
# Rewards that are multiples of less than this are not seen to lie on a lattice.
_FINEST = 1e-3
# Shares of a block that threads take in turn.
_SHARES = 32


class Grid(NamedTuple):
    """Cells of one width; returns have places in cells, and cell k is [k, k + 1).

    The first and the last cell are open to the outside.
    """

    origin: float
    width: float
    n_cells: int

    @classmethod
    def over(cls, low: float, high: float, n_cells: int) -> "Grid":
        """Cells from `low` to `high`, each end alone in a cell of its own: there returns have atoms."""
        margin = 1e-9 * (high - low)
        width = (high - low - 2 * margin) / (n_cells - 2)
        return cls(low - width + margin, width, n_cells)

    @classmethod
    def of_lattice(cls, low: float, high: float, step: float) -> "Grid":
        """A cell around each multiple of a number."""
        first, last = np.floor(low / step - 1e-6), np.ceil(high / step + 1e-6)
        return cls((first - 0.5) * step, step, int(last - first) + 1)

    def place(self, returns: Any) -> Any:
        """Where returns lie, in cells."""
        return (returns - self.origin) / self.width

    def returns(self, place: Any) -> Any:
        """The returns at these places."""
        return self.origin + self.width * place


def lattice_step(rewards: Float[np.ndarray, " rows"]) -> float:
    """The number that all rewards are whole multiples of; 0 if none is found."""
    units = np.round(rewards / _FINEST)
    if not np.allclose(units * _FINEST, rewards, rtol=0, atol=1e-9 * _FINEST):
        return 0.0
    return int(np.gcd.reduce(np.unique(units).astype(np.int64))) * _FINEST


class Cells(NamedTuple):
    """Of every state: probability, mean and variance of the return in each cell, in units of cells.

    The mean is counted from the cell's lower end.
    """

    mass: Float[np.ndarray, "states k"]
    offset: Float[np.ndarray, "states k"]
    variance: Float[np.ndarray, "states k"]

    @classmethod
    def at(
        cls, place: Float[np.ndarray, " states"], variance: Float[np.ndarray, " states"], n: int
    ) -> "Cells":
        """All mass in one place."""
        cells = cls(*(np.zeros((len(place), n)) for _ in range(3)))
        states, k = np.arange(len(place)), np.clip(place.astype(int), 0, n - 1)
        cells.mass[states, k] = 1
        cells.offset[states, k] = place - k
        cells.variance[states, k] = variance
        return cells

    def regridded(self, old: Grid, new: Grid) -> "Cells":
        """The same atoms in another grid; those that meet in one cell are merged."""
        out = Cells(*(np.zeros((len(self.mass), new.n_cells)) for _ in range(3)))
        ratio = old.width / new.width
        _regrid(*self, ratio, (old.origin - new.origin) / new.width, *out)
        return out


class Transitions(NamedTuple):
    """The rows of a chain in the order of their states, merged where they do the same."""

    first: Int[np.ndarray, " states_and_one"]
    """State s has rows first[s] to first[s + 1]."""
    next_state: Int[np.ndarray, " rows"]
    probability: Float[np.ndarray, " rows"]
    reward: Float[np.ndarray, " rows"]
    done: Bool[np.ndarray, " rows"]

    @classmethod
    def of(cls, chain: Chain) -> "Transitions":
        """Of a chain with one-dimensional rewards."""
        reward, done = chain.reward[:, 0], chain.done
        target = np.where(done, 0, chain.next_state)
        order = np.lexsort((reward, done, target, chain.state))
        columns = [a[order] for a in (chain.state, target, reward, done)]
        new = np.ones(len(order), bool)
        new[1:] = np.any([a[1:] != a[:-1] for a in columns], axis=0)
        rows = np.flatnonzero(new)
        probability = np.add.reduceat(chain.probability[order], rows)
        state, target, reward, done = (a[rows] for a in columns)
        first = np.searchsorted(state, np.arange(chain.n_states + 1))
        return cls(first, target.astype(np.int64), probability, reward, done)

    @property
    def most(self) -> int:
        """The most rows of a state."""
        return int(np.diff(self.first).max())


def update(
    cells: Cells, chain: Transitions, gamma: float, grid: Grid, n_blocks: int = _N_BLOCKS
) -> None:
    """One Bellman update of every state, in place.

    With one block all states are updated from the same cells: n updates of a return that is 0 give the
    return of n steps.
    """
    n_states, k = cells.mass.shape
    shift = grid.place(chain.reward + np.where(chain.done, 0.0, gamma * grid.origin))
    size = -(-n_states // min(n_blocks, n_states))
    out = Cells(*(np.zeros((size, k)) for _ in range(3)))
    new_span = np.empty((size, 2), np.int64)
    span = _spans(cells.mass)
    rows = (chain.first, chain.next_state, chain.probability, shift, chain.done)
    # Threads are worth their start where each has much to do; the numbers are the same.
    small = len(chain.reward) * k < _SERIAL * min(n_blocks, n_states)
    update_block = _update_block if small else _update_in_parallel
    for first in range(0, n_states, size):
        last = min(first + size, n_states)
        update_block(*rows, gamma, *cells, span, first, last, *out, new_span)
        _store_block(*cells, span, first, last, *out, new_span)


@njit(cache=True)
@no_type_check
def _spans(mass):
    """The first cell of every state that has mass, and the one after the last."""
    n_states, n = mass.shape
    span = np.zeros((n_states, 2), np.int64)
    for s in range(n_states):
        low, high = 0, n
        while low < n and mass[s, low] == 0.0:
            low += 1
        while high > low and mass[s, high - 1] == 0.0:
            high -= 1
        span[s, 0], span[s, 1] = low, high
    return span


@njit(cache=True)
@no_type_check
def _update_block(
    first_row, next_state, probability, shift, done, gamma, mass, offset, variance, span,
    first, last, out_mass, out_offset, out_variance, out_span,
):  # fmt: skip
    """The cells of the states from `first` to `last`.

    The tables `out_…` are 0 before; `out_span` says which of their cells are not after.
    """
    n = mass.shape[1]
    for i in range(last - first):
        m, o, v = out_mass[i], out_offset[i], out_variance[i]
        low, high = n, 0
        for row in range(first_row[first + i], first_row[first + i + 1]):
            p, by = probability[row], shift[row]
            if done[row]:
                k = min(max(int(np.floor(by)), 0), n - 1)
                m[k] += p
                o[k] += p * (by - k)
                v[k] += p * (by - k) ** 2
                low, high = min(low, k), max(high, k + 1)
                continue
            z = next_state[row]
            for j in range(span[z, 0], span[z, 1]):
                if mass[z, j] > 0.0:
                    q = p * mass[z, j]
                    place = gamma * (j + offset[z, j]) + by
                    k = min(max(int(np.floor(place)), 0), n - 1)
                    apart = place - k
                    m[k] += q
                    o[k] += q * apart
                    v[k] += q * (gamma * gamma * variance[z, j] + apart * apart)
                    low, high = min(low, k), max(high, k + 1)
        for k in range(low, high):
            if m[k] > _NEGLIGIBLE:
                o[k] /= m[k]
                v[k] = max(v[k] / m[k] - o[k] * o[k], 0.0)
            else:
                m[k], o[k], v[k] = 0.0, 0.0, 0.0
        while low < high and m[low] == 0.0:
            low += 1
        while high > low and m[high - 1] == 0.0:
            high -= 1
        out_span[i, 0], out_span[i, 1] = low, high


@njit(parallel=True, cache=True)
@no_type_check
def _update_in_parallel(
    first_row, next_state, probability, shift, done, gamma, mass, offset, variance, span,
    first, last, out_mass, out_offset, out_variance, out_span,
):  # fmt: skip
    """The same by several threads; each state is one thread's, in a fixed order."""
    n = last - first
    for share in prange(_SHARES):
        a, b = n * share // _SHARES, n * (share + 1) // _SHARES
        _update_block(
            first_row, next_state, probability, shift, done, gamma, mass, offset, variance, span,
            first + a, first + b, out_mass[a:b], out_offset[a:b], out_variance[a:b], out_span[a:b],
        )  # fmt: skip


@njit(cache=True)
@no_type_check
def _store_block(
    mass, offset, variance, span, first, last, out_mass, out_offset, out_variance, out_span
):
    """Move new cells into the table, and leave 0 behind."""
    for i in range(last - first):
        s = first + i
        for k in range(span[s, 0], span[s, 1]):
            mass[s, k], offset[s, k], variance[s, k] = 0.0, 0.0, 0.0
        for k in range(out_span[i, 0], out_span[i, 1]):
            mass[s, k], out_mass[i, k] = out_mass[i, k], 0.0
            offset[s, k], out_offset[i, k] = out_offset[i, k], 0.0
            variance[s, k], out_variance[i, k] = out_variance[i, k], 0.0
        span[s, 0], span[s, 1] = out_span[i, 0], out_span[i, 1]


@njit(cache=True)
@no_type_check
def _regrid(mass, offset, variance, ratio, shift, out_mass, out_offset, out_variance):
    n = out_mass.shape[1]
    for s in range(mass.shape[0]):
        m, o, v = out_mass[s], out_offset[s], out_variance[s]
        for j in range(mass.shape[1]):
            if mass[s, j] > 0.0:
                place = ratio * (j + offset[s, j]) + shift
                k = min(max(int(np.floor(place)), 0), n - 1)
                apart = place - k
                m[k] += mass[s, j]
                o[k] += mass[s, j] * apart
                v[k] += mass[s, j] * (ratio * ratio * variance[s, j] + apart * apart)
        for k in range(n):
            if m[k] > 0.0:
                o[k] /= m[k]
                v[k] = max(v[k] / m[k] - o[k] * o[k], 0.0)


@njit(parallel=True, cache=True)
@no_type_check
def w1_bounds(mass, variance):
    """Σ m √v of every state, in cells."""
    n_states, n = mass.shape
    bound = np.zeros(n_states)
    for s in prange(n_states):
        for k in range(n):
            if mass[s, k] > 0.0:
                bound[s] += mass[s, k] * np.sqrt(variance[s, k])
    return bound


@njit(parallel=True, cache=True)
@no_type_check
def outermost(mass, tail):
    """The cells of every state in which its distribution function passes `tail` and 1 − `tail`."""
    n_states, n = mass.shape
    first, last = np.zeros(n_states, np.int64), np.zeros(n_states, np.int64)
    for s in prange(n_states):
        total = 0.0
        for k in range(n):
            before, total = total, total + mass[s, k]
            if before <= tail < total:
                first[s] = k
            if before < 1 - tail <= total:
                last[s] = k
    return first, last
