"""How far a long job is, on stderr."""

import sys
from collections.abc import Mapping
from types import TracebackType
from typing import Protocol, runtime_checkable

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as RichBar


@runtime_checkable
class Progress(Protocol):
    """Told of each chunk of steps."""

    def __enter__(self) -> "Progress": ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def update(self, step: int, n_steps: int, metrics: Mapping[str, float]) -> None:
        """`step` of `n_steps` are done, with these figures over the last chunk."""
        ...


class NoProgress:
    """Says nothing."""

    def __enter__(self) -> "NoProgress":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None

    def update(self, step: int, n_steps: int, metrics: Mapping[str, float]) -> None:
        """Nothing."""


class RichProgress:
    """A bar with steps, loss, elapsed time and time left."""

    def __init__(self, title: str) -> None:
        self._bar = RichBar(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("loss {task.fields[loss]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=Console(file=sys.stderr),
        )
        self._task = self._bar.add_task(title, total=None, loss="–")

    def __enter__(self) -> "RichProgress":
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def update(self, step: int, n_steps: int, metrics: Mapping[str, float]) -> None:
        """Move the bar and show the loss."""
        loss = f"{metrics['loss']:.4g}" if "loss" in metrics else "–"
        self._bar.update(self._task, completed=step, total=n_steps, loss=loss)
