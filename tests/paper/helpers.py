"""Running experiments in tests: small, in this process, with the report written."""

import json
from pathlib import Path

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
    summary = experiment.summary.from_json(values)
    return {r.claim.text: r.finding for r in ledger(experiment.claims, name, summary)}
