"""Observations of any Gymnasium space as rows of numbers, and as what a network reads."""

from typing import Any

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.spaces.utils import flatdim, flatten
from jaxtyping import Array, Float

from bellman_diffusion.errors import InvalidInputError

# Spaces with at most so many observations are read as an index, one weight vector for each.
_LARGEST_INDEX = 4096


def finite_shape(space: gym.Space) -> tuple[int, ...] | None:
    """The sizes of a discrete space's parts, or None where it is not finite or too large."""
    if isinstance(space, gym.spaces.Discrete):
        shape = (int(space.n),)
    elif isinstance(space, gym.spaces.MultiDiscrete):
        shape = tuple(int(n) for n in space.nvec.reshape(-1))
    elif isinstance(space, gym.spaces.Tuple) and all(
        isinstance(part, gym.spaces.Discrete) for part in space.spaces
    ):
        shape = tuple(int(part.n) for part in space.spaces)  # pyright: ignore
    else:
        return None
    return shape if np.prod(shape) <= _LARGEST_INDEX else None


def to_row(space: gym.Space, observation: Any) -> Float[np.ndarray, " features"]:
    """One observation as numbers: a finite one as its index, others flattened."""
    shape = finite_shape(space)
    if shape is None:
        return np.asarray(flatten(space, observation), np.float32)
    parts = np.atleast_1d(np.asarray(observation)).reshape(-1).astype(int)
    starts = [int(part.start) for part in _parts(space)]
    return np.array([np.ravel_multi_index(tuple(parts - starts), shape)], np.float32)


def from_index(space: gym.Space, index: int) -> Any:
    """The observation with this index, of a finite space."""
    shape = finite_shape(space)
    assert shape is not None
    starts = [int(part.start) for part in _parts(space)]
    parts = [int(i) + s for i, s in zip(np.unravel_index(index, shape), starts, strict=True)]
    if isinstance(space, gym.spaces.Discrete):
        return parts[0]
    return tuple(parts) if isinstance(space, gym.spaces.Tuple) else np.array(parts)


def row_size(space: gym.Space) -> int:
    """The length of a row."""
    if finite_shape(space) is not None:
        return 1
    try:
        return flatdim(space)
    except (NotImplementedError, ValueError) as error:
        raise InvalidInputError(
            f"observations of {space} cannot be read: box, discrete and tuples or dicts of them can"
        ) from error


def _parts(space: gym.Space) -> list[Any]:
    if isinstance(space, gym.spaces.Tuple):
        return list(space.spaces)
    if isinstance(space, gym.spaces.MultiDiscrete):
        starts, sizes = space.start.reshape(-1), space.nvec.reshape(-1)
        return [
            gym.spaces.Discrete(int(n), start=int(s)) for n, s in zip(sizes, starts, strict=True)
        ]
    return [space]


class Encoder(eqx.Module):
    """What the network reads of a row: one-hot for an index, standardised numbers otherwise."""

    shift: Float[Array, " features"]
    scale: Float[Array, " features"]
    n_discrete: int = eqx.field(static=True)

    @classmethod
    def for_space(cls, space: gym.Space, rows: Float[np.ndarray, "n features"]) -> "Encoder":
        """Standardise by the rows; entries of 0 and 1 alone stay as they are."""
        shape = finite_shape(space)
        if shape is not None:
            return cls(jnp.zeros(1), jnp.ones(1), int(np.prod(shape)))
        binary = np.all((rows == 0) | (rows == 1), axis=0)
        mean, deviation = rows.mean(axis=0), rows.std(axis=0)
        constant = deviation < 1e-6 * (1 + np.abs(mean))
        shift = np.where(binary, 0, mean)
        scale = np.where(binary | constant, 1, deviation)
        return cls(jnp.asarray(shift, jnp.float32), jnp.asarray(scale, jnp.float32), 0)

    @property
    def size(self) -> int:
        """How many numbers the network reads."""
        return self.n_discrete or self.shift.shape[0]

    def __call__(self, row: Float[Array, " features"]) -> Float[Array, " size"]:
        """One row, for the network."""
        if self.n_discrete:
            return jax.nn.one_hot(row[0].astype(jnp.int32), self.n_discrete)
        # Far outside of what was seen a network's answer means nothing; keep it from exploding.
        return jnp.clip((row - self.shift) / self.scale, -10, 10)
