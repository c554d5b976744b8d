"""A run's folder: config.json, metrics.jsonl, TensorBoard events, the last checkpoint, figures."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from bellman_diffusion.errors import BellmanError, InvalidInputError
from bellman_diffusion.training.checkpoint import Header, read_checkpoint, write_checkpoint
from bellman_diffusion.training.files import write_atomically, write_json

_KIND = "training state"
Tree = TypeVar("Tree")


class StateHeader(Header, frozen=True, kw_only=True):
    """How far a training state is."""

    step: int


class RunFolder:
    """One training run on disk; opening it again with the same configuration goes on with it."""

    def __init__(self, path: str | os.PathLike[str], config: Mapping[str, Any]) -> None:
        self.path = Path(path)
        self._config = json.loads(json.dumps(dict(config)))
        self._check_config()
        self._metrics: Any = None
        self._board: Any = None

    def make(self) -> None:
        """The folder with its configuration: not before there is something to keep in it."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BellmanError(f"cannot make {self.path}: {error.strerror or error}") from error
        write_json(self.path / "config.json", self._config)

    @property
    def checkpoint_path(self) -> Path:
        """Where the last good state is kept."""
        return self.path / "checkpoint.bellman"

    def restore(self, state: Tree) -> tuple[Tree, int]:
        """The last checkpoint and its step, or the given state and 0 where there is none."""
        if not self.checkpoint_path.exists():
            return state, 0
        restored, header = read_checkpoint(
            self.checkpoint_path, _KIND, StateHeader, lambda _: state
        )
        return restored, header.step

    def open(self, step: int) -> dict[str, float]:
        """Start logging after `step` and return the last figures up to it.

        Figures of later steps, from a lost chunk, are dropped.
        """
        self.make()
        metrics = self.path / "metrics.jsonl"
        rows = metrics.read_text().splitlines() if metrics.exists() else []
        kept = [row for row in rows if _step_of(row) <= step]
        write_atomically(metrics, "".join(f"{row}\n" for row in kept).encode())
        self._metrics = metrics.open("a")
        from tensorboardX import SummaryWriter  # noqa: PLC0415 (slow to import)

        self._board = SummaryWriter(str(self.path / "tensorboard"), purge_step=step + 1)
        last = json.loads(kept[-1]) if kept else {}
        return {name: value for name, value in last.items() if name != "step"}

    def rows(self) -> list[dict[str, Any]]:
        """All that was logged, in order."""
        metrics = self.path / "metrics.jsonl"
        lines = metrics.read_text().splitlines() if metrics.exists() else []
        return [json.loads(line) for line in lines]

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """One row of metrics.jsonl and the same to TensorBoard."""
        assert self._board is not None, "open() first"
        self._metrics.write(json.dumps({"step": step, **metrics}) + "\n")
        self._metrics.flush()
        for name, value in metrics.items():
            self._board.add_scalar(name, value, step)

    def save(self, step: int, state: Any) -> None:
        """Replace the checkpoint by this state."""
        write_checkpoint(self.checkpoint_path, _KIND, state, StateHeader(step=step))

    def close(self) -> None:
        """Flush and close the logs."""
        if self._board is not None:
            self._metrics.close()
            self._board.close()
            self._board = None

    def _check_config(self) -> None:
        found = read_config(self.path)
        if found is None:
            return
        keys = sorted(found.keys() | self._config.keys())
        other = [key for key in keys if found.get(key) != self._config.get(key)]
        if other:
            changes = ", ".join(f"{k}: {found.get(k)} → {self._config.get(k)}" for k in other)
            raise InvalidInputError(
                f"{self.path} holds a run with another configuration ({changes}). "
                "Choose another folder, or remove this one to start again."
            )


def read_config(folder: str | os.PathLike[str]) -> dict[str, Any] | None:
    """The configuration of a run's folder, or None where there is no run."""
    path = Path(folder) / "config.json"
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except NotADirectoryError as error:
        raise InvalidInputError(f"{folder} is a file, or within one: name a folder") from error
    except OSError as error:
        raise BellmanError(f"cannot read {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise BellmanError(f"{path} is damaged; remove {folder} to start again") from error
    if not isinstance(found, dict):
        raise InvalidInputError(f"{folder} holds no run of bellman: choose another folder")
    return found


def _step_of(row: str) -> float:
    # A row cut off by a kill is dropped.
    try:
        return json.loads(row)["step"]
    except (ValueError, KeyError, TypeError):
        return float("inf")
