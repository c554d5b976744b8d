"""Logged transitions: NPZ, CSV or Parquet files, Minari datasets, arrays; checked row by row."""

import hashlib
import importlib
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.planning.transitions import Transitions
from bellman_diffusion.returns.observations import finite_shape, to_row

# What a column may be called in the logs of Minari, D4RL, Gymnasium and Stable-Baselines3.
NAMES = {
    "observation": ("observation", "observations", "obs", "state", "states"),
    "action": ("action", "actions", "act", "acts"),
    "reward": ("reward", "rewards"),
    "next_observation": (
        "next_observation", "next_observations", "next_obs", "next_state", "next_states"
    ),
    "terminated": ("terminated", "terminations", "terminal", "terminals", "done", "dones"),
    "truncated": ("truncated", "truncations", "timeout", "timeouts"),
    "episode": ("episode", "episodes", "episode_id", "episode_ids"),
}  # fmt: skip
_FORMATS = (".npz", ".csv", ".parquet")


class Log(NamedTuple):
    """Transitions in the order of their episodes, and the spaces of their observations and actions."""

    transitions: Transitions
    space: gym.Space
    action: Float[np.ndarray, "n d"] | None = None
    """What was done in each row, where the log tells it."""
    action_space: gym.Space | None = None

    @classmethod
    def of(
        cls,
        observation: Any,
        reward: Any,
        next_observation: Any = None,
        terminated: Any = None,
        truncated: Any = None,
        episode: Any = None,
        action: Any = None,
        name: str = "the transitions",
    ) -> "Log":
        """From arrays with a row for each step; whole numbers as observations are states of a table.

        Without `next_observation` it is the observation of the episode's next row.
        """
        if terminated is None:
            raise InvalidInputError(
                f"{name}: nothing tells which steps end an episode. Give `terminated` (a column called "
                f"{', '.join(NAMES['terminated'])}), all 0 where none does"
            )
        now = _observations(observation, "observation", name)
        n = len(now)
        rewards, ends, cut = (
            np.zeros(n) if a is None else _numbers(a, n, key, name)
            for key, a in (("reward", reward), ("terminated", terminated), ("truncated", truncated))
        )
        ends = ends > 0
        over = ends | (cut > 0)
        if episode is not None:
            over |= _last_rows(np.asarray(episode), n, name)
        over[-1] = True
        if next_observation is None:
            later = np.concatenate([now[1:], now[-1:]])
            # What followed the last row of a truncated episode is not known: the row goes.
            kept = ~over | ends
            over[:-1] |= ~kept[1:]
        else:
            later = _observations(next_observation, "next_observation", name)
            told = truncated is not None or episode is not None
            later, over = _checked_next(now, later, ends, over, told, name)
            kept = np.ones(n, bool)
        if not kept.any():
            raise InvalidInputError(f"{name}: no transition is left; give `next_observation`")
        rows = [a[kept].astype(np.float32) for a in (now, rewards, later, ends, over)]
        shape = (len(rows[0]), -1) if now.ndim < 4 else rows[0].shape
        rows[0], rows[2] = rows[0].reshape(shape), rows[2].reshape(shape)
        log = cls(Transitions(*rows), _space(now, later))
        if action is None:
            return log
        if len(action) != n:
            raise InvalidInputError(f"{name}: {len(action)} actions for {n} rows")
        return log.with_actions(np.asarray(action)[kept], name)

    def with_actions(self, action: Any, name: str) -> "Log":
        """Whole numbers are those of a discrete space, all else is a box."""
        array = _observations(action, "action", name)
        n = len(self.transitions)
        if len(array) != n:
            raise InvalidInputError(f"{name}: {len(array)} actions for {n} rows")
        rows = array.reshape(n, -1)
        if rows.shape[1] == 1 and array.dtype.kind in "biu" and rows.min() >= 0:
            space: gym.Space = gym.spaces.Discrete(int(rows.max()) + 1)
        else:
            space = gym.spaces.Box(-np.inf, np.inf, (rows.shape[1],))
        return self._replace(action=rows.astype(np.float32), action_space=space)

    def digest(self) -> str:
        """Of all that is in it: a run goes on with its own log alone."""
        found = hashlib.sha256()
        for array in (*self.transitions, *([] if self.action is None else [self.action])):
            found.update(np.ascontiguousarray(array).tobytes())
        return found.hexdigest()[:16]

    def split(self, share: float, seed: int) -> tuple[Transitions, Transitions]:
        """Episodes to learn from, and a share of them, drawn at random, that are held out."""
        ended = self.transitions.ended > 0
        number = np.concatenate([[0], np.cumsum(ended[:-1])])
        n_episodes = int(number[-1]) + 1
        n_out = int(share * n_episodes)
        out = np.random.default_rng(seed).choice(n_episodes, n_out, replace=False)
        apart = np.isin(number, out)
        return tuple(  # pyright: ignore[reportReturnType]
            Transitions(*(a[rows] for a in self.transitions)) for rows in (~apart, apart)
        )


