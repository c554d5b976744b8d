import numpy as np
import pytest

from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.metrics import wasserstein_1


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
