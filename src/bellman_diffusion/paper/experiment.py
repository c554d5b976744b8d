"""What an experiment is: options, a run, a typed summary, sections for reports, claims of the paper.

One file in `paper/experiments` is one experiment. `bellman reproduce`, the report of the whole paper
and the documentation's results pages are generic over the list of them.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.paper.claims import Claim
from bellman_diffusion.paper.workers import run_parallel
from bellman_diffusion.render.page import Section
from bellman_diffusion.training import NoProgress, Progress, RichProgress


class Summary(msgspec.Struct, kw_only=True):
    """The figures of a run, as they stand in its JSON file."""

    flat: ClassVar[str | None] = None
    """The name of a dictionary whose entries stand at the top level of the file, if there is one."""

    def to_json(self) -> dict[str, Any]:
        """For the file and for `--json`."""
        values = msgspec.to_builtins(self)
        flat = values.pop(self.flat, {})
        return values | flat

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Any:
        """What `to_json` gave, checked."""
        flat, names = cls.flat, cls.__struct_fields__
        own = {name: value for name, value in values.items() if name in names}
        if flat is not None:
            own[flat] = {name: value for name, value in values.items() if name not in names}
        return msgspec.convert(own, cls)


def option(default: Any, help: str, **limits: Any) -> Any:
    """A field of an `Options` class with its line of `--help`; limits are `min` and `max`."""
    return field(default=default, metadata={"help": help, **limits})


@dataclass(frozen=True)
class Options:
    """What every experiment can be run with."""

    seed: int = option(0, "Seed of all randomness.", min=0, max=2**31 - 1)

    def chosen(self, name: str, known: Collection[str]) -> list[str]:
        """The names in an option that takes several, separated by commas."""
        return chosen(f"--{name}", getattr(self, name), known)


@dataclass(frozen=True)
class SeededOptions(Options):
    """Experiments that average over seeds."""

    seeds: int = option(1, "How many seeds, from --seed on.", min=1)

    @property
    def all_seeds(self) -> range:
        """The seeds of the run."""
        return range(self.seed, self.seed + self.seeds)


K = TypeVar("K")


@dataclass(frozen=True)
class Workplace:
    """Where a run writes, and whether it shows its progress."""

    out: Path
    quiet: bool = True
    n_workers: int | None = None
    """Processes for independent parts; by default one a core."""

    @property
    def cells(self) -> Path:
        """Finished parts: a stopped run continues with what is missing."""
        return self.out / "cells"

    @property
    def figures(self) -> Path:
        """Pictures."""
        return self.out / "figures"

    def bar(
        self, title: str, shown: Sequence[str] = ("loss",), rate: str | None = None
    ) -> Progress:
        """A progress bar on stderr, or none."""
        return NoProgress() if self.quiet else RichProgress(title, shown, rate)

    def run_parallel(self, title: str, tasks: Mapping[K, Callable[[], Any]]) -> dict[K, Any]:
        """The results of independent tasks, with a bar."""
        found = run_parallel(
            [*tasks.values()], n_workers=self.n_workers, progress=self.bar(title, ())
        )
        return dict(zip(tasks, found, strict=True))


S = TypeVar("S", bound=Summary)


@dataclass(frozen=True)
class Experiment(Generic[S]):
    """One experiment, from its options to its claims."""

    name: str
    title: str
    about: str
    """One or two sentences for `--help`."""
    options: type[Options]
    summary: type[S]
    run: Callable[[Any, Workplace], S]
    """Compute the figures, draw the pictures into `figures`; finished parts are kept in `cells`."""
    sections: Callable[[S, Path], list[Section]]
    """Text, tables and pictures, from the summary and the folder of the pictures."""
    order: int
    """Its place in the report; below 100 it belongs to the paper."""
    page: str
    """The results page of the documentation that shows it."""
    claims: Sequence[Claim[S]] = ()
    published: Mapping[str, Any] = field(default_factory=dict)
    """Options of the published run: held-out seeds, no setting was tuned on them."""
    quick: Mapping[str, Any] = field(default_factory=dict)
    """What the quick run changes."""
    thinned: str = ""
    """What that leaves out, in words."""

    @property
    def in_paper(self) -> bool:
        """Whether `reproduce all` runs it."""
        return self.order < 100

    def options_of(self, quick: bool, shift: int = 0) -> Options:
        """The options of the published or of the quick run, with all seeds moved by `shift`."""
        chosen = dict(self.published) | (dict(self.quick) if quick else {})
        return self.options(**(chosen | {"seed": chosen.get("seed", 0) + shift}))

    def command(self, options: Options) -> str:
        """The command that makes these results: the seeds, and every option that is not the default."""
        words = ["bellman", "reproduce", self.name]
        for f in fields(options):
            value = getattr(options, f.name)
            if value != f.default or f.name in ("seed", "seeds"):
                words += [f"--{f.name.replace('_', '-')}", str(value)]
        return " ".join(words)

    def file(self, folder: Path) -> Path:
        """Where the summary of a run in `folder` is."""
        return folder / f"{self.name}.json"


_REGISTERED: dict[str, Experiment[Any]] = {}


def register_experiment(experiment: Experiment[Any]) -> None:
    """Make an experiment known that is defined outside of `paper/experiments`."""
    _REGISTERED[experiment.name] = experiment


def all_experiments() -> list[Experiment[Any]]:
    """All that are known, in the order of the report."""
    package = import_module("bellman_diffusion.paper.experiments")
    found = dict(_REGISTERED)
    for module in iter_modules(package.__path__):
        experiment = import_module(f"{package.__name__}.{module.name}").EXPERIMENT
        found[experiment.name] = experiment
    return sorted(found.values(), key=lambda experiment: experiment.order)


def find_experiment(name: str) -> Experiment[Any]:
    """The experiment with this name."""
    known = {experiment.name: experiment for experiment in all_experiments()}
    if name not in known:
        raise InvalidInputError(f"no experiment {name!r}: choose {', '.join(known)}")
    return known[name]


def chosen(option: str, text: str, known: Collection[str]) -> list[str]:
    """Names separated by commas: each one known, none twice."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names or len(set(names)) < len(names) or any(name not in known for name in names):
        raise InvalidInputError(
            f"{option} {text!r}: choose different names from {', '.join(known)}"
        )
    return names
