"""Off-policy evaluation: return distributions of one policy from transitions of another one.

The model is of the return of a pair (observation, action), so a pair is stored as an observation. The
backup of a logged pair with reward r and next observation z' is r + γ X(z', a'), a' drawn from the
policy at z': nothing else changes, because the Bellman equation is linear in the policy (fitted-Q
evaluation, of the whole distribution). Where the log happens to take a' itself, targets of several
steps go on along the log; where it does not, they are cut there and bootstrap from (z', a').
"""

from pathlib import Path
from typing import NamedTuple

import gymnasium as gym
import numpy as np
from jaxtyping import Float
from sklearn.neighbors import NearestNeighbors

from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.planning.acting import (
    ActingPolicy,
    PolicyFunction,
    Spaces,
    acting,
    table_policy,
)
from bellman_diffusion.planning.logs import Log
from bellman_diffusion.planning.policies import policy_from_array
from bellman_diffusion.planning.transitions import Transitions
from bellman_diffusion.returns.observations import finite_shape, from_index

_AT_ONCE = 4096
# Numbers that differ by rounding alone are the same action.
_SAME = 1e-5
# Pairs that the support of the data is measured by, how far apart logged pairs commonly are, and how
# many times as far counts as outside: one at the edge has logged pairs on one side alone.
_N_PAIRS, _COMMON, _TIMES = 5000, 0.99, 2.0


class Target(NamedTuple):
    """The policy that is evaluated, and how it acts."""

    policy: str | PolicyFunction
    seed: int = 0
    epsilon: float = 0.0
    stochastic: bool = False
    normalize: str | None = None


class OffPolicy(NamedTuple):
    """Transitions between pairs, and the pairs of the policy that episodes start from."""

    transitions: Transitions
    space: gym.Space
    starts: Float[np.ndarray, "n *shape"]
    outside: float
    """The share of the policy's pairs that are more than twice as far from all logged ones as 99 % of
    logged pairs are from their nearest."""

    @classmethod
    def of(cls, log: Log, target: Target) -> "OffPolicy":
        """Every next observation of the log with an action of the policy."""
        if log.action is None or log.action_space is None:
            raise InvalidInputError(
                "the log has no actions, so it tells of its own policy alone: name the column by "
                "--column action=NAME, or leave out --policy"
            )
        t = log.transitions
        policy = _on_rows(log, target)
        taken = _actions(policy, log, t.next_observation)
        spaces = log.space, log.action_space
        now = pair_rows(*spaces, t.observation, log.action)
        later = pair_rows(*spaces, t.next_observation, taken)
        # The row after an episode's last one is another episode's.
        follows = np.append(np.all(np.abs(taken[:-1] - log.action[1:]) <= _SAME, axis=1), False)
        ended = np.where(follows, t.ended, 1).astype(np.float32)
        first = t.observation[np.concatenate([[True], t.ended[:-1] > 0])]
        starts = pair_rows(*spaces, first, _actions(policy, log, first))
        space = gym.spaces.Tuple(spaces)
        rows = Transitions(now, t.reward, later, t.terminated, ended)
        outside = _outside(space, now, later[t.terminated == 0], target.seed)
        return cls(rows, space, starts, outside)


def pair_rows(
    observed: gym.Space,
    acted: gym.Space,
    rows: Float[np.ndarray, "n *shape"],
    actions: Float[np.ndarray, "n d"],
) -> Float[np.ndarray, "n *pair"]:
    """Stored observations with their actions, as `to_row` stores an element of the space of both."""
    shape = finite_shape(gym.spaces.Tuple((observed, acted)))
    if shape is not None:
        return (rows[:, :1] * shape[1] + actions).astype(np.float32)
    parts = [_features(observed, rows), _features(acted, actions)]
    return np.concatenate(parts, axis=1).astype(np.float32)


def _features(space: gym.Space, rows: np.ndarray) -> np.ndarray:
    if isinstance(space, gym.spaces.Discrete):
        return np.eye(int(space.n), dtype=np.float32)[rows[:, 0].astype(int)]
    return rows.reshape(len(rows), -1)


def _on_rows(log: Log, target: Target) -> ActingPolicy:
    """The policy, acting on observations as the log has them."""
    assert log.action_space is not None
    spaces = Spaces(log.space, log.action_space)
    if target.epsilon and not isinstance(log.action_space, gym.spaces.Discrete):
        raise InvalidInputError(
            "epsilon mixes in random actions, but the log does not tell the range of its continuous "
            "actions: let the policy draw them"
        )
    if isinstance(target.policy, str) and target.policy.endswith(".npy"):
        return table_policy(_table(target.policy, log), spaces, target.seed, target.epsilon)
    if target.policy == "random" and not isinstance(log.action_space, gym.spaces.Discrete):
        raise InvalidInputError(
            "--policy random: the log does not tell the range of its continuous actions. Give a "
            "policy as module:function"
        )
    return acting(
        target.policy, spaces, target.seed, target.epsilon,
        stochastic=target.stochastic, normalize=target.normalize, with_memory=False,
    )  # fmt: skip


def _table(path: str, log: Log) -> np.ndarray:
    spaces = log.space, log.action_space
    if not all(isinstance(space, gym.spaces.Discrete) for space in spaces):
        raise InvalidInputError(f"--policy {path}: a table is for logs of states and actions")
    n_states, n_actions = (int(space.n) for space in spaces)  # pyright: ignore
    return policy_from_array(Path(path), n_states, n_actions, more_states=True)


def _actions(
    policy: ActingPolicy, log: Log, rows: Float[np.ndarray, "n *shape"]
) -> Float[np.ndarray, "n d"]:
    """The policy's action at each stored observation."""
    discrete = isinstance(log.space, gym.spaces.Discrete)
    parts = []
    for first in range(0, len(rows), _AT_ONCE):
        some = rows[first : first + _AT_ONCE]
        observed = (
            np.array([from_index(log.space, int(i)) for i in some[:, 0]]) if discrete else some
        )
        chosen = policy.actions(observed, np.ones(len(some), bool))
        parts.append(np.asarray(chosen, np.float32).reshape(len(some), -1))
    return np.concatenate(parts)


def _outside(space: gym.Space, logged: np.ndarray, wanted: np.ndarray, seed: int) -> float:
    """How much of what the policy does the log knows nothing near of."""
    if not len(wanted):
        return 0.0
    if finite_shape(space) is not None:
        return float(np.mean(~np.isin(wanted[:, 0], logged[:, 0])))
    rng = np.random.default_rng(seed)
    logged, wanted = (rng.permutation(a)[:_N_PAIRS].astype(float) for a in (logged, wanted))
    scale = logged.std(axis=0)
    scale[scale < 1e-9] = 1.0
    near = NearestNeighbors().fit(logged / scale)
    # The nearest to a logged pair is itself.
    apart = near.kneighbors(logged / scale, 2)[0][:, 1]
    reach = _TIMES * np.quantile(apart, _COMMON)
    return float(np.mean(near.kneighbors(wanted / scale, 1)[0][:, 0] > reach))
