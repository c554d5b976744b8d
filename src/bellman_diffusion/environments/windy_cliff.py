"""A cliff with wind: the short way along its edge is better on average, the long way is safer.

S is the start, G the goal, C the cliff:

    . . . . . .
    . . . . . .
    . . . . . .
    S C C C C G

Every step costs 1. With the chance `wind` a step is followed by a push down. The cliff costs `fall` and
ends the episode.
"""

from typing import Any

import gymnasium as gym
import numpy as np

WINDY_CLIFF = "bellman/WindyCliff-v0"
_ROWS, _COLUMNS = 4, 6
_MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))  # up, right, down, left


class WindyCliff(gym.Env):
    """A finite environment with its table in `P`, as Gymnasium's own have it."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 4}  # noqa: RUF012 (Gymnasium's own way)

    def __init__(
        self, wind: float = 0.015, fall: float = 30.0, render_mode: str | None = None
    ) -> None:
        self.wind, self.fall, self.render_mode = wind, fall, render_mode
        self.observation_space = gym.spaces.Discrete(_ROWS * _COLUMNS)
        self.action_space = gym.spaces.Discrete(len(_MOVES))
        self.P = {
            s: {a: self._outcomes(s, a) for a in range(len(_MOVES))}
            for s in range(_ROWS * _COLUMNS)
        }
        self.initial_state_distrib = np.eye(_ROWS * _COLUMNS)[_at(_ROWS - 1, 0)]
        self._state = _at(_ROWS - 1, 0)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        """To the start."""
        super().reset(seed=seed, options=options)
        self._state = _at(_ROWS - 1, 0)
        return self._state, {}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """One outcome of the table."""
        outcomes = self.P[self._state][int(action)]
        chosen = self.np_random.choice(len(outcomes), p=[p for p, *_ in outcomes])
        _, self._state, reward, done = outcomes[chosen]
        return self._state, reward, done, False, {}

    def render(self) -> np.ndarray:
        """The grid: cliff dark, goal green, the walker red."""
        picture = np.full((_ROWS, _COLUMNS, 3), 235, np.uint8)
        picture[_ROWS - 1, 1:-1] = 60
        picture[_ROWS - 1, -1] = (90, 170, 90)
        picture[divmod(self._state, _COLUMNS)] = (200, 70, 50)
        return picture.repeat(40, axis=0).repeat(40, axis=1)

    def _outcomes(self, state: int, action: int) -> list[tuple[float, int, float, bool]]:
        row, column = divmod(state, _COLUMNS)
        if _kind(row, column) != "free":
            return [(1.0, state, 0.0, True)]
        row, column = _moved(row, column, _MOVES[action])
        calm = (1 - self.wind, *self._arrived(row, column))
        if _kind(row, column) != "free":
            return [(1.0, *calm[1:])]
        return [calm, (self.wind, *self._arrived(*_moved(row, column, (1, 0))))]

    def _arrived(self, row: int, column: int) -> tuple[int, float, bool]:
        kind = _kind(row, column)
        return _at(row, column), -self.fall if kind == "cliff" else -1.0, kind != "free"


def _moved(row: int, column: int, move: tuple[int, int]) -> tuple[int, int]:
    return (min(max(row + move[0], 0), _ROWS - 1), min(max(column + move[1], 0), _COLUMNS - 1))


def _at(row: int, column: int) -> int:
    return row * _COLUMNS + column


def _kind(row: int, column: int) -> str:
    if row < _ROWS - 1 or column == 0:
        return "free"
    return "goal" if column == _COLUMNS - 1 else "cliff"


gym.register(WINDY_CLIFF, f"{__name__}:WindyCliff", max_episode_steps=100)
