"""The models of the planning benchmark; NumPy alone, so that peers read them too."""

from typing import NamedTuple

import numpy as np

# Bounds on the accumulated reward that Storm is asked about.
BOUNDS = (0, 5, 10, 20, 30, 40, 60, 80, 100, 150, 200, 300)
TOLERANCE = 1e-9
MEANS_GAMMA = 0.95


class Rows(NamedTuple):
    """Each row: in `state`, `action` leads with `probability` to `next_state` with `reward`."""

    n_states: int
    n_actions: int
    state: np.ndarray
    action: np.ndarray
    probability: np.ndarray
    next_state: np.ndarray
    reward: np.ndarray
    done: np.ndarray
    start: np.ndarray


def lake(board: np.ndarray) -> Rows:
    """FrozenLake-v1 (slippery) of a board of S, F, H and G, without a loop over its states."""
    size, n = board.shape[0], board.size
    ends = ((board == "H") | (board == "G")).ravel()
    goal = (board == "G").ravel()
    s = np.arange(n)
    row, column = s // size, s % size
    # Left, down, right, up.
    target = np.stack(
        [
            row * size + np.maximum(column - 1, 0),
            np.minimum(row + 1, size - 1) * size + column,
            row * size + np.minimum(column + 1, size - 1),
            np.maximum(row - 1, 0) * size + column,
        ],
        axis=1,
    )
    going_on, over = s[~ends], s[ends]
    # The intended direction and the two at right angles to it.
    moves = (np.arange(4)[:, None] + np.array([-1, 0, 1])) % 4
    reached = target[going_on][:, moves].ravel()
    return Rows(
        n_states=n,
        n_actions=4,
        state=np.concatenate([np.repeat(going_on, 12), np.repeat(over, 4)]),
        action=np.concatenate(
            [np.tile(np.repeat(np.arange(4), 3), len(going_on)), np.tile(np.arange(4), len(over))]
        ),
        probability=np.concatenate([np.full(len(reached), 1 / 3), np.ones(4 * len(over))]),
        next_state=np.concatenate([reached, np.repeat(over, 4)]),
        reward=np.concatenate([goal[reached].astype(float), np.zeros(4 * len(over))]),
        done=np.concatenate([ends[reached], np.ones(4 * len(over), bool)]),
        start=(board == "S").ravel().astype(float),
    )


def random_board(size: int, seed: int = 0) -> np.ndarray:
    """Holes with probability 0.2; start and goal in opposite corners.

    Far from the goal a return is next to nothing: most states of a large board are easy.
    """
    board = np.where(np.random.default_rng(seed).uniform(size=(size, size)) < 0.2, "H", "F")
    board[0, 0], board[-1, -1] = "S", "G"
    return board


def board_of_goals(size: int, seed: int = 0) -> np.ndarray:
    """A hole in a hundred places, a goal in four hundred: the return of every state is uncertain."""
    u = np.random.default_rng(seed).uniform(size=(size, size))
    board = np.where(u < 0.01, "H", np.where(u > 1 - 0.0025, "G", "F"))
    board[0, 0] = "S"
    return board


def normal_chain(n_states: int = 5_000, n_next: int = 4, seed: int = 0) -> Rows:
    """An endless chain with a different standard normal reward on every transition."""
    rng = np.random.default_rng(seed)
    n_rows = n_states * n_next
    return Rows(
        n_states=n_states,
        n_actions=1,
        state=np.repeat(np.arange(n_states), n_next),
        action=np.zeros(n_rows, int),
        probability=rng.dirichlet(np.ones(n_next), size=n_states).ravel(),
        next_state=rng.integers(n_states, size=n_rows),
        reward=rng.normal(size=n_rows),
        done=np.zeros(n_rows, bool),
        start=np.full(n_states, 1 / n_states),
    )


def random_mdp(n_states: int = 10_000, n_actions: int = 4, n_next: int = 5, seed: int = 0) -> Rows:
    """Random successors of every state and action, which share one reward in [0, 1]; no ends."""
    rng = np.random.default_rng(seed)
    n_pairs = n_states * n_actions
    # Distinct successors: the same random offsets from a random base.
    base = rng.integers(n_states, size=(n_pairs, 1))
    offset = np.sort(rng.choice(n_states, size=n_next, replace=False))
    return Rows(
        n_states=n_states,
        n_actions=n_actions,
        state=np.repeat(np.arange(n_states), n_actions * n_next),
        action=np.tile(np.repeat(np.arange(n_actions), n_next), n_states),
        probability=rng.dirichlet(np.ones(n_next), size=n_pairs).ravel(),
        next_state=((base + offset) % n_states).ravel(),
        reward=np.repeat(rng.uniform(size=n_pairs), n_next),
        done=np.zeros(n_pairs * n_next, bool),
        start=np.full(n_states, 1 / n_states),
    )


def integer_chain(n_states: int = 3_000, n_next: int = 4, seed: int = 0) -> Rows:
    """Every state pays 0, 1, 2 or 3 when it is left; episodes end with probability 0.02 a step.

    The last state is the end: it is reached by rows that are done, and pays nothing.
    """
    rng = np.random.default_rng(seed)
    inner = n_states - 1
    next_state = rng.integers(inner, size=(inner, n_next))
    probability = 0.98 * rng.dirichlet(np.ones(n_next), size=inner)
    reward = rng.integers(4, size=inner).astype(float)
    columns = n_next + 1
    end = np.full((inner, 1), inner)
    return Rows(
        n_states=n_states,
        n_actions=1,
        state=np.append(np.repeat(np.arange(inner), columns), inner),
        action=np.zeros(inner * columns + 1, int),
        probability=np.append(np.hstack([probability, np.full((inner, 1), 0.02)]), 1.0),
        next_state=np.append(np.hstack([next_state, end]), inner),
        reward=np.append(np.repeat(reward, columns), 0.0),
        done=np.append(np.tile(np.arange(columns) == n_next, inner), True),
        start=(np.arange(n_states) == 0).astype(float),
    )
