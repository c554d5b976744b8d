"""What every objective is."""

from abc import abstractmethod
from typing import NamedTuple

import equinox as eqx
from jaxtyping import Array, Float

from bellman_diffusion.fields.base import AnyField, RandomKey, Scalar

Batch = Float[Array, "batch dim"]
BatchValues = Float[Array, " batch"]
Others = Float[Array, "others dim"]
"""The kernel's second points."""


class FieldLosses(NamedTuple):
    """The loss of each field; training minimises their sum."""

    gradient: Scalar
    scalar: Scalar


class AbstractObjective(eqx.Module):
    """A loss for both fields, estimated from two independent batches of data."""

    @abstractmethod
    def __call__(self, field: AnyField, key: RandomKey, x1: Batch, x2: Others) -> FieldLosses:
        """The two losses for x1, with x2 as the kernel's second points."""
