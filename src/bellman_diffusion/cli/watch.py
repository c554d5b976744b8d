"""`bellman watch`: an episode as a GIF, with the return densities of the actions beside."""

from pathlib import Path
from typing import Annotated

import typer

from bellman_diffusion.agents.agent import Agent
from bellman_diffusion.agents.episodes import play
from bellman_diffusion.cli.options import Json, Quiet, Seed, print_json
from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.report.episode import write_episode
from bellman_diffusion.training import NoProgress, RichProgress


def watch(
    run: Annotated[Path, typer.Argument(help="The folder of a training run.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The GIF to write.")] = Path(
        "episode.gif"
    ),
    agent_seed: Annotated[
        int | None, typer.Option(help="Which seed's agent; by default the best one's.")
    ] = None,
    steps: Annotated[int, typer.Option(min=1, help="The longest episode to show.")] = 200,
    every: Annotated[int, typer.Option(min=1, help="Show every so many steps.")] = 2,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Play one greedy episode and draw each step with the laws that the agent expects."""
    if out.suffix.lower() != ".gif":
        raise InvalidInputError(f"--out {out}: the picture is a GIF; name it .gif")
    agent = Agent.load(run, agent_seed)
    moments = list(play(agent, seed, steps))
    bar = NoProgress() if quiet else RichProgress("draw", ())
    write_episode(out, agent, moments[::every], bar)
    total = sum(moment.reward for moment in moments)
    if as_json:
        print_json({"gif": str(out), "steps": len(moments), "return": total})
    elif not quiet:
        typer.echo(f"{out}: {len(moments)} steps, return {total:.4g}")
