"""A Markov decision process as a table, and the chain that a policy makes of it."""

from collections.abc import Callable
from typing import Any, NamedTuple, no_type_check

import numpy as np
import scipy.sparse
import scipy.sparse.csgraph
from jaxtyping import Float, Int
from numba import njit, prange
from scipy.sparse.linalg import bicgstab, spsolve

from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.returns.backup import BellmanBackup

Policy = Float[np.ndarray, "states actions"]
# Linear systems of more states are solved iteratively.
_DIRECT = 2_000
_REFINEMENTS = 8
# Sweeps over all states before a solver takes over.
_SWEEPS = 500
# Enough for bounds on all returns to be tight: γ^2000 is 2e-9 for γ = 0.99.
_EXTREME_UPDATES = 2000


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


def random_policy(mdp: FiniteMDP) -> Policy:
    """Every action that a state has is as likely."""
    available = mdp.available()
    return available / available.sum(axis=1, keepdims=True)


def action_values(
    mdp: FiniteMDP, gamma: float, values: Float[np.ndarray, " states"]
) -> Float[np.ndarray, "states actions"]:
    """E[r + γ v(s')] of each action; −∞ for those that a state does not have."""
    backup = BellmanBackup(mdp.reward[:, 0], gamma * ~mdp.done)
    target = mdp.probability * backup.returns(values[mdp.next_state])
    pairs = mdp.state * mdp.n_actions + mdp.action
    found = np.bincount(pairs, target, mdp.n_states * mdp.n_actions)
    return np.where(mdp.available(), found.reshape(mdp.n_states, mdp.n_actions), -np.inf)


def optimal_policy(mdp: FiniteMDP, gamma: float) -> Policy:
    """Policy iteration to the policy of the greatest mean return; ties go to the first action.

    With γ = 1 the ties are many (any detour is free); a discount a little below 1 breaks them in
    favour of the shorter way, so that the episode ends.
    """
    check_gamma(gamma)
    gamma = min(gamma, 1 - 1e-7)
    if mdp.dim != 1:
        raise InvalidInputError("rewards are vectors: no policy is optimal for all; give a policy")
    policy, values = random_policy(mdp), None
    if mdp.n_states > _DIRECT:
        # Fewer of the expensive evaluations are needed from a policy that is nearly optimal.
        values = _approximate_values(mdp, gamma)
        policy = _first_best(action_values(mdp, gamma, values))
    while True:
        values = mean_return(mdp.under(policy), gamma, values)[:, 0]
        quality = action_values(mdp, gamma, values)
        best = quality.max(axis=1)
        # Only a real gain changes an action: rounding must not make the iteration go round.
        taken = np.sum(np.where(policy > 0, policy * quality, 0.0), axis=1)
        keep = (policy.max(axis=1) == 1) & (best - taken <= _tolerance(best))
        if keep.all():
            return policy
        policy = np.where(keep[:, None], policy, _first_best(quality))


def _first_best(quality: Float[np.ndarray, "states actions"]) -> Policy:
    """The first action of each state that is as good as the best."""
    best = quality.max(axis=1, keepdims=True)
    chosen = np.argmax(quality >= best - _tolerance(best), axis=1)
    return np.eye(quality.shape[1])[chosen]


def _tolerance(values: np.ndarray) -> np.ndarray:
    """By how much action values may differ from rounding alone."""
    return 1e-10 * (1 + np.abs(values))


def _approximate_values(mdp: FiniteMDP, gamma: float) -> Float[np.ndarray, " states"]:
    """The optimal values by sweeps over the states, forwards and backwards."""
    pairs = mdp.state * mdp.n_actions + mdp.action
    order = np.argsort(pairs, kind="stable")
    first = np.searchsorted(pairs[order], np.arange(mdp.n_states * mdp.n_actions + 1))
    backup = BellmanBackup(mdp.reward[:, 0], gamma * ~mdp.done)
    rows = (
        order,
        first,
        mdp.n_actions,
        mdp.probability,
        mdp.next_state,
        backup.reward,
        backup.discount,
    )
    values = np.zeros(mdp.n_states)
    for _ in range(_SWEEPS):
        changed = max(_sweep(*rows, values, backwards) for backwards in (True, False))
        if changed <= 1e-14 * np.abs(values).max(initial=0.0):
            break
    return values


@njit(cache=True)
@no_type_check
def _sweep(order, first, n_actions, probability, next_state, reward, discount, values, backwards):
    """Replace every value by that of the best action, in place; the largest change."""
    n_states, largest = len(values), 0.0
    for i in range(n_states):
        s = n_states - 1 - i if backwards else i
        best = -np.inf
        for pair in range(s * n_actions, (s + 1) * n_actions):
            total = 0.0 if first[pair + 1] > first[pair] else -np.inf
            for at in range(first[pair], first[pair + 1]):
                row = order[at]
                total += probability[row] * (reward[row] + discount[row] * values[next_state[row]])
            best = max(best, total)
        # Arithmetic with the smallest numbers there are is slow.
        best = best if abs(best) > 1e-200 else 0.0
        largest = max(largest, abs(best - values[s]))
        values[s] = best
    return largest


