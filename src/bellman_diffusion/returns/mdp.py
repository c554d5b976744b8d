"""A Markov decision process as a table, and the chain that a policy makes of it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import scipy.sparse.csgraph
from jaxtyping import Float, Int

from bellman_diffusion.errors import InvalidInputError

Policy = Float[np.ndarray, "states actions"]


class FiniteMDP(NamedTuple):
    """Each row: in `state`, `action` leads with `probability` to `next_state` with `reward`."""

    n_states: int
    n_actions: int
    state: Int[np.ndarray, " rows"]
    action: Int[np.ndarray, " rows"]
    probability: Float[np.ndarray, " rows"]
    next_state: Int[np.ndarray, " rows"]
    reward: Float[np.ndarray, "rows dim"]
    done: np.ndarray
    start: Float[np.ndarray, " states"]
    """How likely an episode starts in each state."""

    @classmethod
    def from_table(cls, table: Any, start: Float[np.ndarray, " states"] | None = None):
        """From Gymnasium's `P[state][action] = [(probability, next, reward, done), …]`.

        A reward may be a vector.
        """
        n_states, n_actions = len(table), len(table[0])
        rows = [
            (s, a, float(p), int(next_state), np.atleast_1d(reward).astype(float), bool(done))
            for s in range(n_states)
            for a in range(n_actions)
            for p, next_state, reward, done in table[s][a]
            if p > 0
        ]
        state, action, probability, next_state, reward, done = (
            np.array(x) for x in zip(*rows, strict=True)
        )
        return cls.checked(
            n_states, n_actions, state, action, probability, next_state, reward, done, start
        )

    @classmethod
    def checked(
        cls,
        n_states: int,
        n_actions: int,
        state: Any,
        action: Any,
        probability: Any,
        next_state: Any,
        reward: Any,
        done: Any,
        start: Any = None,
        name: str = "the transition table",
    ) -> "FiniteMDP":
        """The same, once every row is found to make sense; an error names the first that does not."""
        state, action, next_state = (np.asarray(a, np.int64) for a in (state, action, next_state))
        probability, reward = np.asarray(probability, float), np.asarray(reward, float)
        wrong = (
            (~np.isfinite(reward).all(axis=1), "has a reward that is not a finite number"),
            (~(probability >= 0), "has a probability that is not a number from 0 to 1"),
            ((next_state < 0) | (next_state >= n_states), "leads to a state that there is none of"),
            ((state < 0) | (state >= n_states), "starts from a state that there is none of"),
        )
        for rows, what in wrong:
            if rows.any():
                row = int(np.argmax(rows))
                raise InvalidInputError(
                    f"{name}: the row of state {state[row]}, action {action[row]}, to state "
                    f"{next_state[row]} {what}"
                )
        total = np.bincount(state * n_actions + action, probability, n_states * n_actions)
        # An action that a state does not have is one that its first one stands for: no row at all.
        bad = ~np.isclose(total, 1, atol=1e-6) & (total > 0)
        bad |= np.repeat(total.reshape(n_states, n_actions).max(axis=1) == 0, n_actions)
        if bad.any():
            s, a = np.unravel_index(int(np.argmax(bad)), (n_states, n_actions))
            raise InvalidInputError(
                f"{name}: the probabilities for state {s}, action {a} add up to "
                f"{total[s * n_actions + a]:.6g}, not 1"
            )
        start = np.full(n_states, 1 / n_states) if start is None else np.asarray(start, float)
        kept = probability > 0
        return cls(
            n_states, n_actions, state[kept], action[kept], probability[kept], next_state[kept],
            reward[kept], np.asarray(done, bool)[kept], start,
        )  # fmt: skip

    def available(self) -> np.ndarray:
        """Which actions each state has, (states, actions)."""
        taken = np.zeros(self.n_states * self.n_actions, bool)
        taken[self.state * self.n_actions + self.action] = True
        return taken.reshape(self.n_states, self.n_actions)

    @property
    def dim(self) -> int:
        """The dimension of a reward."""
        return self.reward.shape[1]

    def under(self, policy: Policy) -> "Chain":
        """The chain of states under a policy."""
        weight = self.probability * policy[self.state, self.action]
        used = weight > 0
        return Chain(
            self.n_states,
            self.state[used],
            weight[used],
            self.next_state[used],
            self.reward[used],
            self.done[used],
            self.start,
        )


class Chain(NamedTuple):
    """A Markov chain with rewards; `done` rows end the episode after their reward."""

    n_states: int
    state: Int[np.ndarray, " rows"]
    probability: Float[np.ndarray, " rows"]
    next_state: Int[np.ndarray, " rows"]
    reward: Float[np.ndarray, "rows dim"]
    done: np.ndarray
    start: Float[np.ndarray, " states"]

    def matrix(self, rows: np.ndarray) -> scipy.sparse.csr_array:
        """The transition matrix of some rows."""
        cells = (self.probability[rows], (self.state[rows], self.next_state[rows]))
        return scipy.sparse.csr_array(cells, shape=(self.n_states, self.n_states))

    def going_on(self) -> scipy.sparse.csr_array:
        """The transition matrix of rows that do not end the episode."""
        return self.matrix(~self.done)

    def mean_over_rows(self, values: Float[np.ndarray, " rows"]) -> Float[np.ndarray, " states"]:
        """For each state the mean of a figure of its rows."""
        return np.bincount(self.state, self.probability * values, self.n_states)

    def sampler(self) -> Callable[[Int[np.ndarray, " n"], np.random.Generator], np.ndarray]:
        """A function that draws a row of each given state, by its probability."""
        # Rows of one state stand together; a uniform number picks among them.
        order = np.argsort(self.state, kind="stable")
        cumulative = np.cumsum(self.probability[order])
        first = np.searchsorted(self.state[order], np.arange(self.n_states))
        base = np.concatenate([[0.0], cumulative])[first]

        def draw(states: Int[np.ndarray, " n"], rng: np.random.Generator) -> np.ndarray:
            level = base[states] + rng.uniform(size=len(states))
            place = np.searchsorted(cumulative, level, side="right")
            row = order[np.minimum(place, len(order) - 1)]
            # Rounding may step over a state's last row.
            return np.where(self.state[row] == states, row, order[first[states]])

        return draw

    def distinct_rewards(self) -> tuple[Float[np.ndarray, "n dim"], Int[np.ndarray, " rows"]]:
        """The rewards that occur, and which one each row has."""
        rewards, which = np.unique(self.reward, axis=0, return_inverse=True)
        return rewards, which.reshape(-1)

    def along(self, weights: Any) -> "Chain":
        """The chain whose reward is w·r: one component of a vector, or any mixture of them."""
        weights = np.atleast_1d(np.asarray(weights, float))
        if weights.shape != (self.reward.shape[1],):
            raise InvalidInputError(
                f"rewards have {self.reward.shape[1]} components, the weights {weights.size}"
            )
        return self._replace(reward=(self.reward @ weights)[:, None])

    def endless_states(self) -> Int[np.ndarray, " n"]:
        """States from which no path leads to an end: one search, backwards from an added end."""
        end = self.n_states
        source = np.where(self.done, end, self.next_state)
        cells = (np.ones(len(source)), (source, self.state))
        backwards = scipy.sparse.csr_array(cells, shape=(end + 1, end + 1))
        reached = scipy.sparse.csgraph.breadth_first_order(
            backwards, end, return_predecessors=False
        )
        return np.setdiff1d(np.arange(end), reached)


def check_gamma(gamma: float, chain: Chain | None = None) -> None:
    """γ in (0, 1], and γ = 1 only where every episode ends."""
    if not 0 < gamma <= 1:
        raise InvalidInputError(f"gamma is {gamma}: it must be in (0, 1]")
    if gamma == 1 and chain is not None and (endless := chain.endless_states()).size:
        raise InvalidInputError(
            f"gamma is 1, but under this policy the episode never ends from state {endless[0]}"
            f"{f' and {endless.size - 1} others' if endless.size > 1 else ''}: the return is not "
            "defined. Set gamma below 1, or choose another policy."
        )
