"""A sampler is a pure pair `init`, `step` on a batch of paths; `sample` runs it under `lax.scan`."""

from abc import abstractmethod
from typing import Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import equinox as eqx
from jaxtyping import Array, Bool, Float

from bellman_diffusion.fields.base import RandomKey

Paths = Float[Array, "paths dim"]


@runtime_checkable
class HasPosition(Protocol):
    """Any state of a sampler: it knows where its paths are."""

    @property
    def position(self) -> Paths:
        """The paths' points."""
        ...


class PathState(NamedTuple):
    """Where the paths are, and nothing else."""

    position: Paths


class Info(NamedTuple):
    """What a step did: which paths moved."""

    accepted: Bool[Array, " paths"]


StateT = TypeVar("StateT", bound=HasPosition)


class AbstractDynamics(eqx.Module, Generic[StateT]):
    """A Markov kernel on R^D with the number of steps it is meant to run for."""

    n_steps: eqx.AbstractVar[int]

    @abstractmethod
    def init(self, position: Paths) -> StateT:
        """The state of paths that start at `position`."""

    @abstractmethod
    def step(self, key: RandomKey, state: StateT) -> tuple[StateT, Info]:
        """One step of every path."""
