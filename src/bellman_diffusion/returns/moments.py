"""Means, variances and limits of the returns of a chain, with bounds on their numerical errors."""

from typing import NamedTuple, no_type_check

import numpy as np
import scipy.sparse
import scipy.sparse.csgraph
from jaxtyping import Float
from numba import njit, prange
from scipy.sparse.linalg import bicgstab, spsolve

from bellman_diffusion.returns.backup import BellmanBackup
from bellman_diffusion.returns.mdp import Chain, check_gamma

# Linear systems of more states are solved iteratively.
DIRECT = 2_000
_REFINEMENTS = 8
# Sweeps over all states before a solver takes over.
SWEEPS = 500
# Enough for bounds on all returns to be tight: γ^2000 is 2e-9 for γ = 0.99.
_EXTREME_UPDATES = 2000


class Moments(NamedTuple):
    """Means and variances of every state's return, and bounds on their numerical errors."""

    mean: Float[np.ndarray, " states"]
    variance: Float[np.ndarray, " states"]
    mean_error: float
    variance_error: float
    steps: float = float("inf")
    """A bound on the expected number of steps of an episode, discounted like the mean."""


def mean_return(
    chain: Chain, gamma: float, guess: Float[np.ndarray, " states"] | None = None
) -> Float[np.ndarray, "states dim"]:
    """E[X]: the solution of m = E[r + γm']. A good guess saves time where there are many states."""
    check_gamma(gamma, chain)
    rewards = [chain.mean_over_rows(chain.reward[:, d]) for d in range(chain.reward.shape[1])]
    return _solve(chain, gamma, np.stack(rewards, axis=1), guess)


def second_moment(chain: Chain, gamma: float) -> Float[np.ndarray, "states dim dim"]:
    """E[XXᵀ]: the solution of M = E[rrᵀ + γ(r m'ᵀ + m' rᵀ) + γ²M']."""
    mean = mean_return(chain, gamma)
    next_mean = np.where(chain.done[:, None], 0, mean[chain.next_state])
    cross = gamma * chain.reward[:, :, None] * next_mean[:, None, :]
    square = chain.reward[:, :, None] * chain.reward[:, None, :]
    rows = square + cross + np.swapaxes(cross, 1, 2)
    dim = rows.shape[1]
    right = [chain.mean_over_rows(rows[:, i, j]) for i in range(dim) for j in range(dim)]
    return _solve(chain, gamma**2, np.stack(right, axis=1)).reshape(-1, dim, dim)


def return_moments(chain: Chain, gamma: float) -> Moments:
    """Of one-dimensional returns; V = E[(r + γm' − m)² + γ²V'] cancels no digits."""
    check_gamma(gamma, chain)
    reward = chain.reward[:, 0]
    steps = expected_steps(chain, gamma)
    squared = steps if gamma == 1 else expected_steps(chain, gamma**2)
    right = chain.mean_over_rows(reward)[:, None]
    mean = _solve(chain, gamma, right)
    mean_error = _error(chain, gamma, right, mean) * steps
    backup = BellmanBackup(reward, gamma * ~chain.done)
    surprise = backup.returns(mean[chain.next_state, 0]) - mean[chain.state, 0]
    right = chain.mean_over_rows(surprise**2)[:, None]
    variance = _solve(chain, gamma**2, right)
    # The exact surprise differs by at most twice the error of the means.
    largest = float(np.abs(surprise).max(initial=0.0))
    error = _error(chain, gamma**2, right, variance) + 4 * mean_error * (largest + mean_error)
    return Moments(mean[:, 0], np.maximum(variance[:, 0], 0.0), mean_error, error * squared, steps)


def _solve(
    chain: Chain,
    factor: float,
    right: Float[np.ndarray, "states n"],
    guess: Float[np.ndarray, " states"] | None = None,
) -> Float[np.ndarray, "states n"]:
    """x = right + factor·P x."""
    system = scipy.sparse.csc_array(
        scipy.sparse.eye_array(chain.n_states) - factor * chain.going_on()
    )
    if chain.n_states <= DIRECT:
        return np.asarray(spsolve(system, right)).reshape(right.shape)
    return np.stack([_iterate(system, column, guess) for column in right.T], axis=1)


def _error(
    chain: Chain,
    factor: float,
    right: Float[np.ndarray, "states n"],
    solution: Float[np.ndarray, "states n"],
) -> float:
    """The residual: with the expected number of steps it bounds the error of every entry."""
    going_on = chain.going_on()
    residual = np.abs(right + factor * (going_on @ solution) - solution).max(initial=0.0)
    # The residual is itself rounded: by so much for each row of a state.
    size = np.abs(right).max(initial=0.0) + 2 * np.abs(solution).max(initial=0.0)
    most = np.diff(going_on.indptr).max(initial=0)
    return float(residual + (most + 4) * np.finfo(float).eps * size)


