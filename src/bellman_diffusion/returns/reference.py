"""The exact return distribution in a finite chain, to evaluate planners against (one dimension).

Two independent ways:

- `atoms_at_the_end`: where rewards come only with the end of an episode, the return is γᵏ⁻¹r with the
  probability that the episode ends at step k with r. Exact up to the mass of later ends.
- `CharacteristicReference`: for any rewards, from the characteristic function φ_z(ω) = E[e^{iωX}], with
  φ_z(ω) = E[e^{iωr} φ_{z'}(γω)]. Near ω = 0 it is known from the moments; one sweep up the frequencies
  in steps of 1/γ gives the rest without iterating to a fixed point.
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse
from jaxtyping import Float
from scipy.sparse.linalg import splu
from scipy.stats import norm

from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.returns.mdp import Chain, check_gamma
from bellman_diffusion.returns.moments import mean_return, possible_returns, second_moment

# What is left of a Gaussian's characteristic function at the highest frequency: e^(−8.5²/2) ≈ 2e-16.
_CUT_OFF = 8.5
_SMALL_PHASE = 1e-4
_TAIL_DEVIATIONS = 30.0
# A window of all possible returns is taken up to this cost.
_MOST_FREQUENCIES = 2000


class AtomicReference(NamedTuple):
    """Atoms common to all states, with each state's probabilities."""

    atoms: Float[np.ndarray, " n"]
    probabilities: Float[np.ndarray, "states n"]
    error: float
    """The mass that is not accounted for, at most."""

    def cdf(self, x: Float[np.ndarray, " m"], sigma: float) -> Float[np.ndarray, "states m"]:
        """The CDF of the return plus N(0, σ²)."""
        return self.probabilities @ norm.cdf((x[None] - self.atoms[:, None]) / sigma)


def rewards_only_at_the_end(chain: Chain) -> bool:
    """Whether every row that goes on has no reward."""
    return chain.reward.shape[1] == 1 and not np.any(chain.reward[~chain.done])


def atoms_at_the_end(chain: Chain, gamma: float, tail: float = 1e-12) -> AtomicReference:
    """Where rewards come only with the end; the longest episodes, a share `tail`, are cut."""
    check_gamma(gamma, chain)
    if not rewards_only_at_the_end(chain):
        raise InvalidInputError("rewards come before the end: use CharacteristicReference")
    going_on = chain.going_on()
    rewards = np.unique(chain.reward[chain.done, 0])
    # ends[z, j]: the episode ends in this step with reward j.
    ends = np.stack(
        [
            chain.mean_over_rows((chain.done & (chain.reward[:, 0] == r)).astype(float))
            for r in rewards
        ],
        axis=1,
    )
    alive = np.ones(chain.n_states)
    atoms, columns, step = [], [], 0
    # Also stop where what is left would be paid next to nothing.
    while alive.max() > tail and gamma**step > tail:
        atoms.append(gamma**step * rewards)
        columns.append(ends)
        ends, alive, step = going_on @ ends, going_on @ alive, step + 1
    probabilities = np.concatenate(columns, axis=1)
    rest = np.maximum(1 - probabilities.sum(axis=1, keepdims=True), 0)
    return AtomicReference(
        np.concatenate([*atoms, [0.0]]),
        np.concatenate([probabilities, rest], axis=1),
        float(min(alive.max(), 1.0)),
    )


