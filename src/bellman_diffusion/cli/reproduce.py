"""`bellman reproduce`: the paper's figures and tables."""

from pathlib import Path
from typing import Annotated

import typer

from bellman_diffusion.cli.options import Json, Quiet, Seed, print_json, show
from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.experiments.toy import MODELS, ModelName, ToySettings, run_toy
from bellman_diffusion.report.toy_report import toy_table, write_toy_report

reproduce = typer.Typer(help="Reproduce the paper's figures and tables.", no_args_is_help=True)


@reproduce.callback()
def _group() -> None:
    """Reproduce the paper's figures and tables."""


@reproduce.command()
def toy(
    seed: Seed = 0,
    seeds: Annotated[
        int, typer.Option(min=1, help="How many seeds to average over, from --seed on.")
    ] = 1,
    models: Annotated[
        str, typer.Option(help="Which models, separated by commas; the first leads.")
    ] = ",".join(MODELS),
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Where results and the report go.")
    ] = Path("runs/toy"),
    max_iter: Annotated[
        int | None, typer.Option(min=1, help="Training steps; by default each model's own.")
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """The synthetic figures (Section 5.1): disjoint uniform, unbalanced mixture, two moons.

    Run again with the same --out to go on where it stopped.
    """
    names = _model_names(models)
    summary = run_toy(
        out,
        models=names,
        seeds=range(seed, seed + seeds),
        settings=ToySettings(max_iter=max_iter),
        quiet=quiet,
    )
    command = f"bellman reproduce toy --seed {seed} --seeds {seeds} --models {models}"
    if max_iter is not None:
        command += f" --max-iter {max_iter}"
    report = write_toy_report(out, summary, command)
    show(toy_table(summary), "Synthetic sets", quiet=quiet or as_json)
    if as_json:
        print_json(summary | {"report": str(report)})
    elif not quiet:
        typer.echo(f"Report: {report}")


def _model_names(text: str) -> list[ModelName]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in MODELS]
    if unknown or not names or len(set(names)) < len(names):
        raise InvalidInputError(
            f"--models {text!r}: choose different names from {', '.join(MODELS)}"
        )
    return [name for model in names for name in MODELS if name == model]
