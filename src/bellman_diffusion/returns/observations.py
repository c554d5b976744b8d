"""Observations of any Gymnasium space: how they are stored, and what a network reads of them."""

import math
from typing import Any

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.spaces.utils import flatdim, flatten
from jaxtyping import Array, Float, Int, Shaped

from bellman_diffusion.errors import InvalidInputError

# Spaces with at most so many observations are stored as an index and read one-hot.
_LARGEST_INDEX = 4096
# MinAtar's boards: what agents keep in their replay.
_LARGEST_IMAGE = 32
# What planners read: a network of their own makes such images smaller first.
LARGEST_PLANNED_IMAGE = 96
# Standardised numbers further out are clipped: there a network's answer means nothing.
_FARTHEST = 10.0


def finite_shape(space: gym.Space) -> tuple[int, ...] | None:
    """The sizes of a discrete space's parts, or None where it is not finite or too large."""
    parts = _discrete_parts(space)
    if parts is None:
        return None
    shape = tuple(int(part.n) for part in parts)
    return shape if np.prod(shape) <= _LARGEST_INDEX else None


def is_image(space: gym.Space) -> bool:
    """Whether observations are (height, width, channels)."""
    return isinstance(space, gym.spaces.Box) and len(space.shape) == 3


def to_row(space: gym.Space, observation: Any) -> Float[np.ndarray, "*shape"]:
    """One observation as it is stored: a finite one as its index, images as they are, others flat."""
    shape = finite_shape(space)
    if shape is not None:
        parts = np.atleast_1d(np.asarray(observation)).reshape(-1).astype(int)
        index = np.ravel_multi_index(tuple(parts - _starts(space)), shape)
        return np.array([index], np.float32)
    if is_image(space):
        return np.asarray(observation, np.float32)
    return np.asarray(flatten(space, observation), np.float32)


def to_rows(space: gym.Space, observations: Any) -> Float[np.ndarray, "n *shape"]:
    """The same of several; an array of numbers is taken as a whole."""
    if isinstance(observations, np.ndarray) and isinstance(space, gym.spaces.Box):
        rows = np.asarray(observations, np.float32)
        if rows.shape[1:] == space.shape:
            return rows if is_image(space) else rows.reshape(len(rows), -1)
    if isinstance(observations, np.ndarray) and isinstance(space, gym.spaces.Discrete):
        index = observations - space.start
        whole = index.ndim == 1 and index.dtype.kind in "iu" and finite_shape(space) is not None
        if whole and np.all((index >= 0) & (index < space.n)):
            return index[:, None].astype(np.float32)
    return np.stack([to_row(space, o) for o in observations])


def compact(space: gym.Space, rows: np.ndarray) -> Shaped[np.ndarray, "..."]:
    """Rows as many of them are kept: images of bytes as bytes."""
    is_bytes = is_image(space) and space.dtype == np.uint8
    return rows.astype(np.uint8) if is_bytes else rows


def timed_space(space: gym.Space) -> gym.Space:
    """Observations with the share of the time limit that has passed, for returns that depend on it."""
    return gym.spaces.Dict(obs=space, time=gym.spaces.Box(0.0, 1.0))


def timed(observation: Any, elapsed: float) -> dict[str, Any]:
    """An observation of that space."""
    return {"obs": observation, "time": np.array([elapsed], np.float32)}


def from_index(space: gym.Space, index: int) -> Any:
    """The observation with this index, of a finite space."""
    shape = finite_shape(space)
    assert shape is not None
    parts = [
        int(i) + s for i, s in zip(np.unravel_index(index, shape), _starts(space), strict=True)
    ]
    if isinstance(space, gym.spaces.Discrete):
        return parts[0]
    return tuple(parts) if isinstance(space, gym.spaces.Tuple) else np.array(parts)


def _starts(space: gym.Space) -> list[int]:
    return [int(part.start) for part in _discrete_parts(space) or []]


def _discrete_parts(space: gym.Space) -> list[Any] | None:
    if isinstance(space, gym.spaces.Discrete):
        return [space]
    if isinstance(space, gym.spaces.MultiDiscrete):
        pairs = zip(space.nvec.reshape(-1), space.start.reshape(-1), strict=True)
        return [gym.spaces.Discrete(int(n), start=int(s)) for n, s in pairs]
    if isinstance(space, gym.spaces.Tuple):
        parts = list(space.spaces)
        return parts if all(isinstance(part, gym.spaces.Discrete) for part in parts) else None
    return None


