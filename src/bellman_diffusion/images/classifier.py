"""A small convolutional classifier: its features and confidence evaluate generated images."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Integer, Key

from bellman_diffusion.images.convolution import Convolution, Image, halvings, padded_to_four

_FEATURES = 64
_MOST_SHIFT = 2


class Classifier(eqx.Module):
    """Two strided convolutions and two dense layers."""

    convolutions: list[Convolution]
    hidden: eqx.nn.Linear
    last: eqx.nn.Linear

    @classmethod
    def create(
        cls, key: Key[Array, ""], *, size: int, channels: int, n_classes: int, width: int = 32
    ) -> "Classifier":
        """Random weights."""
        keys = jax.random.split(key, 3)
        return cls(
            convolutions=halvings(keys[0], channels, width),
            hidden=eqx.nn.Linear(2 * width * (-(-size // 4)) ** 2, _FEATURES, key=keys[1]),
            last=eqx.nn.Linear(_FEATURES, n_classes, key=keys[2]),
        )

    def features(self, image: Image) -> Float[Array, " features"]:
        """What the last layer decides by."""
        x = padded_to_four(image)
        for layer in self.convolutions:
            x = jax.nn.silu(layer(x))
        return jax.nn.silu(self.hidden(x.ravel()))

    def __call__(self, image: Image) -> Float[Array, " classes"]:
        """Log-odds of the classes."""
        return self.last(self.features(image))


def classifier_loss(
    classifier: Classifier,
    key: Key[Array, ""],
    images: Float[Array, "n channels size size"],
    labels: Integer[Array, " n"],
) -> Float[Array, ""]:
    """Cross-entropy on images that are shifted by up to two pixels."""
    shifts = jax.random.randint(key, (len(images), 2), -_MOST_SHIFT, _MOST_SHIFT + 1)
    moved = jax.vmap(lambda image, shift: jnp.roll(image, shift, axis=(1, 2)))(images, shifts)
    logits = jax.vmap(classifier)(moved)
    return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(logits, labels))
