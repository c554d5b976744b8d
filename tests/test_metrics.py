import numpy as np
import pytest
from scipy import stats

from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.metrics import (
    closest_record_share,
    median_bandwidth,
    membership_auc,
    mmd2,
    sliced_wasserstein,
    wasserstein_1,
    wasserstein_2,
)
from bellman_diffusion.metrics.aggregate import difference, median_ratio_interval, paired_difference


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_w1_of_a_shift_is_its_length(dim):
    x = np.random.default_rng(0).normal(size=(50, dim))
    shift = np.arange(1.0, dim + 1)
    np.testing.assert_allclose(wasserstein_1(x, x + shift), np.linalg.norm(shift), rtol=1e-6)


def test_w1_of_hand_made_points():
    assert wasserstein_1(np.array([[0.0], [1.0]]), np.array([[0.0], [3.0]])) == pytest.approx(1.0)
    square = np.array([[0.0, 0.0], [1.0, 1.0]])
    assert wasserstein_1(square, np.array([[0.0, 1.0], [1.0, 0.0]])) == pytest.approx(1.0)


def test_w1_refuses_what_is_not_finite():
    with pytest.raises(InvalidInputError, match="NaN"):
        wasserstein_1(np.array([[np.nan]]), np.array([[0.0]]))


def test_w2_of_a_shift_is_its_length_and_of_a_stretch_its_root_mean_square():
    x = np.random.default_rng(0).normal(size=(60, 3))
    np.testing.assert_allclose(wasserstein_2(x, x + np.array([1.0, 2.0, 2.0])), 3.0, rtol=1e-6)
    np.testing.assert_allclose(wasserstein_2(x, 2 * x), np.sqrt(np.mean(np.sum(x**2, axis=1))))


def test_sliced_w_of_a_shift_is_its_length_over_the_root_of_the_dimension():
    """E[(v·d)²] = |d|²/D on the sphere; 2,000 directions know it to 5 %."""
    x = np.random.default_rng(0).normal(size=(50, 4))
    value = sliced_wasserstein(x, x + 2.0, n_directions=2000)
    assert value == pytest.approx(4.0 / 2.0, rel=0.05)


def test_mmd2_is_that_of_two_normals():
    """For N(0, 1), N(d, 1) and a kernel of width h: 2c(1 − exp(−d²/(2(h² + 2)))), c = h/√(h² + 2)."""
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(4000, 1)), 1.0 + rng.normal(size=(4000, 1))
    h, d = 1.5, 1.0
    exact = 2 * h / np.sqrt(h**2 + 2) * (1 - np.exp(-(d**2) / (2 * (h**2 + 2))))
    # The standard error is about 0.005.
    assert mmd2(x, y, h) == pytest.approx(exact, abs=0.015)
    assert abs(mmd2(x, rng.normal(size=(4000, 1)), h)) < 0.003


def test_mmd2_is_unbiased():
    """The mean over 400 pairs of small samples is within three standard errors of 0."""
    rng = np.random.default_rng(2)
    values = [mmd2(rng.normal(size=(10, 2)), rng.normal(size=(12, 2)), 1.0) for _ in range(400)]
    assert abs(np.mean(values)) < 3 * np.std(values) / 20


def test_the_bandwidth_is_the_median_distance():
    assert median_bandwidth(np.array([[0.0], [1.0], [3.0]])) == pytest.approx(2.0)


def test_copies_are_told_from_fresh_rows():
    rng = np.random.default_rng(3)
    training, held_out, fresh = rng.normal(size=(3, 1000, 3))
    # The standard error of the share is 0.016.
    assert closest_record_share(fresh, training, held_out) == pytest.approx(0.5, abs=0.05)
    assert closest_record_share(training, training, held_out) == 1.0
    assert membership_auc(training, training, held_out) == 1.0
    assert membership_auc(fresh, training, held_out) == pytest.approx(0.5, abs=0.05)


def test_ties_count_half():
    same = np.zeros((5, 1))
    assert closest_record_share(same, same, same) == 0.5


def test_ratios_of_medians_know_how_sure_they_are():
    """Narrow samples give a narrow interval, wide ones one that holds 1."""
    narrow = np.linspace(0.99, 1.01, 21)
    low, high = median_ratio_interval(2 * narrow, narrow)
    assert 1.96 < low < 2 < high < 2.04
    never, soon = np.full(10, np.inf), np.full(10, 5.0)
    assert median_ratio_interval(never, soon) == (np.inf, np.inf)
    assert median_ratio_interval(never, never) == (1.0, 1.0)
    wide = np.array([1.0, 1.0, 2.0, 8.0, 9.0])
    low, high = median_ratio_interval(wide, wide)
    assert low < 1 < high


def test_differences_over_seeds_have_students_intervals():
    rng = np.random.default_rng(5)
    one, other = rng.normal(1.0, 2.0, 6).tolist(), rng.normal(0.0, 0.5, 4).tolist()
    gaps = [a - b for a, b in zip(one, other, strict=False)]
    for found, exact in (
        (difference(one, other), stats.ttest_ind(one, other, equal_var=False)),
        (paired_difference(gaps), stats.ttest_rel(one[:4], other)),
    ):
        low, high = exact.confidence_interval(0.95)
        assert (found.mean - found.margin, found.mean + found.margin) == pytest.approx((low, high))
        assert found.is_clear == (exact.pvalue < 0.05)
    # Two standard errors of three seeds are not enough.
    assert not paired_difference([0.067, 0.055, 0.001]).is_clear
    assert difference([1.0, 1.0], [0.0, 0.0]).is_clear
