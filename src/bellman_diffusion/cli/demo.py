"""`bellman demo`: the main jobs, small enough to watch."""

from pathlib import Path
from typing import Annotated

import typer

from bellman_diffusion.bellman.planning import PlanSettings, plan
from bellman_diffusion.cli.options import Json, Quiet, Seed, print_json, show
from bellman_diffusion.experiments.toy import ToySettings, run_toy
from bellman_diffusion.report.page import write_page
from bellman_diffusion.report.plan_report import (
    plan_sections,
    risk_figures,
    risk_table,
    start_observations,
)
from bellman_diffusion.report.toy_report import toy_sections, toy_table


def demo(
    seed: Seed = 0,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the report goes.")] = Path(
        "runs/demo"
    ),
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Learn three synthetic sets, plan in FrozenLake, and write one report with the figures."""
    silent = quiet or as_json
    settings = ToySettings(n_repeats=2)
    summary = run_toy(out, models=("default",), seeds=(seed,), settings=settings, quiet=quiet)
    show(toy_table(summary), "Synthetic sets", quiet=silent)
    planner = plan(PlanSettings("FrozenLake-v1"))
    planner.save(out / "planner.bellman")
    risks = risk_figures(planner, start_observations(planner, seed))
    show(risk_table(risks), "FrozenLake: return of the optimal policy", quiet=silent)
    sections = [*toy_sections(out, summary), *plan_sections(out, planner, seed)]
    report = write_page(out / "report.html", "Demo", f"bellman demo --seed {seed}", sections)
    if as_json:
        figures = planner.meta["figures"] | {"starts": risks}
        print_json(summary | {"frozenlake": figures, "report": str(report)})
    elif not quiet:
        typer.echo(f"Report: {report}")
