"""The training loop, written once: chunks, progress, metrics, checkpoints, resume."""

from bellman_diffusion.training.checkpoint import read_checkpoint, write_checkpoint
from bellman_diffusion.training.early_stopping import train_until_best
from bellman_diffusion.training.fit import Fitted, Trainer
from bellman_diffusion.training.loop import Program, train
from bellman_diffusion.training.optimiser import TrainState, averaged, init_state, make_program
from bellman_diffusion.training.progress import (
    NoProgress,
    Progress,
    RichProgress,
    progress_bar,
    training_bar,
)
from bellman_diffusion.training.run import RunFolder

__all__ = [
    "Fitted",
    "NoProgress",
    "Program",
    "Progress",
    "RichProgress",
    "RunFolder",
    "TrainState",
    "Trainer",
    "averaged",
    "init_state",
    "make_program",
    "progress_bar",
    "read_checkpoint",
    "train",
    "train_until_best",
    "training_bar",
    "write_checkpoint",
]
