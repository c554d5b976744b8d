"""`bellman evaluate`: greedy episodes of a trained agent."""

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from bellman_diffusion.agents.agent import Agent
from bellman_diffusion.agents.episodes import greedy_returns
from bellman_diffusion.cli.options import Json, Quiet, Seed, print_json, show
from bellman_diffusion.report.page import Table

_WORST = 0.1


def evaluate(
    run: Annotated[Path, typer.Argument(help="The folder of a training run.")],
    episodes: Annotated[int, typer.Option(min=1, help="Episodes of each seed's agent.")] = 100,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Returns of each seed's agent: mean, deviation, and the mean of the worst tenth."""
    first = Agent.load(run)
    figures = []
    for agent_seed in first.meta["seeds"]:
        agent = Agent.load(run, agent_seed)
        returns = np.sort(greedy_returns(agent, episodes, seed))
        worst = returns[: max(1, int(np.ceil(_WORST * episodes)))]
        figures.append(
            {
                "seed": agent_seed,
                "mean_return": float(returns.mean()),
                "deviation": float(returns.std()),
                "least": float(returns[0]),
                "cvar_10": float(worst.mean()),
            }
        )
    rows = [
        ("seed", str(f["seed"]), *(f"{v:.4g}" for k, v in f.items() if k != "seed"))
        for f in figures
    ]
    header = ("", "", "mean return", "deviation", "least", "CVaR 10 %")
    title = f"{first.spec.env_id}, {first.config.algo}: {episodes} greedy episodes"
    show(Table(header, rows), title, quiet=quiet or as_json)
    if as_json:
        print_json({"env_id": first.spec.env_id, "episodes": episodes, "seeds": figures})
