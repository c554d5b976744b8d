"""`bellman demo`: the main jobs, small enough to watch."""

from pathlib import Path
from typing import Annotated

import typer

from bellman_diffusion.cli.options import Json, Quiet, Seed, print_json, show
from bellman_diffusion.experiments.toy import ToySettings, run_toy
from bellman_diffusion.report.toy_report import toy_table, write_toy_report


def demo(
    seed: Seed = 0,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the report goes.")] = Path(
        "runs/demo"
    ),
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Learn three synthetic sets, sample them, and write a report with the figures."""
    settings = ToySettings(n_repeats=2)
    summary = run_toy(out, models=("default",), seeds=(seed,), settings=settings, quiet=quiet)
    report = write_toy_report(out, summary, f"bellman demo --seed {seed}")
    show(toy_table(summary), "Synthetic sets", quiet=quiet or as_json)
    if as_json:
        print_json(summary | {"report": str(report)})
    elif not quiet:
        typer.echo(f"Report: {report}")
