"""Finite models from files: NPZ archives, and the explicit formats of PRISM and Storm.

- `.npz`: the rows of a model (`save_model` writes them), or a SciPy sparse matrix for each action under
  `P0_data`, `P0_indices`, `P0_indptr`, `P1_data`, … with `reward`: one number for each state, or for
  each state and action. `start` (probabilities) and `terminal` (flags) are optional.
- `.tra`, with `.srew`, `.trew` and `.lab` next to it where they exist: what `prism -exportmodel` and
  Storm write. Episodes start in the states labelled `init`.

States that are left for no other and pay nothing are terminal.
"""

import io
import re
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse

from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.returns.mdp import FiniteMDP
from bellman_diffusion.training.files import write_atomically

_ENDINGS = (".npz", ".tra")
_ROWS = ("state", "action", "probability", "next_state", "reward", "done", "start")


def is_model_file(name: str) -> bool:
    """Whether this names a file of a model, not an environment."""
    return name.endswith(_ENDINGS)


def read_model(path: Path) -> FiniteMDP:
    """The model in a file."""
    if not path.exists():
        raise InvalidInputError(f"{path}: there is no such file")
    return _read_archive(path) if path.suffix == ".npz" else _read_explicit(path)


def save_model(path: Path, mdp: FiniteMDP) -> None:
    """Write the rows of a model as an NPZ archive."""
    content = io.BytesIO()
    sizes = {"n_states": mdp.n_states, "n_actions": mdp.n_actions}
    np.savez_compressed(content, **sizes, **{name: getattr(mdp, name) for name in _ROWS})
    write_atomically(path, content.getvalue())


def model_from_matrices(
    transitions: Sequence[Any],
    rewards: Any,
    *,
    terminal: Any = None,
    start: Any = None,
    name: str = "the model",
) -> FiniteMDP:
    """A model from a matrix of transition probabilities for each action (SciPy sparse or dense).

    `rewards`: one for each state, for each state and action, or a sequence of matrices like the
    transitions.
    """
    matrices: list[Any] = [scipy.sparse.csr_array(p) for p in transitions]
    n = matrices[0].shape[0]
    for a, matrix in enumerate(matrices):
        if matrix.shape != (n, n):
            raise InvalidInputError(
                f"{name}: the matrix of action {a} has the shape {matrix.shape}, not {(n, n)}"
            )
    parts = []
    for a, matrix in enumerate(matrices):
        rows = matrix.tocoo()
        state, next_state = (np.asarray(i, np.int64) for i in rows.coords)
        probability = np.asarray(rows.data, float)
        reward = _rewards_of(rewards, a, state, next_state, (n, len(matrices)), name)
        parts.append((state, np.full(len(state), a), probability, next_state, reward))
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    return _finish(n, len(matrices), *columns, terminal=terminal, start=start, name=name)


def _rewards_of(
    rewards: Any,
    a: int,
    state: np.ndarray,
    next_state: np.ndarray,
    sizes: tuple[int, int],
    name: str,
) -> np.ndarray:
    n, n_actions = sizes
    if isinstance(rewards, list | tuple) and len(rewards) == n_actions and np.ndim(rewards[0]) != 1:
        return np.asarray(scipy.sparse.csr_array(rewards[a])[state, next_state]).reshape(-1)
    table = np.asarray(rewards, float)
    if table.shape == (n,):
        return table[state]
    if table.shape == (n, n_actions):
        return table[state, a]
    raise InvalidInputError(
        f"{name}: rewards have the shape {table.shape}; give one for each of the {n} states, for each "
        f"state and action ({n}, {n_actions}), or a matrix for each action"
    )


def _finish(
    n: int,
    n_actions: int,
    state: np.ndarray,
    action: np.ndarray,
    probability: np.ndarray,
    next_state: np.ndarray,
    reward: np.ndarray,
    *,
    terminal: Any,
    start: Any,
    name: str,
) -> FiniteMDP:
    """Check the rows; those that lead to a terminal state end the episode."""
    ends = np.zeros(n, bool) if terminal is None else np.asarray(terminal, bool).reshape(n)
    stays = np.bincount(state, (next_state == state) & (reward == 0), n)
    ends |= (stays > 0) & (stays == np.bincount(state, minlength=n))
    # A terminal state is over at once, wherever its own rows lead.
    over = ends[state]
    reward = np.where(over, 0.0, reward)
    return FiniteMDP.checked(
        n, n_actions, state, action, probability, np.where(over, state, next_state), reward[:, None],
        over | ends[next_state], start, name,
    )  # fmt: skip


