"""Other generative models, for comparison."""

from bellman_diffusion.baselines.classical import InterpolationModel, KernelModel, MixtureModel
from bellman_diffusion.baselines.ddpm import DDPM, TABDDPM_ABALONE, DdpmSettings
from bellman_diffusion.baselines.score import ScoreModel
from bellman_diffusion.baselines.score_flow import ScoreFlowModel, ScoreFlowSettings

__all__ = [
    "DDPM",
    "TABDDPM_ABALONE",
    "DdpmSettings",
    "InterpolationModel",
    "KernelModel",
    "MixtureModel",
    "ScoreFlowModel",
    "ScoreFlowSettings",
    "ScoreModel",
]
