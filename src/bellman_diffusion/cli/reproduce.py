"""`bellman reproduce`: the paper's figures, tables and claims; one command for each experiment."""

import inspect
from collections.abc import Callable
from dataclasses import Field, fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import msgspec
import typer

from bellman_diffusion.agents.devices import use_all_cores
from bellman_diffusion.cli.options import Json, Quiet, Seed, finish, show
from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.paper import (
    Experiment,
    Workplace,
    all_experiments,
    run_experiment,
    run_paper,
    write_paper_report,
)
from bellman_diffusion.paper.claims import verdict_counts
from bellman_diffusion.paper.experiment import chosen
from bellman_diffusion.paper.report import ledger_rows
from bellman_diffusion.render.page import Table

Out = Annotated[Path, typer.Option("--out", "-o", help="Where results and the report go.")]


def reproduce() -> typer.Typer:
    """A command for each experiment, and `all`."""
    group = typer.Typer(help="Reproduce the paper's figures and tables.", no_args_is_help=True)
    for experiment in all_experiments():
        group.command(experiment.name)(command_of(experiment))
    group.command("all")(reproduce_all)
    return group


def command_of(experiment: Experiment[Any]) -> Callable[..., None]:
    """A Typer command whose options are the fields of the experiment's options."""

    def command(out: Path, quiet: bool, as_json: bool, **given: Any) -> None:
        # Before JAX starts: later it changes nothing.
        use_all_cores()
        options, work = experiment.options(**given), Workplace(out, quiet or as_json)
        summary, report = run_experiment(experiment, options, work)
        for section in experiment.sections(summary, work.figures):
            if section.table is not None:
                show(section.table, section.title, quiet=work.quiet)
        figures = summary.to_json() | {"report": str(report)}
        finish(figures, f"Report: {report}", quiet=quiet, as_json=as_json)

    command.__doc__ = (
        f"{experiment.about}\n\nRun again with the same --out to continue where it stopped."
    )
    hints = get_type_hints(experiment.options)
    own = [_parameter(f, hints[f.name]) for f in fields(experiment.options)]
    place = Path("runs") / experiment.name
    shared = [("out", Out, place), ("quiet", Quiet, False), ("as_json", Json, False)]
    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, kind, default in [*own, *shared]
    ]
    command.__signature__ = inspect.Signature(parameters)  # pyright: ignore (Typer reads it)
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    return command


def _parameter(f: Field[Any], hint: Any) -> tuple[str, Any, Any]:
    if f.name == "seed":
        return f.name, Seed, f.default
    limits = {name: f.metadata[name] for name in ("min", "max") if name in f.metadata}
    return f.name, Annotated[hint, typer.Option(help=f.metadata["help"], **limits)], f.default


def reproduce_all(
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Thinned experiments: a quarter of an hour on two cores."),
    ] = False,
    parts: Annotated[
        str | None, typer.Option(help="Which experiments to run now, separated by commas.")
    ] = None,
    seed: Seed = 0,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="By default runs/paper, or runs/paper-quick.")
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Every experiment of the paper, and one report with a ledger of its claims.

    Run again with the same --out to continue where it stopped. With --parts the report has what
    earlier runs made of the others. --seed is added to the published seeds.
    """
    names = [experiment.name for experiment in all_experiments() if experiment.in_paper]
    wanted = names if parts is None else chosen("--parts", parts, names)
    use_all_cores()
    out = out or Path("runs/paper-quick" if quick else "runs/paper")
    silent = quiet or as_json
    summaries, runs = run_paper(out, wanted, quick=quick, shift=seed, quiet=silent)
    command = " ".join(["bellman reproduce all", *(["--quick"] if quick else []), f"--seed {seed}"])
    report = write_paper_report(out, command, summaries, runs, quick=quick)
    rows = ledger_rows(summaries)
    cells = [(r.claim.place, r.claim.text, r.finding.ours, r.finding.verdict) for r in rows]
    table = Table(("place", "claim", "ours", "verdict"), cells)
    show(table, "The paper's claims", quiet=silent)
    claims = [
        {"place": r.claim.place, "claim": r.claim.text, "paper": r.claim.paper}
        | r.finding._asdict()
        for r in rows
    ]
    figures = {"claims": claims, "verdicts": verdict_counts(rows)}
    figures |= {"runs": msgspec.to_builtins(runs), "report": str(report)}
    finish(figures, f"Report: {report}", quiet=quiet, as_json=as_json)
    failed = [f"{name}: {runs[name].error}" for name in wanted if runs[name].error]
    if failed:
        raise InvalidInputError("some experiments could not be run: " + "; ".join(failed))
