"""Networks from a scaled observation to a few numbers: dense, or convolutional for small images."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from bellman_diffusion.returns.observations import ObservationEncoder

_CHANNELS = 16
Activation = Callable[[Array], Array]


class DenseNetwork(eqx.Module):
    """Layers with an activation between them, as CleanRL, Dopamine and SB3 have them."""

    layers: tuple[eqx.nn.Linear, ...]
    activation: Activation = eqx.field(static=True, default=jax.nn.relu)

    @classmethod
    def create(
        cls,
        key: Key[Array, ""],
        n_in: int,
        hidden: tuple[int, ...],
        n_out: int,
        activation: Activation = jax.nn.relu,
    ) -> "DenseNetwork":
        """Random weights."""
        sizes = (n_in, *hidden, n_out)
        keys = jax.random.split(key, len(sizes) - 1)
        shapes = zip(sizes[:-1], sizes[1:], keys, strict=True)
        return cls(tuple(eqx.nn.Linear(a, b, key=k) for a, b, k in shapes), activation)

    def __call__(self, x: Float[Array, " features"]) -> Float[Array, " outputs"]:
        """One observation."""
        for layer in self.layers[:-1]:
            # All bits are kept: the call only keeps XLA from fusing the layers into one slow kernel.
            x = jax.lax.reduce_precision(self.activation(layer(x)), 8, 23)
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
        cls,
        key: Key[Array, ""],
        shape: tuple[int, ...],
        hidden: tuple[int, ...],
        n_out: int,
        activation: Activation = jax.nn.relu,
    ) -> "ImageNetwork":
        """Random weights, for images of (height, width, channels)."""
        height, width, channels = shape
        first, second = jax.random.split(key)
        filters = eqx.nn.Linear(9 * channels, _CHANNELS, key=first)
        n_in = _CHANNELS * (height - 2) * (width - 2)
        return cls(filters, DenseNetwork.create(second, n_in, hidden, n_out, activation))

    def __call__(self, x: Float[Array, "height width channels"]) -> Float[Array, " outputs"]:
        """One image."""
        height, width, _ = x.shape
        shifted = [x[i : height - 2 + i, j : width - 2 + j] for i in range(3) for j in range(3)]
        patches = jnp.concatenate(shifted, axis=-1).reshape((height - 2) * (width - 2), -1)
        return self.dense(jax.nn.relu(jax.vmap(self.filters)(patches)).reshape(-1))


Network = DenseNetwork | ImageNetwork


def make_network(
    encoder: ObservationEncoder,
    key: Key[Array, ""],
    hidden: tuple[int, ...],
    n_out: int,
    activation: Activation = jax.nn.relu,
) -> Network:
    """A random network from a scaled observation to `n_out` numbers."""
    if encoder.is_image:
        return ImageNetwork.create(key, encoder.shape, hidden, n_out, activation)
    return DenseNetwork.create(key, encoder.n_features, hidden, n_out, activation)


def last_layer(network: Network) -> eqx.nn.Linear:
    """The layer that the outputs are linear in."""
    return (network.dense if isinstance(network, ImageNetwork) else network).layers[-1]
