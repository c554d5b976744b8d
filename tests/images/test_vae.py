"""The autoencoder and the classifier: shapes, the evidence bound, learning."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bellman_diffusion.images.classifier import Classifier
from bellman_diffusion.images.evaluation import ImageEvaluator
from bellman_diffusion.images.training import fit_classifier
from bellman_diffusion.images.vae import VAE, vae_loss
from bellman_diffusion.metrics import frechet_distance


@pytest.mark.parametrize(("size", "channels"), [(28, 1), (9, 3), (64, 3)])
def test_images_keep_their_shape(size, channels):
    vae = VAE.create(jax.random.key(0), size=size, channels=channels, latent_dim=3, width=4)
    mean, deviation = vae.encode(jnp.zeros((channels, size, size)))
    assert mean.shape == deviation.shape == (3,)
    assert vae.decode(mean).shape == (channels, size, size)


def test_the_loss_is_minus_the_evidence_bound():
    """Against cross-entropy and divergence written out for one image and one draw."""
    vae = VAE.create(jax.random.key(0), size=8, latent_dim=2, width=2, hidden=8)
    image = jax.random.uniform(jax.random.key(1), (1, 8, 8))
    key = jax.random.key(2)
    loss, figures = vae_loss(vae, key, image[None], kl_weight=0.7)
    mean, deviation = vae.encode(image)
    latent = mean + deviation * jax.random.normal(key, (1, 2))[0]
    p = np.asarray(jax.nn.sigmoid(vae.decode(latent)), float)
    x = np.asarray(image, float)
    distortion = -np.sum(x * np.log(p) + (1 - x) * np.log(1 - p))
    variance = np.asarray(deviation, float) ** 2
    divergence = 0.5 * np.sum(variance + np.asarray(mean) ** 2 - 1 - np.log(variance))
    np.testing.assert_allclose(figures["loss/distortion"], distortion, rtol=1e-4)
    np.testing.assert_allclose(figures["loss/divergence"], divergence, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(loss, distortion + 0.7 * divergence, rtol=1e-4)


def test_frechet_distance_of_normal_laws():
    """|μ|² + tr(C₁ + C₂ − 2(C₁C₂)^½); for diagonal covariances Σ(σ₁ − σ₂)²."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(100_000, 3))
    a, b = z * [1.0, 2.0, 0.5], rng.permutation(z) * [2.0, 2.0, 1.5] + [1.0, 0.0, 0.0]
    assert frechet_distance(a, b) == pytest.approx(1 + 1 + 0 + 1, rel=0.02)
    assert frechet_distance(a, a) == pytest.approx(0, abs=1e-8)


def test_a_classifier_learns_and_evaluates():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 400)
    images = rng.integers(0, 60, (400, 1, 12, 12)).astype(np.uint8)
    images[labels == 1, :, 4:8, 4:8] += 150
    classifier = fit_classifier(images[:300], labels[:300], n_steps=100, seed=0)
    assert isinstance(classifier, Classifier)
    evaluator = ImageEvaluator(classifier, images[300:], labels[300:])
    assert evaluator.accuracy > 0.97
    good = evaluator(images[:300], labels[:300])
    bad = evaluator(images[:300][labels[:300] == 1], labels[:300])
    assert good.frechet < 0.2 * bad.frechet
    assert good.histogram_error < 0.02
    assert bad.histogram_error > 0.4
    assert good.confident > 0.9