def _read_archive(path: Path) -> FiniteMDP:
    try:
        with np.load(path, allow_pickle=False) as archive:
            content = dict(archive)
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise InvalidInputError(f"{path} is not an NPZ archive of arrays: {error}") from error
    if "P0_data" not in content:
        missing = [key for key in (*_ROWS[:-1], "n_states", "n_actions") if key not in content]
        if missing:
            raise InvalidInputError(
                f"{path} lacks {', '.join(missing)}: give the rows of a model, or a sparse matrix for "
                "each action (P0_data, P0_indices, P0_indptr, …) and reward"
            )
        reward = np.asarray(content["reward"], float)
        content["reward"] = reward if reward.ndim == 2 else reward[:, None]
        sizes = {key: int(content[key]) for key in ("n_states", "n_actions")}
        rows: dict[str, Any] = {key: content.get(key) for key in _ROWS}
        return FiniteMDP.checked(**sizes, **rows, name=str(path))
    try:
        parts = ("data", "indices", "indptr")
        n_actions = sum(key.endswith("_data") for key in content)
        shape = (len(content["P0_indptr"]) - 1,) * 2
        matrices = [
            scipy.sparse.csr_array(tuple(content[f"P{a}_{part}"] for part in parts), shape=shape)
            for a in range(n_actions)
        ]
        return model_from_matrices(
            matrices,
            content["reward"],
            terminal=content.get("terminal"),
            start=content.get("start"),
            name=str(path),
        )
    except (KeyError, ValueError) as error:
        raise InvalidInputError(f"{path} cannot be read as a model: {error}") from error


def _read_explicit(path: Path) -> FiniteMDP:
    header, table = _table(path, 2)
    n, is_mdp = int(header[0]), len(header) >= 3
    columns = 4 if is_mdp else 3
    if table.shape[1] < columns:
        raise InvalidInputError(f"{path}: {columns} columns are needed, it has {table.shape[1]}")
    state, *middle, next_state, probability = (table[:, i] for i in range(columns))
    state, next_state = state.astype(np.int64), next_state.astype(np.int64)
    action = middle[0].astype(np.int64) if middle else np.zeros(len(state), np.int64)
    reward = np.zeros(len(state))
    if (file := path.with_suffix(".srew")).exists():
        of_state = np.zeros(n)
        rows = _table(file, 2)[1]
        of_state[rows[:, 0].astype(int)] = rows[:, 1]
        reward += of_state[state]
    if (file := path.with_suffix(".trew")).exists():
        rows = _table(file, 2)[1]
        keys = [tuple(int(v) for v in row[:-1]) for row in rows]
        of_row = dict(zip(keys, rows[:, -1], strict=True))
        own = (
            zip(state, action, next_state, strict=True)
            if is_mdp
            else zip(state, next_state, strict=True)
        )
        reward += [of_row.get(tuple(int(v) for v in key), 0.0) for key in own]
    labels = _labels(path.with_suffix(".lab"), n)
    start = labels.get("init")
    n_actions = int(action.max(initial=0)) + 1
    return _finish(
        n, n_actions, state, action, probability, next_state, reward, terminal=labels.get("done"),
        start=None if start is None else start / start.sum(), name=str(path),
    )  # fmt: skip


def _table(path: Path, n_header: int) -> tuple[list[str], np.ndarray]:
    """The sizes in the first line, and the numbers of the others; comments and names are left out."""
    lines = path.read_text().splitlines()
    lines = [line for line in lines if line.strip() and not line.startswith("#")]
    header = lines[0].split() if lines else []
    if len(header) < n_header or not all(word.isdigit() for word in header):
        raise InvalidInputError(f"{path}: the first line must have the numbers of states and rows")
    try:
        frame = pd.DataFrame([line.split() for line in lines[1:]])
        numbers = frame.apply(pd.to_numeric, errors="coerce").dropna(axis=1, how="all")
        return header, numbers.to_numpy(float)
    except ValueError as error:
        raise InvalidInputError(f"{path}: {error}") from error


def _labels(path: Path, n: int) -> dict[str, np.ndarray]:
    """Which states have each label."""
    if not path.exists():
        return {}
    first, *lines = path.read_text().splitlines()
    names = dict(re.findall(r'(\d+)="([^"]*)"', first))
    labels = {name: np.zeros(n) for name in names.values()}
    for line in lines:
        state, _, numbers = line.partition(":")
        for number in numbers.split():
            labels[names[number]][int(state)] = 1
    return labels
