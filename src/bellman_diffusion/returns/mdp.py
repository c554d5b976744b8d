"""A Markov decision process as a table, and the chain that a policy makes of it."""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import scipy.sparse.csgraph
from jaxtyping import Float, Int
from scipy.sparse.linalg import spsolve

from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.returns.backup import BellmanBackup

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
        total = np.zeros((n_states, n_actions))
        np.add.at(total, (state, action), probability)
        if not np.allclose(total, 1, atol=1e-6):
            s, a = np.argwhere(~np.isclose(total, 1, atol=1e-6))[0]
            raise InvalidInputError(
                f"the transition table's probabilities for state {s}, action {a} add up to "
                f"{total[s, a]:.6g}, not 1"
            )
        start = np.full(n_states, 1 / n_states) if start is None else np.asarray(start, float)
        return cls(n_states, n_actions, state, action, probability, next_state, reward, done, start)

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

    def draw(
        self, states: Int[np.ndarray, " n"], rng: np.random.Generator
    ) -> Int[np.ndarray, " n"]:
        """A row of each given state, by its probability."""
        # Rows of one state stand together; a uniform number picks among them.
        order = np.argsort(self.state, kind="stable")
        cumulative = np.cumsum(self.probability[order])
        first = np.searchsorted(self.state[order], np.arange(self.n_states))
        base = np.concatenate([[0.0], cumulative])[first]
        level = base[states] + rng.uniform(size=len(states))
        row = order[np.minimum(np.searchsorted(cumulative, level, side="right"), len(order) - 1)]
        # Rounding may step over a state's last row.
        return np.where(self.state[row] == states, row, order[first[states]])

    def distinct_rewards(self) -> tuple[Float[np.ndarray, "n dim"], Int[np.ndarray, " rows"]]:
        """The rewards that occur, and which one each row has."""
        rewards, which = np.unique(self.reward, axis=0, return_inverse=True)
        return rewards, which.reshape(-1)

    def endless_states(self) -> Int[np.ndarray, " n"]:
        """States from which no path leads to an end."""
        ends = np.zeros(self.n_states, bool)
        ends[self.state[self.done]] = True
        backwards = scipy.sparse.csr_array(self.going_on().T)
        reached = ends.copy()
        for source in np.flatnonzero(ends):
            if backwards.nnz:
                order = scipy.sparse.csgraph.breadth_first_order(
                    backwards, source, return_predecessors=False
                )
                reached[order] = True
        return np.flatnonzero(~reached)


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


def random_policy(mdp: FiniteMDP) -> Policy:
    """Every action is as likely."""
    return np.full((mdp.n_states, mdp.n_actions), 1 / mdp.n_actions)


def optimal_policy(mdp: FiniteMDP, gamma: float) -> Policy:
    """Policy iteration to the policy of the greatest mean return; ties go to the first action.

    With γ = 1 the ties are many (any detour is free); a discount a little below 1 breaks them in
    favour of the shorter way, so that the episode ends.
    """
    check_gamma(gamma)
    gamma = min(gamma, 1 - 1e-7)
    if mdp.dim != 1:
        raise InvalidInputError("rewards are vectors: no policy is optimal for all; give a policy")
    policy = random_policy(mdp)
    while True:
        values = mean_return(mdp.under(policy), gamma)[:, 0]
        backup = BellmanBackup(mdp.reward[:, 0], gamma * ~mdp.done)
        target = backup.returns(values[mdp.next_state])
        quality = np.zeros((mdp.n_states, mdp.n_actions))
        np.add.at(quality, (mdp.state, mdp.action), mdp.probability * target)
        best = quality.max(axis=1)
        # Only a real gain changes an action: rounding must not make the iteration go round.
        gain = best - np.sum(policy * quality, axis=1)
        tolerance = 1e-10 * (1 + np.abs(best))
        deterministic = policy.max(axis=1) == 1
        keep = deterministic & (gain <= tolerance)
        if keep.all():
            return policy
        first_best = np.argmax(quality >= (best - tolerance)[:, None], axis=1)
        policy = np.where(keep[:, None], policy, np.eye(mdp.n_actions)[first_best])


def mix_with_random(policy: Policy, epsilon: float) -> Policy:
    """The ε-soft policy: a share ε of the actions is random."""
    if not 0 <= epsilon <= 1:
        raise InvalidInputError(f"epsilon is {epsilon}: it must be in [0, 1]")
    return (1 - epsilon) * policy + epsilon / policy.shape[1]


def mean_return(chain: Chain, gamma: float) -> Float[np.ndarray, "states dim"]:
    """E[X]: the solution of m = E[r + γm']."""
    check_gamma(gamma, chain)
    rewards = [chain.mean_over_rows(chain.reward[:, d]) for d in range(chain.reward.shape[1])]
    return _solve(chain, gamma, np.stack(rewards, axis=1))


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


def _solve(
    chain: Chain, factor: float, right: Float[np.ndarray, "states n"]
) -> Float[np.ndarray, "states n"]:
    system = scipy.sparse.eye_array(chain.n_states) - factor * chain.going_on()
    solution = spsolve(scipy.sparse.csc_array(system), right)
    return np.asarray(solution).reshape(right.shape)
