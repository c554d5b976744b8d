"""What a run's folder holds, recorded for the page."""

from pathlib import Path
from typing import Any

import pandas as pd

from bellman_diffusion.agents.agent import AGENT_FILE
from bellman_diffusion.bellman.planner import PLANNER_FILE
from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.tables.model import MODEL_FILE
from bellman_diffusion.view.agents import record_agent
from bellman_diffusion.view.episode import episode_to_json
from bellman_diffusion.view.generative import record_model
from bellman_diffusion.view.planners import record_planner


def record_run(
    run: Path,
    *,
    seed: int = 0,
    steps: int = 200,
    data: pd.DataFrame | None = None,
    columns: tuple[str, str] | None = None,
) -> list[dict[str, Any]]:
    """A record of every agent, planner and table model in a run's folder, or of one file of them."""
    parts: list[dict[str, Any]] = []
    if _holds(run, AGENT_FILE):
        parts.append(episode_to_json(record_agent(run, seed, steps)))
    if _holds(run, PLANNER_FILE):
        parts.append(episode_to_json(record_planner(run, seed, steps)))
    if _holds(run, MODEL_FILE):
        parts.append(record_model(run, seed, data, columns))
    if not parts:
        raise InvalidInputError(
            f"{run} holds no agent, planner or table model ({AGENT_FILE}, {PLANNER_FILE}, "
            f"{MODEL_FILE}): name the folder of bellman train, bellman plan or bellman fit"
        )
    return [part | {"run": str(run)} for part in parts]


def _holds(run: Path, name: str) -> bool:
    return (run / name).is_file() if run.is_dir() else run.is_file() and run.name == name
