"""Networks from a scaled observation to a few numbers: dense, or for images."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from bellman_diffusion.returns.observations import ObservationEncoder

_CHANNELS = 16
# Images with a longer side are first made smaller: patches of so many pixels, then of so many patches.
_LARGEST_WHOLE = 32
_PATCHES = (4, 2)
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


# From the number of inputs to a dense network.
MakeDense = Callable[[int], DenseNetwork]


class ImageNetwork(eqx.Module):
    """A 3×3 convolution, then dense layers: MinAtar's own network.

    The convolution is a product of each pixel's neighbourhood with one matrix: on a CPU, under `vmap`,
    ten times as fast as XLA's own.
    """

    filters: eqx.nn.Linear
    dense: DenseNetwork

    @classmethod
    def create(
        cls, key: Key[Array, ""], shape: tuple[int, ...], dense: MakeDense
    ) -> "ImageNetwork":
        """Random filters for images of (height, width, channels), and what reads them."""
        height, width, channels = shape
        filters = eqx.nn.Linear(9 * channels, _CHANNELS, key=key)
        return cls(filters, dense(_CHANNELS * (height - 2) * (width - 2)))

    def __call__(self, x: Float[Array, "height width channels"]) -> Float[Array, " outputs"]:
        """One image."""
        height, width, _ = x.shape
        shifted = [x[i : height - 2 + i, j : width - 2 + j] for i in range(3) for j in range(3)]
        patches = jnp.concatenate(shifted, axis=-1).reshape((height - 2) * (width - 2), -1)
        return self.dense(jax.nn.relu(jax.vmap(self.filters)(patches)).reshape(-1))


class PatchNetwork(eqx.Module):
    """Convolutions without overlap, of 4×4 pixels and then of 2×2 patches, and dense layers.

    Each is one product of matrices: an image of 96×96 becomes 12×12 patches at little cost on a CPU.
    """

    filters: tuple[eqx.nn.Linear, ...]
    dense: DenseNetwork

    @classmethod
    def create(
        cls, key: Key[Array, ""], shape: tuple[int, ...], dense: MakeDense
    ) -> "PatchNetwork":
        """Random filters for images of (height, width, channels), and what reads them."""
        (height, width, channels), layers = shape, []
        for i, size in enumerate(_PATCHES):
            layer = jax.random.fold_in(key, i)
            layers.append(eqx.nn.Linear(size**2 * channels, (i + 1) * _CHANNELS, key=layer))
            height, width, channels = -(-height // size), -(-width // size), (i + 1) * _CHANNELS
        return cls(tuple(layers), dense(height * width * channels))

    def __call__(self, x: Float[Array, "height width channels"]) -> Float[Array, " outputs"]:
        """One image; zeros fill its last patches."""
        for size, layer in zip(_PATCHES, self.filters, strict=True):
            x = jax.nn.relu(jax.vmap(jax.vmap(layer))(_patches(x, size)))
        return self.dense(x.reshape(-1))


def _patches(
    x: Float[Array, "height width channels"], size: int
) -> Float[Array, "rows columns patch"]:
    """Squares of pixels next to each other, each as one vector."""
    height, width, channels = x.shape
    x = jnp.pad(x, ((0, -height % size), (0, -width % size), (0, 0)))
    rows, columns = x.shape[0] // size, x.shape[1] // size
    parts = x.reshape(rows, size, columns, size, channels).swapaxes(1, 2)
    return parts.reshape(rows, columns, -1)


Network = DenseNetwork | ImageNetwork | PatchNetwork


def make_network(
    encoder: ObservationEncoder,
    key: Key[Array, ""],
    hidden: tuple[int, ...],
    n_out: int,
    activation: Activation = jax.nn.relu,
) -> Network:
    """A random network from a scaled observation to `n_out` numbers."""
    if not encoder.is_image:
        return DenseNetwork.create(key, encoder.n_features, hidden, n_out, activation)
    kind = ImageNetwork if max(encoder.shape[:2]) <= _LARGEST_WHOLE else PatchNetwork
    first, second = jax.random.split(key)
    return kind.create(
        first,
        encoder.shape,
        lambda n_in: DenseNetwork.create(second, n_in, hidden, n_out, activation),
    )


def last_layer(network: Network) -> eqx.nn.Linear:
    """The layer that the outputs are linear in."""
    return (network if isinstance(network, DenseNetwork) else network.dense).layers[-1]
