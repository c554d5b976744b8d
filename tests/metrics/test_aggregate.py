"""Figures over seeds: the middle half, and what a bootstrap leaves open."""

import numpy as np
import pytest
from scipy.stats import binom

from bellman_diffusion.metrics.aggregate import iqm, iqm_interval, median_ratio_interval


def test_the_interquartile_mean_leaves_out_the_best_and_the_worst_quarter():
    values = np.array([1000.0, 2.0, -900.0, 5.0, 3.0, -50.0, 4.0, 70.0])
    # Sorted: −900, −50 | 2, 3, 4, 5 | 70, 1000.
    assert float(iqm(values)) == pytest.approx(3.5)


def test_the_interquartile_mean_is_taken_over_the_last_axis():
    values = np.stack([np.arange(8.0), np.arange(8.0)[::-1] ** 2])
    np.testing.assert_allclose(iqm(values), [3.5, (4 + 9 + 16 + 25) / 4])


def test_one_seed_in_eight_cannot_move_the_interquartile_mean_without_bound():
    values = np.arange(8.0)
    values[-1] = 1e9
    assert float(iqm(values)) == pytest.approx(3.5)


def test_the_bootstrap_interval_of_the_interquartile_mean_leaves_out_its_tails():
    """Against a bootstrap of our own with ten times the draws: within a tenth of its width."""
    values = np.random.default_rng(1).normal(size=20)
    low, high = iqm_interval(values)
    picks = np.random.default_rng(2).integers(0, 20, (10_000, 20))
    middle = np.sort(values[picks], axis=1)[:, 5:15].mean(axis=1)
    wanted = np.quantile(middle, [0.025, 0.975])
    np.testing.assert_allclose([low, high], wanted, atol=0.1 * np.ptp(wanted))


def test_a_wider_level_gives_a_wider_interval():
    values = np.random.default_rng(1).normal(size=(3, 20))
    narrow, wide = (iqm_interval(values, level) for level in (0.5, 0.95))
    assert narrow[0].shape == (3,)
    assert np.all(wide[0] < narrow[0])
    assert np.all(narrow[1] < wide[1])


def test_the_interval_of_a_ratio_of_medians_leaves_out_a_fortieth_on_each_side():
    """Five ones and twelve twos: 3.6 % of the bootstrap's medians are 1, by the binomial distribution.

    That is more than 2.5 %, so the low end is 1; an interval of 90 % would begin at 2.
    """
    values = np.array([1.0] * 5 + [2.0] * 12)
    assert binom.sf(8, 17, 5 / 17) == pytest.approx(0.0356, abs=1e-4)
    assert median_ratio_interval(values, np.ones(3)) == (1.0, 2.0)
    assert median_ratio_interval(np.full(3, 2.0), values) == (1.0, 2.0)
    # Four ones: 0.8 % of the medians, too few to count.
    assert binom.sf(8, 17, 4 / 17) == pytest.approx(0.0082, abs=1e-4)
    assert median_ratio_interval(np.array([1.0] * 4 + [2.0] * 13), np.ones(3)) == (2.0, 2.0)
