"""Training of the networks for images, on bytes: a batch becomes numbers when it is used."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Integer, UInt8

from bellman_diffusion.images.classifier import Classifier, classifier_loss
from bellman_diffusion.images.reading import Images
from bellman_diffusion.images.vae import VAE, vae_loss
from bellman_diffusion.training import Progress, RunFolder, Trainer
from bellman_diffusion.training.optimiser import Schedule

_CHUNK_STEPS = 50
_BATCH = 128
_SCHEDULE = Schedule(learning_rate=2e-3, ema_decay=0.995, adam_b2=0.999)


def fit_vae(
    images: Images,
    *,
    latent_dim: int,
    kl_weight: float,
    n_steps: int,
    seed: int,
    run: RunFolder | None = None,
    progress: Progress | None = None,
) -> VAE:
    """Train an autoencoder."""
    trainer = _vae_trainer(images.shape[2], images.shape[1], latent_dim, kl_weight)
    data = (jnp.asarray(images),)
    return trainer.fit(seed, n_steps, data, len(images), run=run, progress=progress).model


def fit_classifier(
    images: Images,
    labels: Integer[np.ndarray, " n"],
    *,
    n_steps: int,
    seed: int,
    run: RunFolder | None = None,
    progress: Progress | None = None,
) -> Classifier:
    """Train a classifier."""
    trainer = _classifier_trainer(images.shape[2], images.shape[1], int(labels.max()) + 1)
    data = (jnp.asarray(images), jnp.asarray(labels))
    return trainer.fit(seed, n_steps, data, len(images), run=run, progress=progress).model


def as_numbers(images: UInt8[Array, "*n"]) -> Float[Array, "*n"]:
    """Bytes as numbers in [0, 1]."""
    return images.astype(jnp.float32) / 255


@lru_cache(maxsize=8)
def _vae_trainer(size: int, channels: int, latent_dim: int, kl_weight: float) -> Trainer:
    return _trainer(
        lambda key: VAE.create(key, size=size, channels=channels, latent_dim=latent_dim),
        lambda vae, key, images: vae_loss(vae, key, images, kl_weight),
    )


@lru_cache(maxsize=8)
def _classifier_trainer(size: int, channels: int, n_classes: int) -> Trainer:
    return _trainer(
        lambda key: Classifier.create(key, size=size, channels=channels, n_classes=n_classes),
        lambda classifier, key, *batch: (classifier_loss(classifier, key, *batch), {}),
    )


def _trainer(init: Callable[..., Any], batch_loss: Callable[..., Any]) -> Trainer:
    """For a loss of (model, key, images as numbers, what else there is of each)."""

    def loss(model, _average, key, data, n_rows):
        key_rows, key_loss = jax.random.split(key)
        rows = jax.random.randint(key_rows, (_BATCH,), 0, n_rows)
        images, *others = (a[rows] for a in data)
        return batch_loss(model, key_loss, as_numbers(images), *others)

    return Trainer.compile(init, loss, _SCHEDULE, _CHUNK_STEPS)