class CharacteristicReference:
    """The return distribution plus N(0, σ²), from its characteristic function.

    `error` bounds the CDF's error by proof: the start of the sweep leaves out third moments, and the
    periodic inversion folds back the mass outside its window. That is none where the window holds every
    possible return; where it would be too wide, Cantelli's inequality bounds it by 1/(1 + 30²) on each
    side, which the geometric tails of a finite chain stay far below.
    """

    def __init__(self, chain: Chain, gamma: float, sigma: float) -> None:
        check_gamma(gamma, chain)
        if chain.reward.shape[1] != 1:
            raise InvalidInputError("the reference is for one-dimensional returns")
        self.sigma = sigma
        self.mean = mean_return(chain, gamma)[:, 0]
        self.variance = np.maximum(second_moment(chain, gamma)[:, 0, 0] - self.mean**2, 0)
        low, high, outside = _window(chain, gamma, self.mean, self.variance, sigma)
        self.low, self.high = low, high
        self.error = outside + (0.0 if gamma == 1 else _SMALL_PHASE**3)
        n_frequencies = int(np.ceil(_n_frequencies(high - low, sigma)))
        self._frequencies = 2 * np.pi * np.arange(1, n_frequencies + 1) / (high - low)
        self._phi = _characteristic(chain, gamma, self._frequencies, self.mean, self.variance)

    def cdf(self, x: Float[np.ndarray, " m"]) -> Float[np.ndarray, "states m"]:
        """The CDF at points inside the window [`low`, `high`]."""
        period, omega = self.high - self.low, self._frequencies
        damped = self._phi * np.exp(-0.5 * (self.sigma * omega) ** 2)
        # The integral from `low` to x of (1/L)(1 + 2 Re Σ φ e^{−iωx}).
        waves = (np.exp(-1j * np.outer(omega, x)) - np.exp(-1j * omega * self.low)[:, None]) / (
            -1j * omega[:, None]
        )
        inside = (x - self.low)[None] / period + 2 * np.real(damped @ waves) / period
        return np.clip(inside, 0, 1)


def _window(
    chain: Chain, gamma: float, mean: np.ndarray, variance: np.ndarray, sigma: float
) -> tuple[float, float, float]:
    """An interval that holds each state's distribution, and a bound on the mass outside it."""
    deviation = np.sqrt(variance)
    low = np.min(mean - _TAIL_DEVIATIONS * deviation)
    high = np.max(mean + _TAIL_DEVIATIONS * deviation)
    limits = possible_returns(chain, gamma)
    least, greatest = limits[:, 0].min(), limits[:, 1].max()
    pad = _CUT_OFF * sigma
    if _n_frequencies(greatest - least + 2 * pad, sigma) > _MOST_FREQUENCIES:
        tail = 1 / (1 + _TAIL_DEVIATIONS**2)
        outside = tail * ((low > least) + (high < greatest))
        least, greatest = max(low, least), min(high, greatest)
    else:
        outside = 0.0
    return float(least - pad), float(greatest + pad), float(outside)


def _n_frequencies(width: float, sigma: float) -> float:
    """How many waves of a period `width` are left by the smoothing."""
    return _CUT_OFF / sigma * width / (2 * np.pi)


def _characteristic(
    chain: Chain, gamma: float, omega: np.ndarray, mean: np.ndarray, variance: np.ndarray
) -> np.ndarray:
    """φ_z(ω) for every state and frequency."""
    if gamma == 1:
        return np.stack([_solve_undiscounted(chain, w) for w in omega], axis=1)
    # Down to where every state's return turns the phase by next to nothing.
    size = np.max(np.sqrt(mean**2 + variance)) + np.abs(chain.reward).max()
    n_steps = max(int(np.ceil(np.log(omega.max() * size / _SMALL_PHASE) / -np.log(gamma))), 0)
    low = omega * gamma**n_steps
    phi = np.exp(1j * np.outer(mean, low) - 0.5 * np.outer(variance, low**2))
    rewards, which = chain.distinct_rewards()
    on = [chain.matrix((which == i) & ~chain.done) for i in range(len(rewards))]
    end = [
        chain.mean_over_rows(((which == i) & chain.done).astype(float)) for i in range(len(rewards))
    ]
    for step in range(n_steps - 1, -1, -1):
        phase = np.exp(1j * rewards * (omega * gamma**step)[None])
        terms = [phase[i] * (on[i] @ phi + end[i][:, None]) for i in range(len(rewards))]
        phi = np.sum(terms, axis=0)
    return phi


def _solve_undiscounted(chain: Chain, omega: float) -> np.ndarray:
    """φ = E[e^{iωr} φ'] with γ = 1: one linear system for each frequency."""
    turn = np.exp(1j * omega * chain.reward[:, 0]) * chain.probability
    on = ~chain.done
    cells = (turn[on], (chain.state[on], chain.next_state[on]))
    system = scipy.sparse.eye_array(chain.n_states) - scipy.sparse.csr_array(
        cells, shape=(chain.n_states, chain.n_states)
    )
    right = np.zeros(chain.n_states, complex)
    np.add.at(right, chain.state[~on], turn[~on])
    return splu(scipy.sparse.csc_array(system)).solve(right)
