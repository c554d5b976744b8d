"""Networks that read an observation: dense, or convolutional for small images."""

import math

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from bellman_diffusion.bellman.observations import finite_shape, row_size
from bellman_diffusion.errors import InvalidInputError

_CHANNELS = 16
# MinAtar's boards; larger pictures need pooling, which these networks have not.
_LARGEST_IMAGE = 32
# Deviations from the mean of what was seen at first.
_FARTHEST = 10.0


class DenseNetwork(eqx.Module):
    """Layers with relu between them, as CleanRL, Dopamine and SB3 have them."""

    layers: tuple[eqx.nn.Linear, ...]

    @classmethod
    def create(
        cls, key: Key[Array, ""], n_in: int, hidden: tuple[int, ...], n_out: int
    ) -> "DenseNetwork":
        """Random weights."""
        sizes = (n_in, *hidden, n_out)
        keys = jax.random.split(key, len(sizes) - 1)
        return cls(
            tuple(
                eqx.nn.Linear(a, b, key=k)
                for a, b, k in zip(sizes[:-1], sizes[1:], keys, strict=True)
            )
        )

    def __call__(self, x: Float[Array, " features"]) -> Float[Array, " outputs"]:
        """One observation."""
        for layer in self.layers[:-1]:
            # All bits are kept: the call only keeps XLA from fusing the layers into one slow kernel.
            x = jax.lax.reduce_precision(jax.nn.relu(layer(x)), 8, 23)
        return self.layers[-1](x)


class ImageNetwork(eqx.Module):
    """A 3×3 convolution, then dense layers: MinAtar's own network.

    The convolution is a product of each pixel's neighbourhood with one matrix: on a CPU, under `vmap`,
    ten times as fast as XLA's own.
    """

    filters: eqx.nn.Linear
    dense: DenseNetwork

    @classmethod
    def create(
        cls, key: Key[Array, ""], shape: tuple[int, ...], hidden: tuple[int, ...], n_out: int
    ) -> "ImageNetwork":
        """Random weights, for images of (height, width, channels)."""
        height, width, channels = shape
        first, second = jax.random.split(key)
        filters = eqx.nn.Linear(9 * channels, _CHANNELS, key=first)
        n_in = _CHANNELS * (height - 2) * (width - 2)
        return cls(filters, DenseNetwork.create(second, n_in, hidden, n_out))

    def __call__(self, x: Float[Array, "height width channels"]) -> Float[Array, " outputs"]:
        """One image."""
        height, width, _ = x.shape
        shifted = [x[i : height - 2 + i, j : width - 2 + j] for i in range(3) for j in range(3)]
        patches = jnp.concatenate(shifted, axis=-1).reshape((height - 2) * (width - 2), -1)
        return self.dense(jax.nn.relu(jax.vmap(self.filters)(patches)).reshape(-1))


class Reader(eqx.Module):
    """How observations of a space are kept, and what a network reads of them."""

    shape: tuple[int, ...] = eqx.field(static=True)
    """Of a kept observation."""
    n_discrete: int = eqx.field(static=True)
    """How many a finite space has; 0 for others."""
    bytes: bool = eqx.field(static=True, default=False)
    """Whether a byte holds each number of it."""
    divisor: float = eqx.field(static=True, default=1.0)

    @classmethod
    def for_space(cls, space: gym.Space, env_id: str) -> "Reader":
        """Finite spaces as an index, small images as they are, all else as a row of numbers."""
        discrete = finite_shape(space)
        if discrete is not None:
            return cls((1,), math.prod(discrete))
        if isinstance(space, gym.spaces.Box) and len(space.shape) == 3:
            if max(space.shape[:2]) > _LARGEST_IMAGE or min(space.shape[:2]) < 3:
                raise InvalidInputError(
                    f"{env_id} shows images of {space.shape}: there is a network for images of 3 to "
                    f"{_LARGEST_IMAGE} pixels a side only. Register a wrapped environment that makes "
                    "them smaller (gymnasium.wrappers.ResizeObservation) or gives features."
                )
            if space.dtype == np.uint8:
                return cls(space.shape, 0, bytes=True, divisor=float(space.high.max()))
            return cls(space.shape, 0)
        if isinstance(space, gym.spaces.Box) and len(space.shape) == 2 and max(space.shape) > 64:
            raise InvalidInputError(
                f"{env_id} shows images of {space.shape} without a channel axis: wrap it so that "
                f"they are (height, width, channels) with at most {_LARGEST_IMAGE} pixels a side."
            )
        return cls((row_size(space),), 0)

    @property
    def is_image(self) -> bool:
        """Whether a convolution reads it."""
        return len(self.shape) == 3

    @property
    def n_features(self) -> int:
        """Numbers that a dense network reads."""
        return self.n_discrete or math.prod(self.shape)

    def network(self, key: Key[Array, ""], hidden: tuple[int, ...], n_out: int) -> eqx.Module:
        """A random network from a read observation to `n_out` numbers."""
        if self.is_image:
            return ImageNetwork.create(key, self.shape, hidden, n_out)
        return DenseNetwork.create(key, self.n_features, hidden, n_out)


class Scaling(eqx.Module):
    """Observations standardised by fixed figures, found before the first update."""

    reader: Reader
    shift: Float[Array, "*shape"]
    scale: Float[Array, "*shape"]
    limit: Float[Array, ""]
    """Standardised numbers further out than this are cut off."""

    @classmethod
    def none(cls, reader: Reader) -> "Scaling":
        """Numbers as they are."""
        scale = jnp.full(reader.shape, reader.divisor)
        return cls(reader, jnp.zeros(reader.shape), scale, jnp.asarray(jnp.inf))

    def fitted(self, rows: Float[Array, "n *shape"]) -> "Scaling":
        """By the mean and deviation of some observations; indices and images stay as they are."""
        if self.reader.n_discrete or self.reader.is_image:
            return self
        mean, deviation = jnp.mean(rows, axis=0), jnp.std(rows, axis=0)
        binary = jnp.all((rows == 0) | (rows == 1), axis=0)
        constant = deviation < 1e-6 * (1 + jnp.abs(mean))
        shift = jnp.where(binary, 0.0, mean)
        scale = jnp.where(binary | constant, 1.0, deviation)
        return Scaling(self.reader, shift, scale, jnp.asarray(_FARTHEST))

    def __call__(self, observation: Float[Array, "*shape"]) -> Float[Array, "*features"]:
        """What the network reads of one kept observation."""
        if self.reader.n_discrete:
            index: Int[Array, ""] = observation[0].astype(jnp.int32)
            return jax.nn.one_hot(index, self.reader.n_discrete)
        return jnp.clip((observation - self.shift) / self.scale, -self.limit, self.limit)
