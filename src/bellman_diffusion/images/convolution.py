"""Convolutions as matrix products.

XLA's own convolutions inside a compiled loop on a CPU are some forty times slower than a product of the
same size; patches are taken by strided slices, which cost little.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

Image = Float[Array, "channels size size"]


class Convolution(eqx.Module):
    """A square kernel over an image with its channels last; `stride` 2 halves its sides."""

    linear: eqx.nn.Linear
    kernel: int = eqx.field(static=True)
    stride: int = eqx.field(static=True)

    def __init__(
        self, n_in: int, n_out: int, key: Key[Array, ""], *, kernel: int = 3, stride: int = 1
    ) -> None:
        self.linear = eqx.nn.Linear(kernel**2 * n_in, n_out, key=key)
        self.kernel, self.stride = kernel, stride

    def __call__(self, image: Float[Array, "h w n_in"]) -> Float[Array, "a b n_out"]:
        """The image's sides must be multiples of the stride."""
        k, s = self.kernel, self.stride
        height, width, _ = image.shape
        before = (k - s) // 2
        after = k - s - before
        padded = jnp.pad(image, ((before, after), (before, after), (0, 0)))
        patches = [
            padded[i : i + height : s, j : j + width : s] for i in range(k) for j in range(k)
        ]
        bias = self.linear.bias
        assert bias is not None
        return jnp.concatenate(patches, axis=2) @ self.linear.weight.T + bias


class Doubling(eqx.Module):
    """An image of twice the sides: four times the channels, dealt out to four pixels each."""

    convolution: Convolution

    def __init__(self, n_in: int, n_out: int, key: Key[Array, ""]) -> None:
        self.convolution = Convolution(n_in, 4 * n_out, key)

    def __call__(self, image: Float[Array, "h w n_in"]) -> Float[Array, "2*h 2*w n_out"]:
        """Twice as high and wide."""
        height, width, _ = image.shape
        dealt = self.convolution(image).reshape(height, width, 2, 2, -1)
        return jnp.swapaxes(dealt, 1, 2).reshape(2 * height, 2 * width, -1)


def padded_to_four(image: Image) -> Float[Array, "side side channels"]:
    """An image with its channels last, its sides multiples of 4."""
    margin = -image.shape[1] % 4
    return jnp.moveaxis(jnp.pad(image, ((0, 0), (0, margin), (0, margin))), 0, 2)


def halvings(key: Key[Array, ""], channels: int, width: int) -> list[Convolution]:
    """Two convolutions that leave a quarter of the sides: `width` channels, then twice as many."""
    first, second = jax.random.split(key)
    return [
        Convolution(channels, width, first, kernel=4, stride=2),
        Convolution(width, 2 * width, second, kernel=4, stride=2),
    ]
