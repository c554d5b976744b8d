"""Sub-commands that are imported when they are called: JAX and all that comes with it takes seconds."""

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

COMMANDS = {
    "demo": "Learn three synthetic sets, plan in FrozenLake, train a CartPole agent; one report of it "
    "all.",
    "fit": "Learn the distribution of a table's rows. Run again with the same options to continue.",
    "sample": "Draw new rows, or images, from a fitted model.",
    "images": "Learn the distribution of small square images (up to 64 × 64) and draw new ones.",
    "plan": "Policy evaluation: the whole return distribution of a policy, with risk figures and "
    "accuracy.",
    "train": "Train one agent per seed, evaluate each by greedy episodes, and write a run folder.",
    "evaluate": "Evaluate an agent by greedy episodes, or a table model against real rows.",
    "watch": "Play one greedy episode and draw each step with the predicted return distributions.",
    "view": "Look inside runs: an episode with the return density of every action, or a model at work.",
    "reproduce": "Reproduce the paper's figures and tables.",
}
"""The commands with their lines of the help; each is in the module of its name."""
_MODULES = {"fit": "tables", "sample": "tables"}
# A function that makes a group of commands.
_GROUP = "reproduce"


class LazyGroup(TyperGroup):
    """Lists its commands from `COMMANDS`, and imports the one that is called."""

    _is_listing = False

    def list_commands(self, ctx: Any) -> list[str]:
        """In the order of the table."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command; for the list of them its name and line alone."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        if self._is_listing:
            return TyperCommand(cmd_name, help=COMMANDS[cmd_name])
        return load(cmd_name)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The list of commands, without importing them."""
        self._is_listing = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self._is_listing = False


def load(name: str) -> Any:
    """Import a command: a function, or a group of its own."""
    module = import_module(f"bellman_diffusion.cli.{_MODULES.get(name, name)}")
    found = getattr(module, name)
    if name == _GROUP:
        command = typer.main.get_command(found())
        command.name = name
        return command
    app = typer.Typer(add_completion=False)
    app.command(name)(found)
    return typer.main.get_command(app)
