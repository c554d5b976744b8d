"""Policies of a finite model: random, optimal for the mean, and mixtures."""

from typing import no_type_check

import numpy as np
from jaxtyping import Float
from numba import njit

from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.returns.backup import BellmanBackup
from bellman_diffusion.returns.mdp import FiniteMDP, Policy, check_gamma
from bellman_diffusion.returns.moments import DIRECT, SWEEPS, mean_return


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
    if mdp.n_states > DIRECT:
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
    for _ in range(SWEEPS):
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
