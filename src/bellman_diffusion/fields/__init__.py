"""What is learned: the scalar field s and the gradient field g of a density (Section 3.1)."""

from bellman_diffusion.fields.base import AbstractField, AbstractNoiseField, at_noise
from bellman_diffusion.fields.evaluate import evaluate, evaluate_score
from bellman_diffusion.fields.exact import KernelField
from bellman_diffusion.fields.guided import GuidedPair
from bellman_diffusion.fields.networks import ConservativeField, NetworkPair
from bellman_diffusion.fields.noise_conditional import (
    FieldScale,
    FourierFeatures,
    NoiseConditionalPair,
)

__all__ = [
    "AbstractField",
    "AbstractNoiseField",
    "ConservativeField",
    "FieldScale",
    "FourierFeatures",
    "GuidedPair",
    "KernelField",
    "NetworkPair",
    "NoiseConditionalPair",
    "at_noise",
    "evaluate",
    "evaluate_score",
]
