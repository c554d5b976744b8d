"""`bellman reproduce all`: every experiment of the paper, and one report of them."""

import json
import time
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer

from bellman_diffusion.agents.devices import use_all_cores
from bellman_diffusion.cli import reproduce as commands
from bellman_diffusion.cli.options import Json, Quiet, Seed, print_json, show
from bellman_diffusion.errors import BellmanError, InvalidInputError
from bellman_diffusion.experiments.paper import PARTS, Part
from bellman_diffusion.report.ledger import ledger_rows, verdict_counts
from bellman_diffusion.report.page import Table
from bellman_diffusion.report.paper_report import read_results, write_paper_report
from bellman_diffusion.training.files import write_json

_RUNS = "all.json"
# `all` and every experiment by its name.
group = commands.reproduce


@commands.reproduce.command("all")
def reproduce_all(
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Thinned experiments: a quarter of an hour on two cores."),
    ] = False,
    parts: Annotated[
        str, typer.Option(help="Which experiments to run now, separated by commas.")
    ] = ",".join(part.name for part in PARTS),
    seed: Seed = 0,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="By default runs/paper, or runs/paper-quick."),
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Every experiment of the paper, and one report with a ledger of its claims.

    Run again with the same --out to go on where it stopped. With --parts the report has what earlier
    runs made of the others. --seed is added to the published seeds.
    """
    wanted = commands.chosen("--parts", parts, [part.name for part in PARTS])
    # Before JAX starts: later it changes nothing.
    use_all_cores()
    out = out or Path("runs/paper-quick" if quick else "runs/paper")
    runs: dict[str, dict[str, Any]] = _read(out)
    for part in PARTS:
        if part.name in wanted:
            _run(part, out, quick, seed, quiet or as_json, runs)
    command = " ".join(["bellman reproduce all", *(["--quick"] if quick else []), f"--seed {seed}"])
    # What a part left from a run with other options, or from one that was stopped, is not this one's.
    made = [part.name for part in PARTS if _is_made(part, out, quick, seed, runs)]
    results = read_results(out, made)
    report = write_paper_report(out, command, results, runs, quick=quick)
    rows = ledger_rows(results)
    table = Table(
        ("place", "claim", "ours", "verdict"),
        [(claim.place, claim.text, found.ours, found.verdict) for claim, found in rows],
    )
    show(table, "The paper's claims", quiet=quiet or as_json)
    if as_json:
        claims = [
            {"place": c.place, "claim": c.text, "paper": c.paper, **f._asdict()} for c, f in rows
        ]
        figures = {"claims": claims, "verdicts": verdict_counts(rows), "runs": runs}
        print_json(figures | {"report": str(report)})
    elif not quiet:
        typer.echo(f"Report: {report}")
    failed = [f"{name}: {runs[name]['error']}" for name in wanted if "error" in runs[name]]
    if failed:
        raise InvalidInputError("some experiments could not be run: " + "; ".join(failed))


def _run(
    part: Part, out: Path, quick: bool, shift: int, quiet: bool, runs: dict[str, dict[str, Any]]
) -> None:
    """Run one experiment, unless this release has run it with these options, and note its time."""
    if _is_made(part, out, quick, shift, runs):
        return
    options = part.options_of(quick, shift)
    run, known = _how(part, quick, shift), runs.get(part.name, {})
    same = _matches(known, run)
    start = time.perf_counter()
    before = known.get("spent", 0.0) if same else 0.0
    try:
        getattr(commands, part.name)(out=out / part.name, quiet=quiet, **options)
        run["seconds"] = before + time.perf_counter() - start
    except BellmanError as error:
        run["error"] = str(error)
    finally:
        # A run that is stopped here goes on with this time on its account.
        if "seconds" not in run:
            run["spent"] = before + time.perf_counter() - start
        runs[part.name] = run
        write_json(out / _RUNS, runs)


def _how(part: Part, quick: bool, shift: int) -> dict[str, Any]:
    """What a part's results must have been made by."""
    command = commands.command_of(part.name, **part.options_of(quick, shift))
    return {"command": command, "version": version("bellman-diffusion")}


def _matches(known: dict[str, Any], wanted: dict[str, Any]) -> bool:
    return all(known.get(key) == value for key, value in wanted.items())


def _is_made(
    part: Part, out: Path, quick: bool, shift: int, runs: dict[str, dict[str, Any]]
) -> bool:
    known = runs.get(part.name, {})
    written = (out / part.name / f"{part.name}.json").exists()
    return _matches(known, _how(part, quick, shift)) and "seconds" in known and written


def _read(out: Path) -> dict[str, dict[str, Any]]:
    try:
        found = json.loads((out / _RUNS).read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
