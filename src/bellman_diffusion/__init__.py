"""Bellman Diffusion: generative modelling as learning a linear operator in the distribution space."""

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
    from bellman_diffusion.estimator import BellmanDiffusion

__version__ = version("bellman-diffusion")

__all__ = [
    "BellmanDiffusion",
    "BellmanError",
    "CheckpointError",
    "DataMissingError",
    "InvalidInputError",
    "SamplingFailedError",
    "TrainingDivergedError",
    "__version__",
]


def __getattr__(name: str) -> Any:
    """The estimator, when it is asked for: it brings JAX, which `bellman --help` does not need."""
    if name != "BellmanDiffusion":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from bellman_diffusion.estimator import BellmanDiffusion  # noqa: PLC0415

    return BellmanDiffusion
