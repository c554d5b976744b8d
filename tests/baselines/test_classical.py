"""Kernel density, Gaussian mixture and interpolation: each makes the distribution that it should."""

import numpy as np
import pytest

from bellman_diffusion.baselines import InterpolationModel, KernelModel, MixtureModel
from bellman_diffusion.metrics import closest_record_share, wasserstein_1


def two_clouds(n, seed):
    rng = np.random.default_rng(seed)
    side = rng.uniform(size=n) < 0.3
    return np.where(side[:, None], [6.0, 0.0], [0.0, 2.0]) + rng.normal(size=(n, 2)) * [1.0, 0.5]


@pytest.mark.parametrize("model", [KernelModel(), MixtureModel(), InterpolationModel()])
def test_samples_are_as_near_as_fresh_rows(model):
    """W1 to fresh rows at most 1.3 times that of the training rows (0.3 at this size)."""
    train, fresh = (two_clouds(600, seed) for seed in range(2))
    made = model.fit(train).sample(600, random_state=4)
    assert made.shape == (600, 2)
    assert wasserstein_1(made, fresh) < 1.3 * wasserstein_1(train, fresh)
    np.testing.assert_array_equal(made, model.sample(600, random_state=4))
    assert not np.array_equal(made, model.sample(600, random_state=5))


def test_the_mixture_finds_two_parts():
    assert MixtureModel().fit(two_clouds(600, 0)).mixture_.n_components == 2


def test_the_kernel_is_wide_where_rows_are_few():
    few, many = (KernelModel().fit(two_clouds(n, 0)).width_ for n in (40, 2000))
    assert few > many


def test_interpolated_rows_lie_between_two_rows():
    train = two_clouds(30, 0)
    model = InterpolationModel(n_neighbours=3).fit(train)
    made = model.sample(200, random_state=0)
    to_rows = np.linalg.norm(made[:, None] - train, axis=2)
    # On a segment the distances to its ends add up to its length.
    excess = to_rows[:, :, None] + to_rows[:, None] - np.linalg.norm(train[:, None] - train, axis=2)
    assert np.all(np.min(excess + 1e3 * np.eye(30), axis=(1, 2)) < 1e-9)
    assert closest_record_share(made, train, two_clouds(30, 1)) > 0.7


def test_two_rows_are_enough():
    train = np.array([[0.0, 1.0], [1.0, 3.0]])
    assert InterpolationModel().fit(train).sample(3).shape == (3, 2)
