"""Run one experiment, or all of the paper's."""

import json
import time
from collections.abc import Callable, Collection
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from bellman_diffusion.errors import BellmanError
from bellman_diffusion.paper.experiment import Experiment, Options, Workplace, all_experiments
from bellman_diffusion.render.page import Section, write_page
from bellman_diffusion.training.files import write_json

_RUNS = "all.json"


class Run(msgspec.Struct, kw_only=True, omit_defaults=True):
    """How the results of an experiment were made."""

    command: str
    version: str
    seconds: float | None = None
    """How long it took; None where it has not ended."""
    spent: float = 0.0
    """What a stopped run took so far."""
    error: str | None = None

    def is_like(self, other: "Run") -> bool:
        """Whether the same command of the same release makes both."""
        return (self.command, self.version) == (other.command, other.version)


def run_experiment(
    experiment: Experiment[Any], options: Options, work: Workplace
) -> tuple[Any, Path]:
    """Run what is missing; write the summary, the pictures and `report.html`."""
    summary = experiment.run(options, work)
    write_json(experiment.file(work.out), summary.to_json())
    sections: list[Section] = experiment.sections(summary, work.figures)
    command = experiment.command(options)
    return summary, write_page(work.out / "report.html", experiment.title, command, sections)


def read_summary(experiment: Experiment[Any], folder: Path) -> Any | None:
    """What a run wrote, or None where there is nothing."""
    path = experiment.file(folder)
    if not path.exists():
        return None
    try:
        return experiment.summary.from_json(json.loads(path.read_text()))
    except (ValueError, msgspec.ValidationError) as error:
        raise BellmanError(f"{path} cannot be read: {error}. Run it again.") from error


def run_paper(
    out: Path, wanted: Collection[str], *, quick: bool, shift: int, quiet: bool
) -> tuple[dict[str, Any], dict[str, Run]]:
    """The wanted experiments of the paper; results of this release and these options are kept.

    Returns the summaries that belong to these options, and how each was made.
    """
    runs = read_runs(out)
    summaries: dict[str, Any] = {}
    for experiment in [e for e in all_experiments() if e.in_paper]:
        options, folder = experiment.options_of(quick, shift), out / experiment.name
        how = Run(command=experiment.command(options), version=version("bellman-diffusion"))
        known = runs.get(experiment.name)
        # What a run with other options left is not this one's.
        if known is not None and known.is_like(how):
            how = known
        is_made = how.seconds is not None and experiment.file(folder).exists()
        if experiment.name in wanted and not is_made:
            runs[experiment.name] = how = Run(
                command=how.command, version=how.version, spent=how.spent
            )
            try:
                _time(how, partial(run_experiment, experiment, options, Workplace(folder, quiet)))
            finally:
                write_json(out / _RUNS, msgspec.to_builtins(runs))
        if how.seconds is not None and experiment.file(folder).exists():
            summaries[experiment.name] = read_summary(experiment, folder)
    return summaries, runs


def _time(how: Run, run: Callable[[], Any]) -> None:
    """Run it and note the time; a run that is stopped keeps the time it took."""
    start = time.perf_counter()
    try:
        run()
        how.seconds, how.spent = how.spent + time.perf_counter() - start, 0.0
    except BellmanError as error:
        how.error = str(error)
    finally:
        if how.seconds is None:
            how.spent += time.perf_counter() - start


def read_runs(out: Path) -> dict[str, Run]:
    """How the results in a folder were made."""
    try:
        return msgspec.convert(json.loads((out / _RUNS).read_text()), dict[str, Run])
    except (OSError, ValueError, msgspec.ValidationError):
        return {}
