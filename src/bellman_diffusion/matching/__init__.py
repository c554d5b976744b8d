"""How the fields are learned from samples (Sections 3.1 and 3.2)."""

from bellman_diffusion.matching.base import AbstractObjective
from bellman_diffusion.matching.denoising import DenoisingMatching, posterior_noise
from bellman_diffusion.matching.field_matching import FieldMatching
from bellman_diffusion.matching.kernels import AbstractKernel, IsotropicKernel, SlicedKernel
from bellman_diffusion.matching.slices import SLICE_DISTRIBUTIONS, SliceDistribution, draw_slices
from bellman_diffusion.matching.traces import AbstractTrace, ExactTrace, SlicedTrace

__all__ = [
    "SLICE_DISTRIBUTIONS",
    "AbstractKernel",
    "AbstractObjective",
    "AbstractTrace",
    "DenoisingMatching",
    "ExactTrace",
    "FieldMatching",
    "IsotropicKernel",
    "SliceDistribution",
    "SlicedKernel",
    "SlicedTrace",
    "draw_slices",
    "posterior_noise",
]
