"""Training of the networks for images, on bytes: a batch becomes numbers when it is used."""

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Integer, Key, UInt8

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
    def init(key: Key[Array, ""]) -> VAE:
        return VAE.create(key, size=size, channels=channels, latent_dim=latent_dim)

    def loss(vae, _average, key, data, n_rows):
        key_rows, key_loss = jax.random.split(key)
        rows = jax.random.randint(key_rows, (_BATCH,), 0, n_rows)
        return vae_loss(vae, key_loss, as_numbers(data[0][rows]), kl_weight)

    return Trainer.compile(init, loss, _SCHEDULE, _CHUNK_STEPS)


@lru_cache(maxsize=8)
def _classifier_trainer(size: int, channels: int, n_classes: int) -> Trainer:
    def init(key: Key[Array, ""]) -> Classifier:
        return Classifier.create(key, size=size, channels=channels, n_classes=n_classes)

    def loss(classifier, _average, key, data, n_rows):
        key_rows, key_shift = jax.random.split(key)
        rows = jax.random.randint(key_rows, (_BATCH,), 0, n_rows)
        return classifier_loss(classifier, key_shift, as_numbers(data[0][rows]), data[1][rows]), {}

    return Trainer.compile(init, loss, _SCHEDULE, _CHUNK_STEPS)
