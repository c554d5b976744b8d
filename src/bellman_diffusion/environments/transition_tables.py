"""Transition tables: an environment's own `P`, or one worked out from known rules."""

from functools import lru_cache
from typing import Any

import gymnasium as gym
import numpy as np

from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.returns.mdp import FiniteMDP

_CARDS = {card: (4 if card == 10 else 1) / 13 for card in range(1, 11)}
_BLACKJACK_SHAPE = (32, 11, 2)
_N_OBSERVED = int(np.prod(_BLACKJACK_SHAPE))


def finite_mdp(env: gym.Env) -> FiniteMDP:
    """The environment's table; an error where there is none."""
    bare = env.unwrapped
    table = getattr(bare, "P", None)
    if table is not None:
        return FiniteMDP.from_table(table, getattr(bare, "initial_state_distrib", None))
    if type(bare).__name__ == "BlackjackEnv":
        return blackjack(sab=bare.sab, natural=bare.natural)  # pyright: ignore
    name = env.spec.id if env.spec else type(bare).__name__
    raise InvalidInputError(
        f"{name} has no transition table (env.unwrapped.P), so there is no exact solution: "
        "learn from transitions instead, with --samples N in place of --exact"
    )


def find_mdp(env: gym.Env) -> FiniteMDP | None:
    """The environment's table, or None where there is none."""
    try:
        return finite_mdp(env)
    except InvalidInputError:
        return None


def blackjack(*, sab: bool, natural: bool) -> FiniteMDP:
    """Gymnasium's Blackjack-v1, worked out from its rules (an endless deck).

    States are the observations (sum, dealer's card, usable ace) by index. Ten more, one for each card
    of the dealer, follow them: a hand dealt as ace and ten, which the rules may pay otherwise although
    the observation is the same.
    """
    table: list[list[list[Any]]] = []
    for index in range(_N_OBSERVED):
        total, dealer, ace = (int(i) for i in np.unravel_index(index, _BLACKJACK_SHAPE))
        if not (4 <= total <= 21 and dealer >= 1 and (not ace or total >= 12)):
            table.append([[(1.0, index, 0.0, True)]] * 2)  # never seen
            continue
        table.append([_stick(total, dealer, False, sab, natural), _hit(total, dealer, ace)])
    table += [[_stick(21, d, True, sab, natural), _hit(21, d, 1)] for d in range(1, 11)]
    return FiniteMDP.from_table(table, _blackjack_start())


def _stick(total: int, dealer: int, dealt: bool, sab: bool, natural: bool) -> list[Any]:
    outcomes: dict[float, float] = {}
    for (score, dealer_natural), p in _dealer_scores(dealer).items():
        reward = float((total > score) - (total < score))
        if sab and dealt and not dealer_natural:
            reward = 1.0
        elif not sab and natural and dealt and reward == 1.0:
            reward = 1.5
        outcomes[reward] = outcomes.get(reward, 0.0) + p
    return [(p, 0, reward, True) for reward, p in outcomes.items()]


def _hit(total: int, dealer: int, ace: int) -> list[Any]:
    rows = []
    for card, p in _CARDS.items():
        new, usable = _add(total, bool(ace), card)
        if new > 21:
            rows.append((p, 0, -1.0, True))
        else:
            rows.append((p, _index(new, dealer, usable), 0.0, False))
    return rows


def _add(total: int, usable: bool, card: int) -> tuple[int, bool]:
    """A hand's sum and whether an ace counts as 11, after one more card."""
    hard = total - 10 * usable + card
    has_ace = usable or card == 1
    return (hard + 10, True) if has_ace and hard + 10 <= 21 else (hard, False)


@lru_cache
def _dealer_scores(first: int) -> dict[tuple[int, bool], float]:
    """(score, natural) of the dealer, who draws to 17; a bust scores 0."""
    outcomes: dict[tuple[int, bool], float] = {}

    def play(total: int, usable: bool, n_cards: int, p: float) -> None:
        if n_cards >= 2 and total >= 17:
            score = (0 if total > 21 else total, n_cards == 2 and total == 21)
            outcomes[score] = outcomes.get(score, 0.0) + p
            return
        for card, q in _CARDS.items():
            play(*_add(total, usable, card), n_cards + 1, p * q)

    play(*_add(0, False, first), 1, 1.0)
    return outcomes


def _blackjack_start() -> np.ndarray:
    start = np.zeros(_N_OBSERVED + 10)
    for dealer, p in _CARDS.items():
        for first, q in _CARDS.items():
            for second, r in _CARDS.items():
                total, usable = _add(*_add(0, False, first), second)
                dealt = {first, second} == {1, 10}
                where = _N_OBSERVED + dealer - 1 if dealt else _index(total, dealer, usable)
                start[where] += p * q * r
    return start


def _index(total: int, dealer: int, usable: bool) -> int:
    return int(np.ravel_multi_index((total, dealer, int(usable)), _BLACKJACK_SHAPE))
