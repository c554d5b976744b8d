"""The `bellman` command: its sub-commands and how errors end it."""

import sys
from typing import Annotated

import typer

from bellman_diffusion import __version__
from bellman_diffusion.cli.compile_cache import keep_nothing, keep_programs
from bellman_diffusion.cli.lazy import LazyGroup
from bellman_diffusion.errors import BellmanError

_INTERRUPTED = 130

app = typer.Typer(
    cls=LazyGroup,
    help="Generative modelling and distributional RL on scalar and gradient fields.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


def _print_version(wanted: bool) -> bool:
    if wanted:
        typer.echo(f"bellman-diffusion {__version__}")
        raise typer.Exit
    return wanted


def _set_up_cache(unwanted: bool) -> bool:
    """As the option is read: the sub-command, and JAX with it, is imported before `_main` runs."""
    if unwanted:
        keep_nothing()
    else:
        keep_programs()
    return unwanted


@app.callback()
def _main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and stop."
        ),
    ] = False,
    no_cache: Annotated[
        bool,
        typer.Option(
            "--no-cache",
            callback=_set_up_cache,
            help="Neither read nor write compiled programs on disk.",
        ),
    ] = False,
) -> None:
    del version, no_cache


def run() -> None:
    """Run the command; what the user can mend is one line on stderr and exit code 2."""
    try:
        app()
    except (BellmanError, OSError) as error:  # OSError: a full disk, a folder not to be written
        sys.stderr.write(f"bellman: {error}\n")
        sys.exit(2)
    except SystemExit as stop:
        # Typer turns Ctrl-C into this code.
        if stop.code == _INTERRUPTED:
            sys.stderr.write("bellman: stopped; run the same command again to go on\n")
        raise


if __name__ == "__main__":
    run()
