"""Options that every command takes, and how results are shown."""

import json
import shlex
import sys
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table as RichTable

from bellman_diffusion.render.page import Table

Seed = Annotated[int, typer.Option("--seed", help="Seed of all randomness.", min=0, max=2**31 - 1)]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress and no table.")]
Json = Annotated[
    bool, typer.Option("--json", help="End stdout with one line of JSON with the figures.")
]


def show(table: Table, title: str, *, quiet: bool) -> None:
    """Print a table on stdout."""
    if quiet:
        return
    view = RichTable(title=title)
    for i, name in enumerate(table.header):
        view.add_column(name, justify="left" if i < table.n_names else "right")
    for row in table.rows:
        view.add_row(*row)
    # Names of columns may have brackets, which Rich would take for its own.
    console = Console(
        width=None if sys.stdout.isatty() else 120, markup=False, emoji=False, highlight=False
    )
    console.print(view)


def print_json(value: dict[str, Any]) -> None:
    """One JSON object on one line."""
    sys.stdout.write(json.dumps(value) + "\n")


def finish(figures: dict[str, Any], *lines: str, quiet: bool, as_json: bool) -> None:
    """The end of a command: its figures as JSON, or a few lines for a reader."""
    if as_json:
        print_json(figures)
    elif not quiet:
        typer.echo("\n".join(lines))


def command_line() -> str:
    """The command as it was given."""
    return shlex.join(["bellman", *sys.argv[1:]])
