"""The `bellman` command: its sub-commands and how errors end it."""

import sys

import typer

from bellman_diffusion.cli.demo import demo
from bellman_diffusion.cli.reproduce import reproduce
from bellman_diffusion.errors import BellmanError

app = typer.Typer(
    help="Generative modelling and distributional RL on scalar and gradient fields.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.command()(demo)
app.add_typer(reproduce, name="reproduce")


def run() -> None:
    """Run the command; what the user can mend is one line on stderr and exit code 2."""
    try:
        app()
    except BellmanError as error:
        sys.stderr.write(f"bellman: {error}\n")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.stderr.write("bellman: stopped; run the same command again to go on\n")
        sys.exit(130)


if __name__ == "__main__":
    run()
