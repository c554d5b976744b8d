"""Chains to measure on: the reward processes of published methods, and Gymnasium's tables."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from bellman_diffusion.environments import finite_mdp, make_env
from bellman_diffusion.returns.mdp import Chain, FiniteMDP
from bellman_diffusion.returns.tabular_policies import mix_with_random, optimal_policy

_CHAIN_STATES = 20


def solitaire_dice() -> Chain:
    """One state: with 1/6 the episode ends with reward 0, else the reward is 1 and it goes on."""
    return _chain([[(1 / 6, 0, 0.0, True), (5 / 6, 0, 1.0, False)]])


def bernoulli() -> Chain:
    """One state, a reward of 0 or 1, for ever: at γ = ½ the return is uniform on (0, 2)."""
    return _chain([[(0.5, 0, 0.0, False), (0.5, 0, 1.0, False)]])


def discrete_chain(n: int = _CHAIN_STATES) -> Chain:
    """A walk in a landscape of three hills; a reward of 1 a step, 0 on arrival at either end."""
    place = np.arange(n)
    height = np.exp((n - 1) / (4 * np.pi) * np.cos(4 * np.pi * (place - 1) / (n - 1)))
    table = []
    for i in place:
        if i in (0, n - 1):
            table.append([(1.0, int(i), 0.0, True)])
            continue
        to = {j: height[j] / (height[i] + height[j]) for j in (i - 1, i + 1)}
        to[i] = max(0.0, 1 - sum(to.values()))
        total = sum(to.values())
        ends = {j: j in (0, n - 1) for j in to}
        table.append([(p / total, int(j), 1.0 - ends[j], ends[j]) for j, p in to.items() if p > 0])
    return _chain(table)


def _chain(rows: list[list[tuple[float, int, float, bool]]]) -> Chain:
    mdp = FiniteMDP.from_table([[row] for row in rows])
    return mdp.under(np.ones((mdp.n_states, 1)))


# W1 of distributions learned from samples, as their authors print it: PCBF, and the best Value Flows.
PUBLISHED = {
    "dice": {0: (0.116, 0.253)},
    "Bernoulli": {0: (0.023, 0.024)},
    "chain": {1: (0.334, 0.475), 5: (0.586, 0.796), 10: (0.539, 0.425), 18: (0.352, 0.392)},
}


class Process(NamedTuple):
    """A chain, its discount, and the states that are reported."""

    chain: Callable[[], Chain]
    gamma: float
    states: tuple[int, ...]
    learned: bool = False


def _table(env_id: str, epsilon: float = 0.0) -> Chain:
    """Gymnasium's table under the optimal policy, some of its actions random."""
    mdp = finite_mdp(make_env(env_id))
    return mdp.under(mix_with_random(optimal_policy(mdp, 0.99), epsilon, mdp))


PROCESSES = {
    "dice": Process(solitaire_dice, 0.9, (0,), learned=True),
    "Bernoulli": Process(bernoulli, 0.5, (0,), learned=True),
    "chain": Process(discrete_chain, 0.95, (1, 5, 10, 18), learned=True),
    "FrozenLake-v1": Process(partial(_table, "FrozenLake-v1"), 0.99, (0,)),
    "FrozenLake8x8-v1": Process(partial(_table, "FrozenLake8x8-v1"), 0.99, (0,)),
    "CliffWalking-v1": Process(partial(_table, "CliffWalking-v1", 0.1), 0.99, (36,)),
    "Taxi-v4": Process(partial(_table, "Taxi-v4", 0.1), 0.99, (314,)),
}
