"""Bellman Diffusion: generative modelling as learning a linear operator in the distribution space."""

from importlib.metadata import version

from bellman_diffusion.errors import (
    BellmanError,
    CheckpointError,
    InvalidInputError,
    SamplingFailedError,
    TrainingDivergedError,
)
from bellman_diffusion.estimator import BellmanDiffusion

__version__ = version("bellman-diffusion")

__all__ = [
    "BellmanDiffusion",
    "BellmanError",
    "CheckpointError",
    "InvalidInputError",
    "SamplingFailedError",
    "TrainingDivergedError",
    "__version__",
]
