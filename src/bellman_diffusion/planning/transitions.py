"""Where transitions come from: a finite environment's table, or episodes of any environment."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from bellman_diffusion.returns.backup import BellmanBackup
from bellman_diffusion.returns.mdp import Chain

# A return is taken as known when what was not seen of it is discounted to this share.
NEGLIGIBLE = 1e-3
# γ, or one for each component of a vector return.
Discount = float | Float[np.ndarray, " dim"]


class Transitions(NamedTuple):
    """One-step transitions. `terminated` is 1 where the episode ends; truncation is not that."""

    observation: Float[np.ndarray, "n *shape"]
    reward: Float[np.ndarray, "n *dim"]
    """Numbers, or vectors of several components."""
    next_observation: Float[np.ndarray, "n *shape"]
    terminated: Float[np.ndarray, " n"]
    ended: Float[np.ndarray, " n"]
    """1 at an episode's last row, terminated or truncated; rows are in order. All 1 where they are not
    from episodes."""

    def __len__(self) -> int:
        return len(self.reward)

    @property
    def has_episodes(self) -> bool:
        """Whether rows follow each other, or all of them are ends."""
        return not np.all(self.ended) or bool(np.all(self.terminated))

    def component(self, d: int) -> "Transitions":
        """With one component of vector rewards."""
        return Transitions(self.observation, self.reward[:, d], *self[2:])

    def distinct(self) -> tuple["Transitions", Int[np.ndarray, " rows"]]:
        """The different transitions between states of a table, and how often each occurs."""
        state, reward, next_state, terminated = (a.reshape(len(self), -1)[:, 0] for a in self[:4])
        # Sorting one whole number a row is much quicker than sorting rows.
        values, which = np.unique(reward, return_inverse=True)
        wide = int(next_state.max(initial=0)) + 1
        code = (state.astype(np.int64) * wide + next_state.astype(np.int64)) * len(values) + which
        _, first, counts = np.unique(
            2 * code + (terminated > 0), return_index=True, return_counts=True
        )
        return Transitions(*(a[first] for a in self)), counts


class Returns(NamedTuple):
    """Monte-Carlo returns that are known, and the observations they are from."""

    observation: Float[np.ndarray, "n *shape"]
    value: Float[np.ndarray, "n *dim"]
    starts: Bool[np.ndarray, " n"]
    """Which of them are an episode's first."""
    slack: Float[np.ndarray, "n *dim"]
    """What a return may be off by, because its episode was cut off where hardly anything was left."""
    n_lost: int = 0
    """Episodes whose return is not known."""

    def chosen(self, rows: Bool[np.ndarray, " n"]) -> "Returns":
        """Some of them; an episode without its start is lost."""
        lost = self.n_lost + int(np.sum(self.starts & ~rows))
        arrays = (self.observation, self.value, self.starts, self.slack)
        return Returns(*(a[rows] for a in arrays), n_lost=lost)

    def component(self, d: int) -> "Returns":
        """Of a vector return."""
        return self._replace(value=self.value[:, d], slack=self.slack[:, d])

    def of_starts(self) -> "Returns":
        """Those of whole episodes."""
        return self.chosen(self.starts)


def sample_chain(chain: Chain, n: int, seed: int) -> Transitions:
    """n transitions of a finite chain from states drawn uniformly."""
    rng = np.random.default_rng(seed)
    state = rng.integers(0, chain.n_states, n)
    row = chain.sampler()(state, rng)
    return Transitions(
        state[:, None].astype(np.float32),
        chain.reward[row, 0].astype(np.float32),
        chain.next_state[row][:, None].astype(np.float32),
        chain.done[row].astype(np.float32),
        np.ones(n, np.float32),
    )


def known_returns(
    transitions: Transitions,
    gamma: Discount,
    horizon: int | None = None,
    time_limit: int | None = None,
) -> Returns:
    """The discounted return from each row, where the episode's end is known or too far to matter.

    From a truncated episode only rows are kept after which so many steps were seen that the unknown
    rest is discounted to nothing; with γ = 1 none is. Where episodes end at a `horizon`, returns are
    those of whole episodes: what later rows get depends on the time. Where episodes were played on
    beyond a `time_limit`, rows after it are left out: nobody learned from such.
    """
    value, unknown = partial_returns(transitions, gamma)
    starts = np.concatenate([[True], transitions.ended[:-1] > 0])
    keep = np.all(_rows(unknown) <= NEGLIGIBLE, axis=1) if horizon is None else starts
    if time_limit is not None:
        number = np.arange(len(starts))
        keep = keep & (number - np.maximum.accumulate(np.where(starts, number, 0)) < time_limit)
    slack = unknown * np.abs(value).max(axis=0, initial=0.0) * (horizon is None)
    every = Returns(transitions.observation, value, starts, slack)
    return every.chosen(keep)


def partial_returns(
    transitions: Transitions, gamma: Discount
) -> tuple[Float[np.ndarray, "n *dim"], Float[np.ndarray, "n *dim"]]:
    """What was seen of each row's discounted return, and the discount of what was not (0 at an end)."""
    reward = np.asarray(transitions.reward, float)
    value, unknown = np.zeros_like(reward), np.zeros_like(reward)
    total, rest = 0.0, 0.0
    for i in range(len(transitions) - 1, -1, -1):
        if transitions.ended[i]:
            total, rest = 0.0, float(1 - transitions.terminated[i])
        total = BellmanBackup(reward[i], gamma).returns(total)
        rest = rest * gamma
        value[i], unknown[i] = total, rest
    return value, unknown


def _rows(values: np.ndarray) -> Float[np.ndarray, "n dim"]:
    return values.reshape(len(values), -1)