def read_log(source: str, columns: Mapping[str, str] | None = None) -> Log:
    """A file of transitions, or a Minari dataset by its id or folder; `columns` name what is where."""
    path = Path(source)
    unknown = set(columns or {}) - set(NAMES)
    if unknown:
        raise InvalidInputError(
            f"--column {sorted(unknown)[0]}: choose {', '.join(NAMES)}, as in reward=r"
        )
    if path.suffix.lower() not in _FORMATS:
        return _from_minari(source)
    table = _read(path)
    found = {key: _find(table, key, dict(columns or {}).get(key), source) for key in NAMES}
    for key in ("observation", "reward"):
        if found[key] is None:
            raise InvalidInputError(
                f"{source} has no {key}: its columns are {', '.join(table)}. Name the column by "
                f"--column {key}=NAME"
            )
    return Log.of(**found, name=source)


def _read(path: Path) -> dict[str, Any]:
    """Columns, or arrays, by name."""
    try:
        if path.suffix.lower() == ".npz":
            with np.load(path, allow_pickle=False) as archive:
                return {name: archive[name] for name in archive.files}
        read = pd.read_csv if path.suffix.lower() == ".csv" else pd.read_parquet
        frame = read(path)
        return {str(name): frame[name].to_numpy() for name in frame}
    except (
        OSError, ValueError, KeyError, TypeError, AttributeError, zipfile.BadZipFile,
        pd.errors.ParserError,
    ) as error:  # fmt: skip
        raise InvalidInputError(f"{path} cannot be read as a log: {error}") from error


def _find(table: Mapping[str, Any], key: str, given: str | None, source: str) -> Any:
    """One column, or numbered ones such as obs_0, obs_1."""
    lower = {name.lower(): name for name in table}
    for name in [given.lower()] if given else NAMES[key]:
        if name in lower:
            return table[lower[name]]
        parts = [f"{name}_{i}" for i in range(len(table)) if f"{name}_{i}" in lower]
        if parts:
            return np.column_stack([table[lower[part]] for part in parts])
    if given:
        raise InvalidInputError(
            f"{source} has no column {given}: its columns are {', '.join(table)}"
        )
    return None


def _from_minari(source: str) -> Log:
    try:
        minari = importlib.import_module("minari")
    except ImportError as error:
        raise InvalidInputError(
            f"{source} is neither {', '.join(_FORMATS)}; for a Minari dataset install that package "
            "(pip install 'minari[hdf5]')"
        ) from error
    try:
        if Path(source).is_dir():
            folder = Path(source)
            data = folder if (folder / "metadata.json").exists() else folder / "data"
            dataset = importlib.import_module("minari.dataset.minari_dataset").MinariDataset(data)
        else:
            dataset = minari.load_dataset(source)
    except Exception as error:  # (whatever Minari raises: no such data set, no storage)
        raise InvalidInputError(f"{source} cannot be read as a Minari dataset: {error}") from error
    space, parts = dataset.observation_space, []
    for episode in dataset.iterate_episodes():
        rows = _rows_of(space, episode.observations, len(episode.rewards) + 1)
        over = np.zeros(len(episode.rewards))
        over[-1] = 1
        columns = (rows[:-1], episode.rewards, rows[1:], episode.terminations, over)
        parts.append((*columns, episode.actions))
    if not parts:
        raise InvalidInputError(f"{source} has no episodes")
    *rows, action = (np.concatenate(column) for column in zip(*parts, strict=True))
    log = Log(Transitions(*(a.astype(np.float32) for a in rows)), space)
    _finite(log.transitions.reward, "reward", source)
    # Tuples and dictionaries of actions are for on-policy evaluation alone.
    return log if action.dtype == object else log.with_actions(action, source)


