"""Running experiments in tests: small, in this process, with the report written."""

import json
from pathlib import Path
from typing import Any

import msgspec
from msgspec import inspect

from bellman_diffusion.paper import Workplace, all_experiments, find_experiment
from bellman_diffusion.paper.claims import ledger
from bellman_diffusion.render.page import write_page

PUBLISHED = Path(__file__).parents[2] / "results"
PAPER = [experiment for experiment in all_experiments() if experiment.in_paper]


def workplace(out):
    """One process: workers would not see what a test replaced."""
    return Workplace(Path(out), quiet=True, n_workers=1)


def report_of(name, summary, out):
    """The page of a summary, as text."""
    experiment = find_experiment(name)
    sections = experiment.sections(summary, Path(out) / "figures")
    return write_page(Path(out) / "report.html", experiment.title, "command", sections).read_text()


def published_json(name):
    return json.loads((PUBLISHED / name / f"{name}.json").read_text())


def findings(name, values):
    """What is found of an experiment's claims, by the claim's text, from its JSON."""
    experiment = find_experiment(name)
    return Findings(experiment, experiment.summary.from_json(values))


class Findings:
    """What is found of each claim, when it is asked for."""

    def __init__(self, experiment, summary):
        self._claims = {claim.text: claim for claim in experiment.claims}
        self._name, self._summary = experiment.name, summary

    def __getitem__(self, text):
        (claim,) = [c for t, c in self._claims.items() if t.startswith(text)]
        (row,) = ledger([claim], self._name, self._summary)
        return row.finding

    def items(self):
        return [(text, self[text]) for text in self._claims]

    def values(self):
        return [finding for _, finding in self.items()]


def findings_of_part(name, values):
    """The same from some of the figures: the others are filled up with ones."""
    experiment = find_experiment(name)
    flat = experiment.summary.flat
    names = experiment.summary.__struct_fields__
    if flat is not None:
        inner = {key: value for key, value in values.items() if key not in names}
        values = {key: value for key, value in values.items() if key in names} | {flat: inner}
    whole = msgspec.convert(
        filled(inspect.type_info(experiment.summary), values), experiment.summary
    )
    return Findings(experiment, whole)


def filled(info: Any, value: Any = msgspec.UNSET) -> Any:  # noqa: PLR0911 (one a type)
    """JSON of a type: what is given, and ones, empty lists and None for what is not."""
    if isinstance(info, inspect.StructType):
        given = {} if value is msgspec.UNSET else value
        return {
            f.encode_name: filled(f.type, given.get(f.encode_name, msgspec.UNSET))
            for f in info.fields
            if f.required or f.encode_name in given
        }
    if isinstance(info, inspect.UnionType):
        if value is msgspec.UNSET or value is None:
            return None
        return filled(next(t for t in info.types if not isinstance(t, inspect.NoneType)), value)
    if isinstance(info, inspect.ListType):
        return [] if value is msgspec.UNSET else [filled(info.item_type, v) for v in value]
    if isinstance(info, inspect.TupleType):
        return [1.0] * len(info.item_types) if value is msgspec.UNSET else value
    if isinstance(info, inspect.DictType):
        given = {} if value is msgspec.UNSET else value
        return {key: filled(info.value_type, v) for key, v in given.items()}
    if value is not msgspec.UNSET:
        return value
    return "" if isinstance(info, inspect.StrType) else 1
