"""The paper, checked: every figure, table and claim of it, and what we measured beyond it."""

from bellman_diffusion.paper.claims import Claim, Finding
from bellman_diffusion.paper.experiment import (
    Experiment,
    Options,
    SeededOptions,
    Summary,
    Workplace,
    all_experiments,
    find_experiment,
    option,
    register_experiment,
)
from bellman_diffusion.paper.report import write_paper_report
from bellman_diffusion.paper.run import read_summary, run_experiment, run_paper

__all__ = [
    "Claim",
    "Experiment",
    "Finding",
    "Options",
    "SeededOptions",
    "Summary",
    "Workplace",
    "all_experiments",
    "find_experiment",
    "option",
    "read_summary",
    "register_experiment",
    "run_experiment",
    "run_paper",
    "write_paper_report",
]
