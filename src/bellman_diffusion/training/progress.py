"""How far a long job is, on stderr."""

import sys
import time
from collections.abc import Mapping, Sequence
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

    def __exit__(self, *error: object) -> None: ...

    def update(self, step: int, n_steps: int, metrics: Mapping[str, float]) -> None:
        """`step` of `n_steps` are done, with these figures over the last chunk."""
        ...


class NoProgress:
    """Says nothing."""

    def __enter__(self) -> "NoProgress":
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def update(self, step: int, n_steps: int, metrics: Mapping[str, float]) -> None:
        """Nothing."""


class RichProgress:
    """A bar with steps, a few figures, perhaps their rate, elapsed time and time left."""

    def __init__(
        self, title: str, shown: Sequence[str] = ("loss",), rate: str | None = None
    ) -> None:
        self._shown = tuple(shown)
        speed = [TextColumn("{task.fields[rate]}")] if rate else []
        self._rate = rate
        self._bar = RichBar(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}"),
            *speed,
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=Console(file=sys.stderr),
        )
        self._task = self._bar.add_task(title, total=None, figures=self._text({}), rate="")
        self._start: tuple[float, int] | None = None

    def __enter__(self) -> "RichProgress":
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def update(self, step: int, n_steps: int, metrics: Mapping[str, float]) -> None:
        """Move the bar and show the figures."""
        now = time.monotonic()
        rate = ""
        if self._start is None:
            self._start = (now, step)
        elif now > self._start[0]:
            rate = f"{(step - self._start[1]) / (now - self._start[0]):,.0f} {self._rate}"
        self._bar.update(
            self._task, completed=step, total=n_steps, figures=self._text(metrics), rate=rate
        )

    def _text(self, metrics: Mapping[str, float]) -> str:
        values = (f"{metrics[name]:.4g}" if name in metrics else "–" for name in self._shown)
        return "  ".join(f"{n} {v}" for n, v in zip(self._shown, values, strict=True))


def progress_bar(title: str, *, quiet: bool, shown: Sequence[str] = ("loss",)) -> Progress:
    """A bar on stderr, or none."""
    return NoProgress() if quiet else RichProgress(title, shown)


def training_bar(title: str) -> RichProgress:
    """The bar of some agents' training."""
    return RichProgress(title, ("return", "loss"), "steps/s each")
