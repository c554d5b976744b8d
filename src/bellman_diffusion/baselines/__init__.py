"""Other generative models, for comparison."""

from bellman_diffusion.baselines.classical import InterpolationModel, KernelModel, MixtureModel
from bellman_diffusion.baselines.ddpm import DDPM, TABDDPM_ABALONE, DdpmSettings
from bellman_diffusion.baselines.score import ScoreModel

__all__ = [
    "DDPM",
    "TABDDPM_ABALONE",
    "DdpmSettings",
    "InterpolationModel",
    "KernelModel",
    "MixtureModel",
    "ScoreModel",
]
