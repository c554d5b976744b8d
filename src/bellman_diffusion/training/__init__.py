"""The training loop, written once: chunks, progress, metrics, checkpoints, resume."""

from bellman_diffusion.training.fit import Fitted, Trainer
from bellman_diffusion.training.loop import train
from bellman_diffusion.training.optimiser import init_state, make_program
from bellman_diffusion.training.progress import NoProgress, Progress, RichProgress, progress_bar
from bellman_diffusion.training.run import RunFolder

__all__ = [
    "Fitted",
    "NoProgress",
    "Progress",
    "RichProgress",
    "RunFolder",
    "Trainer",
    "init_state",
    "make_program",
    "progress_bar",
    "train",
]