def _iterate(
    system: scipy.sparse.csc_array,
    right: Float[np.ndarray, " n"],
    guess: Float[np.ndarray, " n"] | None = None,
) -> np.ndarray:
    """By sweeps, then by BiCGStab: a factorisation of a large system may not fit into memory.

    Far from all rewards BiCGStab meets numbers so small that arithmetic is slow; sweeps leave them out.
    """
    rows = scipy.sparse.csr_array(system)
    solution = np.zeros_like(right) if guess is None else guess.copy()
    table = (rows.indptr, rows.indices, rows.data, right, solution)
    for _ in range(SWEEPS):
        changed = max(_linear_sweep(*table, backwards) for backwards in (True, False))
        if changed <= 1e-14 * np.abs(solution).max(initial=0.0):
            break
    for _ in range(_REFINEMENTS):
        rest = right - rows @ solution
        if np.abs(rest).max() <= 1e-13 * max(np.abs(right).max(), 1e-300):
            return solution
        correction, _ = bicgstab(rows, rest, rtol=1e-8, atol=0.0, maxiter=2000)
        solution = solution + correction
    return solution


@njit(cache=True)
@no_type_check
def _linear_sweep(indptr, indices, data, right, solution, backwards):
    """Solve each equation for its own unknown, in place (Gauss–Seidel); the largest change."""
    n, largest = len(right), 0.0
    for i in range(n):
        s = n - 1 - i if backwards else i
        total, own = right[s], 1.0
        for at in range(indptr[s], indptr[s + 1]):
            if indices[at] == s:
                own = data[at]
            else:
                total -= data[at] * solution[indices[at]]
        value = total / own if abs(total) > 1e-200 else 0.0
        largest = max(largest, abs(value - solution[s]))
        solution[s] = value
    return largest


def expected_steps(chain: Chain, factor: float) -> float:
    """A bound on the norm of (1 − factor·P)⁻¹: the (discounted) number of steps of an episode."""
    if factor < 1:
        return 1 / (1 - factor)
    going_on, ones = chain.going_on(), np.ones(chain.n_states)
    system = scipy.sparse.csc_array(scipy.sparse.eye_array(chain.n_states) - going_on)
    direct = chain.n_states <= DIRECT
    steps = np.asarray(spsolve(system, ones) if direct else _iterate(system, ones))
    # Steps that satisfy (1 − P) steps ≥ c > 0 bound the true ones by steps / c.
    left = float((steps - going_on @ steps).min())
    return float("inf") if left <= 0 else float(steps.max() / left)


def possible_returns(
    chain: Chain, gamma: float, horizon: int | None = None
) -> Float[np.ndarray, "states 2"]:
    """The least and the greatest return that is possible from each state; infinite where there is none.

    Every iterate of the extreme Bellman equation, from a bound on all returns, is a bound.
    """
    order = np.argsort(chain.state, kind="stable")
    state, next_state = chain.state[order], chain.next_state[order]
    first = np.searchsorted(state, np.arange(chain.n_states + 1))
    backup = BellmanBackup(chain.reward[order, 0], gamma * ~chain.done[order])
    ends = []
    for sign in (-1.0, 1.0):
        largest = max(float((sign * backup.reward).max()), 0.0)
        at_most = largest / (1 - gamma) if gamma < 1 else (np.inf if largest > 0 else 0.0)
        value = np.full(chain.n_states, sign * at_most if horizon is None else 0.0)
        for _ in range(horizon if horizon is not None else _EXTREME_UPDATES):
            new = _extreme(first, next_state, backup.reward, backup.discount, value, sign)
            if np.array_equal(new, value):
                break
            value = new
        ends.append(value)
    return np.stack(ends, axis=-1)


@njit(parallel=True, cache=True)
@no_type_check
def _extreme(first, next_state, reward, discount, value, sign):
    """The greatest return of every state's rows, or with the sign −1 the least."""
    found = np.empty_like(value)
    for s in prange(len(value)):
        best = -np.inf
        for row in range(first[s], first[s + 1]):
            total = reward[row]
            # After the end nothing is added, not even 0 times infinity.
            if discount[row] > 0:
                total += discount[row] * value[next_state[row]]
            best = max(best, sign * total)
        found[s] = sign * best
    return found
