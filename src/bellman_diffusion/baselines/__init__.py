"""Other generative models, for comparison."""

from bellman_diffusion.baselines.score import ScoreModel

__all__ = ["ScoreModel"]