def _rows_of(space: gym.Space, observations: Any, n: int) -> np.ndarray:
    """The rows of an episode of Minari: dictionaries and tuples hold an array for each part."""

    def one(part: Any, i: int) -> Any:
        if isinstance(part, dict):
            return {key: one(value, i) for key, value in part.items()}
        return tuple(one(value, i) for value in part) if isinstance(part, tuple) else part[i]

    return np.stack([to_row(space, one(observations, i)) for i in range(n)])


def _observations(values: Any, key: str, name: str) -> np.ndarray:
    array = np.asarray(values)
    try:
        if array.dtype == object:
            array = np.stack([np.asarray(v, np.float32) for v in array])
        elif array.dtype.kind not in "biuf":
            raise ValueError("not numbers")
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"{name}: {key} is not an array of numbers of one shape: {error}"
        ) from error
    if len(array) == 0:
        raise InvalidInputError(f"{name}: there are no rows")
    _finite(array.reshape(len(array), -1).sum(axis=1), key, name)
    return array


def _numbers(values: Any, n: int, key: str, name: str) -> Float[np.ndarray, " n"]:
    try:
        array = np.asarray(values).astype(float)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"{name}: {key} is not a column of numbers: {error}") from error
    if array.shape != (n,):
        raise InvalidInputError(
            f"{name}: {key} has the shape {array.shape}; a number is needed for each of {n} rows"
        )
    _finite(array, key, name)
    return array


def _finite(values: np.ndarray, key: str, name: str) -> None:
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        raise InvalidInputError(f"{name}: {key} of row {bad[0]} is not a finite number")


def _checked_next(
    now: np.ndarray,
    later: np.ndarray,
    ends: Bool[np.ndarray, " n"],
    over: Bool[np.ndarray, " n"],
    told: bool,
    name: str,
) -> tuple[np.ndarray, Bool[np.ndarray, " n"]]:
    """Next observations that mean something, and where episodes are over: also where rows jump.

    Where the log has `told` where its episodes end, a jump elsewhere is an error.
    """
    if later.shape != now.shape:
        raise InvalidInputError(
            f"{name}: observations have the shape {now.shape}, next observations {later.shape}"
        )
    # What stands there at an end, such as -1, is no observation.
    later = np.where(ends.reshape(-1, *[1] * (now.ndim - 1)), now, later)
    apart = (later[:-1] != now[1:]).reshape(len(now) - 1, now[0].size)
    jump = ~over[:-1] & np.any(apart, axis=1)
    if jump.any() and told:
        row = int(np.argmax(jump))
        raise InvalidInputError(
            f"{name}: row {row} goes on to another observation than the one that row {row + 1} "
            "starts from, and no episode ends there: episodes overlap. Sort the rows by "
            "episode and step"
        )
    return later, over | np.append(jump, False)


def _last_rows(episode: np.ndarray, n: int, name: str) -> Bool[np.ndarray, " n"]:
    """Where the number of the episode changes; no number may come back."""
    if episode.shape != (n,):
        raise InvalidInputError(f"{name}: {n} rows need as many episode numbers")
    change = np.flatnonzero(episode[1:] != episode[:-1])
    first = episode[np.concatenate([[0], change + 1])].astype(str)
    values, counts = np.unique(first, return_counts=True)
    if (counts > 1).any():
        raise InvalidInputError(
            f"{name}: the rows of episode {values[np.argmax(counts > 1)]} are not together: episodes "
            "overlap. Sort the rows by episode and step"
        )
    last = np.zeros(n, bool)
    last[change] = True
    return last


def _space(now: np.ndarray, later: np.ndarray) -> gym.Space:
    """Whole numbers are states of a table, all else is a box."""
    flat = now.reshape(len(now), -1)
    if flat.shape[1] == 1 and now.dtype.kind in "biu":
        if min(now.min(), later.min()) < 0:
            return gym.spaces.Box(-np.inf, np.inf, (1,))
        table = gym.spaces.Discrete(int(max(now.max(), later.max())) + 1)
        return table if finite_shape(table) else gym.spaces.Box(-np.inf, np.inf, (1,))
    shape = now.shape[1:] if now.ndim == 4 else (flat.shape[1],)
    return gym.spaces.Box(-np.inf, np.inf, shape)
