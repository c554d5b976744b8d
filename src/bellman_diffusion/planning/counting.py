"""Small state spaces from transitions: the chain that was counted, solved as exact planning does.

For a table there is no better use of transitions than to count them: the frequencies are the maximum
likelihood estimate of the chain, and its return distributions need no network. The certificates hold
for the counted chain, not for the true one, so they are not handed on.
"""

import warnings
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool

from bellman_diffusion.planning.certify import Certified
from bellman_diffusion.planning.transitions import Transitions
from bellman_diffusion.returns.mdp import Chain


class CountedReturns(NamedTuple):
    """Of every state; `seen` tells which of them occur in the transitions."""

    certified: Certified
    seen: Bool[np.ndarray, " states"]


class Counted(NamedTuple):
    """The chain by its frequencies."""

    chain: Chain
    seen: Bool[np.ndarray, " states"]

    @classmethod
    def of(cls, transitions: Transitions, n_states: int) -> "Counted":
        """States that are never left end the episode at once, with no reward."""
        rows, counts = transitions.distinct()
        state, next_state = (
            a[:, 0].astype(np.int64) for a in (rows.observation, rows.next_observation)
        )
        visits = np.bincount(state, counts, n_states)
        seen = visits > 0
        done = rows.terminated > 0
        lost = np.setdiff1d(next_state[~done], np.flatnonzero(seen))
        if len(lost):
            warnings.warn(
                f"{len(lost)} states are reached but never left in the transitions, such as state "
                f"{lost[0]}: what comes after them counts as 0. Use more transitions.",
                RuntimeWarning,
                stacklevel=5,
            )
        missing = np.flatnonzero(~seen)
        n = len(missing)
        chain = Chain(
            n_states,
            np.concatenate([state, missing]),
            np.concatenate([counts / visits[state], np.ones(n)]),
            np.concatenate([next_state, missing]),
            np.concatenate([rows.reward.astype(float), np.zeros(n)])[:, None],
            np.concatenate([done, np.ones(n, bool)]),
            np.full(n_states, 1 / n_states),
        )
        return cls(chain, seen)
