"""DDPM: its schedule and sampler against closed forms, and a small training."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bellman_diffusion.baselines import DDPM, DdpmSettings
from bellman_diffusion.baselines.ddpm import _sample, signal_shares

SIZE, TIMES = 0.5, 200


class ExactNoise(eqx.Module):
    """E[ε | x_t] for data N(0, SIZE²): √(1 − ᾱ) x / (ᾱ SIZE² + 1 − ᾱ)."""

    def __call__(self, x, t):
        share = jnp.asarray(signal_shares(TIMES), jnp.float32)[jnp.round(t * TIMES).astype(int)]
        return jnp.sqrt(1 - share) * x / (share * SIZE**2 + 1 - share)


def test_the_schedule_falls_from_all_to_nothing():
    shares = signal_shares(TIMES)
    assert np.all(np.diff(shares) < 0)
    assert shares[0] > 0.99
    assert shares[-1] < 1e-5


def test_exact_noise_gives_back_the_data():
    """20,000 draws: the deviation is known to 0.5 %; 200 steps add a little of their own."""
    wide = jnp.array([[-9.0], [9.0]])
    rows = np.asarray(_sample(ExactNoise(), jax.random.key(0), 20_000, 1, TIMES, wide))
    assert abs(rows.mean()) < 0.015
    assert rows.std() == pytest.approx(SIZE, rel=0.03)


def test_rows_stay_where_the_data_is():
    narrow = jnp.array([[-0.1], [0.2]])
    rows = np.asarray(_sample(ExactNoise(), jax.random.key(0), 200, 1, TIMES, narrow))
    assert rows.min() > -0.11
    assert rows.max() < 0.21


@pytest.mark.parametrize("transform", ["standard", "quantile"])
def test_a_small_training_finds_mean_and_spread(transform):
    rng = np.random.default_rng(0)
    data = rng.normal(size=(500, 2)) @ np.array([[2.0, 1.0], [0.0, 0.5]]) + [10.0, -3.0]
    settings = DdpmSettings(
        layers=(64, 64), n_times=100, max_iter=1500, batch_size=128, transform=transform
    )
    made = DDPM(settings, random_state=1).fit(data).sample(2000, random_state=2)
    np.testing.assert_allclose(made.mean(axis=0), data.mean(axis=0), atol=0.25)
    np.testing.assert_allclose(np.cov(made.T), np.cov(data.T), rtol=0.25, atol=0.1)
