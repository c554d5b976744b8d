"""The floor of the synthetic sets: what fresh data is from fresh data, no more and no less."""

import numpy as np
import pytest
from scipy.stats import wasserstein_distance

from bellman_diffusion.data.toy import TOY_SETS
from bellman_diffusion.metrics.wasserstein import wasserstein_1
from bellman_diffusion.paper import toy_cells
from bellman_diffusion.paper.toy_cells import ToySettings

SETTINGS = ToySettings(n_compare=150, n_repeats=24)


@pytest.mark.parametrize("distribution", TOY_SETS, ids=lambda distribution: distribution.name)
def test_samples_of_the_set_itself_are_at_the_floor(distribution):
    """Fresh draws in place of a model's: their W1 over the floor is 1, within 15 %."""
    rng = np.random.default_rng(0)
    samples = distribution.draw(SETTINGS.n_compare * SETTINGS.n_repeats, rng)
    w1, floor = toy_cells._compare(distribution, samples, SETTINGS, rng)
    assert w1 / floor == pytest.approx(1, rel=0.15)


@pytest.mark.parametrize("distribution", TOY_SETS, ids=lambda distribution: distribution.name)
def test_the_floor_is_the_mean_distance_of_two_fresh_sets(distribution):
    """Against 100 pairs of our own, within 15 %."""
    rng = np.random.default_rng(1)
    samples = distribution.draw(SETTINGS.n_compare * SETTINGS.n_repeats, rng)
    _, floor = toy_cells._compare(distribution, samples, SETTINGS, rng)
    own = []
    for _ in range(100):
        a, b = distribution.draw(150, rng), distribution.draw(150, rng)
        one_dimension = a.shape[1] == 1
        own.append(wasserstein_distance(a[:, 0], b[:, 0]) if one_dimension else wasserstein_1(a, b))
    assert floor == pytest.approx(np.mean(own), rel=0.15)


def test_samples_that_are_not_finite_have_no_distance_but_a_floor():
    distribution = TOY_SETS[-1]
    samples = np.full((60, 2), np.nan)
    w1, floor = toy_cells._compare(
        distribution, samples, ToySettings(n_compare=30, n_repeats=2), _rng()
    )
    assert w1 is None
    assert floor > 0


def _rng():
    return np.random.default_rng(2)
