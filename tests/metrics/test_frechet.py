"""The Fréchet distance of samples whose mean and covariance are set exactly."""

import numpy as np
import pytest
from scipy.linalg import sqrtm

from bellman_diffusion.metrics.frechet import frechet_distance


def with_moments(mean, covariance, n=50, seed=0):
    """Rows with exactly this mean and covariance."""
    rows = np.random.default_rng(seed).normal(size=(n, len(mean)))
    rows = rows - rows.mean(axis=0)
    rows = rows @ np.linalg.inv(np.linalg.cholesky(np.cov(rows.T))).T
    return np.asarray(mean) + rows @ np.linalg.cholesky(covariance).T


def test_the_distance_of_a_set_to_itself_is_zero_and_of_a_shift_its_squared_length():
    a = with_moments([0.0, 0.0], np.eye(2))
    assert frechet_distance(a, a) == pytest.approx(0, abs=1e-9)
    assert frechet_distance(a, a + np.array([3.0, 4.0])) == pytest.approx(25.0)


def test_the_distance_of_normal_laws_along_the_same_axes_is_that_of_their_deviations():
    """Σ (σ − σ')² for diagonal covariances."""
    a = with_moments([0.0, 0.0], np.diag([4.0, 9.0]))
    b = with_moments([0.0, 0.0], np.diag([1.0, 16.0]), n=70, seed=1)
    assert frechet_distance(a, b) == pytest.approx((2 - 1) ** 2 + (3 - 4) ** 2)


def test_the_distance_is_the_closed_form_for_covariances_that_do_not_commute():
    """|μ − μ'|² + tr(C + C' − 2(CC')^½), with scipy's matrix root."""
    c1, c2 = np.array([[2.0, 0.8], [0.8, 1.0]]), np.array([[1.0, -0.5], [-0.5, 3.0]])
    a, b = with_moments([1.0, 0.0], c1), with_moments([0.0, 2.0], c2, seed=1)
    wanted = 5.0 + np.trace(c1 + c2 - 2 * np.real(sqrtm(c1 @ c2)))
    assert frechet_distance(a, b) == pytest.approx(wanted, rel=1e-6)
    assert frechet_distance(b, a) == pytest.approx(wanted, rel=1e-6)
