"""What every objective is."""

from abc import abstractmethod
from typing import NamedTuple

import equinox as eqx
from jaxtyping import Array, Float, Key

from bellman_diffusion.fields import AbstractField, AbstractNoiseField


class FieldLosses(NamedTuple):
    """The loss of each field; training minimises their sum."""

    gradient: Float[Array, ""]
    scalar: Float[Array, ""]


class AbstractObjective(eqx.Module):
    """A loss for both fields, estimated from two independent batches of data."""

    @abstractmethod
    def __call__(
        self,
        field: AbstractField | AbstractNoiseField,
        key: Key[Array, ""],
        x1: Float[Array, "batch dim"],
        x2: Float[Array, "others dim"],
    ) -> FieldLosses:
        """The two losses for x1, with x2 as the kernel's second points."""
