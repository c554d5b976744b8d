"""How samples are drawn: dx = g dt + √s dw and its relatives (Section 3.3, Algorithm 2)."""

from bellman_diffusion.dynamics.annealed import Annealed
from bellman_diffusion.dynamics.base import AbstractDynamics, Info
from bellman_diffusion.dynamics.conditioned import Conditioned
from bellman_diffusion.dynamics.euler_maruyama import EulerMaruyama
from bellman_diffusion.dynamics.langevin import Langevin
from bellman_diffusion.dynamics.metropolis import Metropolis
from bellman_diffusion.dynamics.sample import Box, Samples, sample, trace
from bellman_diffusion.dynamics.starts import data_start, normal_start

__all__ = [
    "AbstractDynamics",
    "Annealed",
    "Box",
    "Conditioned",
    "EulerMaruyama",
    "Info",
    "Langevin",
    "Metropolis",
    "Samples",
    "data_start",
    "normal_start",
    "sample",
    "trace",
]