class ObservationEncoder(eqx.Module):
    """How observations of a space are stored, and what a network reads of them."""

    shape: tuple[int, ...] = eqx.field(static=True)
    """Of a stored observation."""
    n_discrete: int = eqx.field(static=True, default=0)
    """How many observations a finite space has; 0 for others."""
    bytes: bool = eqx.field(static=True, default=False)
    """Whether a byte holds each of its numbers."""
    divisor: float = eqx.field(static=True, default=1.0)

    @classmethod
    def for_space(
        cls, space: gym.Space, env_id: str, largest_image: int = _LARGEST_IMAGE
    ) -> "ObservationEncoder":
        """Finite spaces as an index, images as they are, all else as a row of numbers."""
        discrete = finite_shape(space)
        if discrete is not None:
            return cls((1,), math.prod(discrete))
        if is_image(space):
            return cls._for_image(space, env_id, largest_image)
        if isinstance(space, gym.spaces.Box) and len(space.shape) == 2 and max(space.shape) > 64:
            raise InvalidInputError(
                f"{env_id} shows images of {space.shape} without a channel axis: wrap it so that "
                f"they are (height, width, channels) with at most {largest_image} pixels a side."
            )
        try:
            return cls((flatdim(space),))
        except (NotImplementedError, ValueError) as error:
            raise InvalidInputError(
                f"observations of {space} cannot be read: box, discrete and tuples or dicts of them "
                "can"
            ) from error

    @classmethod
    def _for_image(cls, space: Any, env_id: str, largest: int) -> "ObservationEncoder":
        if max(space.shape[:2]) > largest or min(space.shape[:2]) < 3:
            raise InvalidInputError(
                f"{env_id} shows images of {space.shape}: there is a network for images of 3 to "
                f"{largest} pixels a side only. Register a wrapped environment that makes "
                "them smaller (gymnasium.wrappers.ResizeObservation) or gives features."
            )
        if space.dtype == np.uint8:
            return cls(space.shape, bytes=True, divisor=float(space.high.max()))
        return cls(space.shape)

    @property
    def is_image(self) -> bool:
        """Whether a convolution reads it."""
        return len(self.shape) == 3

    @property
    def n_features(self) -> int:
        """Numbers that a dense network reads."""
        return self.n_discrete or math.prod(self.shape)


class ObservationScaler(eqx.Module):
    """Observations standardised by fixed figures, found before the first update."""

    encoder: ObservationEncoder
    shift: Float[Array, "*shape"]
    scale: Float[Array, "*shape"]
    limit: Float[Array, ""]
    """Standardised numbers further out than this are clipped."""

    @classmethod
    def identity(cls, encoder: ObservationEncoder) -> "ObservationScaler":
        """Numbers as they are."""
        scale = jnp.full(encoder.shape, encoder.divisor)
        return cls(encoder, jnp.zeros(encoder.shape), scale, jnp.asarray(jnp.inf))

    def fitted(self, rows: Shaped[Array, "n *shape"]) -> "ObservationScaler":
        """By the mean and deviation of some rows; indices, images and columns of 0 and 1 stay."""
        if self.encoder.n_discrete or self.encoder.is_image:
            return self
        mean, deviation = jnp.mean(rows, axis=0), jnp.std(rows, axis=0)
        binary = jnp.all((rows == 0) | (rows == 1), axis=0)
        constant = deviation < 1e-6 * (1 + jnp.abs(mean))
        shift = jnp.where(binary, 0.0, mean)
        scale = jnp.where(binary | constant, 1.0, deviation)
        return ObservationScaler(self.encoder, shift, scale, jnp.asarray(_FARTHEST))

    def __call__(self, observation: Shaped[Array, "*shape"]) -> Float[Array, "*features"]:
        """What the network reads of one stored observation."""
        if self.encoder.n_discrete:
            index: Int[Array, ""] = observation[0].astype(jnp.int32)
            return jax.nn.one_hot(index, self.encoder.n_discrete)
        return jnp.clip((observation - self.shift) / self.scale, -self.limit, self.limit)
