"""What a classifier that was trained on real images says of generated ones."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import msgspec
import numpy as np
from jaxtyping import Array, Float, Integer, UInt8

from bellman_diffusion.blocks import in_blocks
from bellman_diffusion.images.classifier import Classifier
from bellman_diffusion.images.convolution import Image
from bellman_diffusion.images.reading import Images
from bellman_diffusion.images.training import as_numbers
from bellman_diffusion.metrics import frechet_distance

CONFIDENT = 0.9
_BLOCK = 256


class ImageFigures(msgspec.Struct, kw_only=True):
    """How near generated images come to real ones."""

    frechet: float
    confident: float
    """The share of images that the classifier is at least 90 % sure of."""
    histogram_error: float
    """The largest error of a class's frequency."""


class ImageEvaluator:
    """Compares images with real ones that the classifier did not learn from."""

    def __init__(
        self, classifier: Classifier, images: Images, labels: Integer[np.ndarray, " n"]
    ) -> None:
        self._classifier = classifier
        self._features, shares = self._look(images)
        self.accuracy = float(np.mean(shares.argmax(axis=1) == labels))

    def __call__(self, images: Images, labels: Integer[np.ndarray, " m"]) -> ImageFigures:
        """Fréchet distance, share of confident images, largest error of a class's frequency.

        `labels` are those of the data, whose frequencies are the right ones.
        """
        features, shares = self._look(images)
        n_classes = shares.shape[1]
        wanted = np.bincount(labels, minlength=n_classes) / len(labels)
        found = np.bincount(shares.argmax(axis=1), minlength=n_classes) / len(images)
        return ImageFigures(
            frechet=frechet_distance(features, self._features),
            confident=float(np.mean(shares.max(axis=1) >= CONFIDENT)),
            histogram_error=float(np.max(np.abs(found - wanted))),
        )

    def classes(self, images: Images) -> Integer[np.ndarray, " n"]:
        """What the classifier takes images for."""
        return self._look(images)[1].argmax(axis=1)

    def _look(
        self, images: Images
    ) -> tuple[Float[np.ndarray, "n features"], Float[np.ndarray, "n classes"]]:
        return in_blocks(lambda _, rows: _look(self._classifier, rows), images, _BLOCK)


@eqx.filter_jit
def _look(classifier: Classifier, images: UInt8[Array, "n channels size size"]) -> Any:
    def one(image: Image) -> tuple[Array, Array]:
        features = classifier.features(image)
        return features, jax.nn.softmax(classifier.last(features))

    return jax.vmap(one)(as_numbers(jnp.asarray(images)))
