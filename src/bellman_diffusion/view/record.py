"""What a run's folder holds, recorded for the page."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from bellman_diffusion.agents.agent import AGENT_FILE, Agent
from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.images.model import VAE_FILE
from bellman_diffusion.planning.planner import PLANNER_FILE, Planner
from bellman_diffusion.tables.model import MODEL_FILE
from bellman_diffusion.training.checkpoint import checkpoint_kind
from bellman_diffusion.view.agents import record_agent
from bellman_diffusion.view.episode import episode_to_json
from bellman_diffusion.view.generative import record_model
from bellman_diffusion.view.images import record_images
from bellman_diffusion.view.planners import record_planner

_FILES = {
    AGENT_FILE: "agent",
    PLANNER_FILE: "planner",
    MODEL_FILE: "table model",
    VAE_FILE: "image model",
}

_UNFINISHED = ("checkpoint.bellman", "vae/checkpoint.bellman", "latents/checkpoint.bellman")


def record_run(
    run: Path,
    *,
    seed: int = 0,
    steps: int = 200,
    data: pd.DataFrame | None = None,
    columns: tuple[str, str] | None = None,
) -> list[dict[str, Any]]:
    """A record of every agent, planner and model in a run's folder, or of one file of them.

    `data` and `columns` are for table models.
    """
    found = _found(run)
    recorders: dict[str, Callable[[], dict[str, Any]]] = {
        "agent": lambda: episode_to_json(record_agent(Agent.load(run), seed, steps)),
        "planner": lambda: episode_to_json(record_planner(Planner.load(run), seed, steps)),
        "table model": lambda: record_model(run, seed, data, columns),
        "image model": lambda: record_images(run if run.is_dir() else run.parent, seed),
    }
    parts = [record() for kind, record in recorders.items() if kind in found]
    if not parts and any((run / name).exists() for name in _UNFINISHED):
        raise InvalidInputError(
            f"the training in {run} has not ended: run the same command again to go on with it"
        )
    if not parts:
        held = f" but a {found[0]}" if found else ""
        raise InvalidInputError(
            f"{run} holds no agent, planner, table or image model{held}: name the folder of bellman "
            "train, plan, fit or images, or a file that it saved"
        )
    return [part | {"run": str(run)} for part in parts]


def holds_table_model(run: Path) -> bool:
    """Whether `data` and `columns` mean anything for a run."""
    return "table model" in _found(run)


def _found(run: Path) -> list[str]:
    """The kinds of what a folder holds under their usual names, or of a file under any."""
    files = [run / name for name in _FILES] if run.is_dir() else [run]
    found = []
    for file in files:
        # A damaged file is what it is called: reading it says what is wrong.
        kind = checkpoint_kind(file) or (_FILES.get(file.name) if file.is_file() else None)
        found += [] if kind is None else [kind]
    return found
