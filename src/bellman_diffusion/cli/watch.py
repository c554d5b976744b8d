"""`bellman watch`: an episode as a GIF, with the return densities of the actions."""

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from bellman_diffusion.agents.agent import Agent
from bellman_diffusion.cli.options import Json, Quiet, Seed, finish
from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.training import progress_bar
from bellman_diffusion.view.agents import record_agent
from bellman_diffusion.view.gif import write_gif


def watch(
    run: Annotated[Path, typer.Argument(help="The folder of a training run.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The GIF to write.")] = Path(
        "episode.gif"
    ),
    agent_seed: Annotated[
        int | None, typer.Option(help="Which seed's agent; by default the best one's.")
    ] = None,
    steps: Annotated[int, typer.Option(min=1, help="The longest part of it to show.")] = 200,
    every: Annotated[int, typer.Option(min=1, help="Show every so many steps.")] = 2,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Play one greedy episode and draw each step with the predicted return distributions."""
    if out.suffix.lower() != ".gif":
        raise InvalidInputError(f"--out {out}: the picture is a GIF; name it .gif")
    episode = record_agent(Agent.load(run, agent_seed), seed, steps)
    write_gif(out, episode, every, progress_bar("draw", quiet=quiet, shown=()))
    length, total = len(episode.rewards), float(np.sum(episode.rewards))
    cut = "" if episode.over else ", cut off there"
    shown = f"the first {len(episode.actions)} of {length} steps"
    line = f"{out}: {shown}{cut}, return {total:.4g}"
    figures = {"gif": str(out), "steps": length, "return": total, "ended": episode.over}
    finish(figures, line, quiet=quiet, as_json=as_json)
