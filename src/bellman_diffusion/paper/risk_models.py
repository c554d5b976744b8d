"""Small decision problems in which caution pays: a betting game and an inventory."""

import numpy as np

from bellman_diffusion.returns.mdp import FiniteMDP


def betting(rounds: int = 3, stakes: int = 3, win: float = 0.6) -> FiniteMDP:
    """A bet of 0 … stakes − 1 in every round, won with the same chance; a state is a round."""
    table = [
        [
            [
                (win, t + 1, float(bet), t == rounds - 1),
                (1 - win, t + 1, -float(bet), t == rounds - 1),
            ]
            for bet in range(stakes)
        ]
        for t in range(rounds)
    ]
    table.append([[(1.0, rounds, 0.0, True)]] * stakes)
    return FiniteMDP.from_table(table, np.eye(rounds + 1)[0])


def inventory() -> FiniteMDP:
    """Up to 3 items; order 0, 1 or 2 at a price of 1, sell at 3 each what a demand of 0–3 takes.

    An item kept costs 0.2. Demand ends for good once in five periods.
    """
    demand = ((0, 0.2), (1, 0.4), (2, 0.3), (3, 0.1))
    table = []
    for stock in range(4):
        actions = []
        for order in range(3):
            held = min(stock + order, 3)
            rows = []
            for wanted, p in demand:
                sold = min(held, wanted)
                reward = 3.0 * sold - 1.0 * order - 0.2 * (held - sold)
                rows.append((0.8 * p, held - sold, reward, False))
                rows.append((0.2 * p, held - sold, reward, True))
            actions.append(rows)
        table.append(actions)
    return FiniteMDP.from_table(table, np.eye(4)[1])
