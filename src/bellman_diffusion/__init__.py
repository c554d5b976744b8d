"""Bellman Diffusion: generative modelling as learning a linear operator in the distribution space."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from bellman_diffusion.errors import (
    BellmanError,
    CheckpointError,
    DataMissingError,
    InvalidInputError,
    SamplingFailedError,
    TrainingDivergedError,
)

if TYPE_CHECKING:
    from bellman_diffusion.agents import Agent, default_config, train_agents
    from bellman_diffusion.estimator import BellmanDiffusion
    from bellman_diffusion.images import ImageModel
    from bellman_diffusion.planning import Planner, PlanSettings, plan, plan_from_transitions
    from bellman_diffusion.recipe import Recipe, make_recipe
    from bellman_diffusion.tables import TableModel

__version__ = version("bellman-diffusion")

__all__ = [
    "Agent",
    "BellmanDiffusion",
    "BellmanError",
    "CheckpointError",
    "DataMissingError",
    "ImageModel",
    "InvalidInputError",
    "PlanSettings",
    "Planner",
    "Recipe",
    "SamplingFailedError",
    "TableModel",
    "TrainingDivergedError",
    "__version__",
    "default_config",
    "make_recipe",
    "plan",
    "plan_from_transitions",
    "train_agents",
]

# Imported when they are asked for: they bring JAX, which `bellman --help` does not need.
_LAZY = {
    "Agent": "agents",
    "BellmanDiffusion": "estimator",
    "ImageModel": "images",
    "PlanSettings": "planning",
    "Planner": "planning",
    "Recipe": "recipe",
    "TableModel": "tables",
    "default_config": "agents",
    "make_recipe": "recipe",
    "plan": "planning",
    "plan_from_transitions": "planning",
    "train_agents": "agents",
}


def __getattr__(name: str) -> Any:
    """The public names of the rooms."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