def mix_with_random(policy: Policy, epsilon: float, mdp: FiniteMDP) -> Policy:
    """The ε-soft policy: a share ε of the actions is random."""
    if not 0 <= epsilon <= 1:
        raise InvalidInputError(f"epsilon is {epsilon}: it must be in [0, 1]")
    return (1 - epsilon) * policy + epsilon * random_policy(mdp)


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


class Moments(NamedTuple):
    """Means and variances of every state's return, and bounds on their numerical errors."""

    mean: Float[np.ndarray, " states"]
    variance: Float[np.ndarray, " states"]
    mean_error: float
    variance_error: float


def mean_return(
    chain: Chain, gamma: float, guess: Float[np.ndarray, " states"] | None = None
) -> Float[np.ndarray, "states dim"]:
    """E[X]: the solution of m = E[r + γm']. A good guess saves time where there are many states."""
    check_gamma(gamma, chain)
    rewards = [chain.mean_over_rows(chain.reward[:, d]) for d in range(chain.reward.shape[1])]
    return _solve(chain, gamma, np.stack(rewards, axis=1), guess)[0]


def second_moment(chain: Chain, gamma: float) -> Float[np.ndarray, "states dim dim"]:
    """E[XXᵀ]: the solution of M = E[rrᵀ + γ(r m'ᵀ + m' rᵀ) + γ²M']."""
    mean = mean_return(chain, gamma)
    next_mean = np.where(chain.done[:, None], 0, mean[chain.next_state])
    cross = gamma * chain.reward[:, :, None] * next_mean[:, None, :]
    square = chain.reward[:, :, None] * chain.reward[:, None, :]
    rows = square + cross + np.swapaxes(cross, 1, 2)
    dim = rows.shape[1]
    right = [chain.mean_over_rows(rows[:, i, j]) for i in range(dim) for j in range(dim)]
    return _solve(chain, gamma**2, np.stack(right, axis=1))[0].reshape(-1, dim, dim)


def return_moments(chain: Chain, gamma: float) -> Moments:
    """Of one-dimensional returns; V = E[(r + γm' − m)² + γ²V'] cancels no digits."""
    check_gamma(gamma, chain)
    reward = chain.reward[:, 0]
    mean, mean_error = _solve(chain, gamma, chain.mean_over_rows(reward)[:, None])
    backup = BellmanBackup(reward, gamma * ~chain.done)
    surprise = backup.returns(mean[chain.next_state, 0]) - mean[chain.state, 0]
    right = chain.mean_over_rows(surprise**2)[:, None]
    variance, error = _solve(chain, gamma**2, right)
    # The exact surprise differs by at most twice the error of the means.
    largest = float(np.abs(surprise).max(initial=0.0))
    steps = _expected_steps(chain, gamma**2)
    error += 4 * mean_error * (largest + mean_error) * steps
    return Moments(mean[:, 0], np.maximum(variance[:, 0], 0.0), mean_error, error)


def _solve(
    chain: Chain,
    factor: float,
    right: Float[np.ndarray, "states n"],
    guess: Float[np.ndarray, " states"] | None = None,
) -> tuple[Float[np.ndarray, "states n"], float]:
    """x = right + factor·P x, and a bound on the error of every entry from the residual."""
    going_on = chain.going_on()
    system = scipy.sparse.csc_array(scipy.sparse.eye_array(chain.n_states) - factor * going_on)
    if chain.n_states <= _DIRECT:
        solution = np.asarray(spsolve(system, right)).reshape(right.shape)
    else:
        columns = [_iterate(system, column, guess) for column in right.T]
        solution = np.stack(columns, axis=1)
    residual = np.abs(right + factor * (going_on @ solution) - solution).max(initial=0.0)
    # The residual is itself rounded: by so much for each row of a state.
    size = np.abs(right).max(initial=0.0) + 2 * np.abs(solution).max(initial=0.0)
    most = np.diff(going_on.indptr).max(initial=0)
    residual += (most + 4) * np.finfo(float).eps * size
    return solution, float(residual * _expected_steps(chain, factor))


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
    for _ in range(_SWEEPS):
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


def _expected_steps(chain: Chain, factor: float) -> float:
    """A bound on the norm of (1 − factor·P)⁻¹: the (discounted) number of steps of an episode."""
    if factor < 1:
        return 1 / (1 - factor)
    going_on, ones = chain.going_on(), np.ones(chain.n_states)
    system = scipy.sparse.csc_array(scipy.sparse.eye_array(chain.n_states) - going_on)
    direct = chain.n_states <= _DIRECT
    steps = np.asarray(spsolve(system, ones) if direct else _iterate(system, ones))
    # Steps that satisfy (1 − P) steps ≥ c > 0 bound the true ones by steps / c.
    left = float((steps - going_on @ steps).min())
    return float("inf") if left <= 0 else float(steps.max() / left)
