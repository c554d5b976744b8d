"""The score model at many noise levels: its flow against a closed form, and a small training."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bellman_diffusion.baselines import ScoreFlowModel, ScoreFlowSettings
from bellman_diffusion.baselines.score_flow import follow_flow

SIZE = 0.5
SETTINGS = ScoreFlowSettings()


class ExactNoise(eqx.Module):
    """E[ε | x_σ] for data N(0, SIZE²): σx/(SIZE² + σ²)."""

    def __call__(self, x, t):
        low, high = SETTINGS.sigma_min, SETTINGS.sigma_max
        sigma = low * (high / low) ** t
        return sigma * x * jnp.sqrt(1 + sigma**2) / (SIZE**2 + sigma**2)


def test_exact_noise_gives_back_the_data():
    """20,000 draws: the deviation is known to 0.5 %; a hundred steps add a little of their own."""
    rows = np.asarray(follow_flow(ExactNoise(), jax.random.key(0), 20_000, 1, SETTINGS))
    assert abs(rows.mean()) < 0.015
    assert rows.std() == pytest.approx(SIZE, rel=0.03)


def test_a_small_training_finds_mean_and_spread():
    rng = np.random.default_rng(0)
    data = rng.normal(size=(600, 2)) @ np.array([[2.0, 1.0], [0.0, 0.5]]) + [10.0, -3.0]
    settings = ScoreFlowSettings(layers=(64, 64), max_iter=1500, batch_size=128)
    model = ScoreFlowModel(settings, random_state=1).fit(data[:500], validation=data[500:])
    made = model.sample(2000, random_state=2)
    np.testing.assert_allclose(made.mean(axis=0), data.mean(axis=0), atol=0.25)
    np.testing.assert_allclose(np.cov(made.T), np.cov(data.T), rtol=0.25, atol=0.15)
