import numpy as np
import pytest

from bellman_diffusion.data.toy import TOY_SETS, DisjointUniform, TwoMoons, UnbalancedMixture


@pytest.mark.parametrize("toy", TOY_SETS, ids=lambda toy: toy.name)
def test_draws_are_reproducible_and_of_the_asked_size(toy):
    a, b = (toy.draw(100, np.random.default_rng(3)) for _ in range(2))
    np.testing.assert_array_equal(a, b)
    assert len(a) == 100


def test_uniform_stays_in_its_spans_in_proportion_to_their_widths():
    toy = DisjointUniform()
    x = toy.draw(60_000, np.random.default_rng(0))
    assert toy.figures(x)["gap_share"] == 0
    middle = np.mean((x >= -1) & (x <= 2))
    assert abs(middle - 0.5) < 0.01
    grid = np.linspace(-6, 6, 12_001)[:, None]
    assert abs(toy.density(grid).sum() * 0.001 - 1) < 1e-3


def test_mixture_has_its_weights_and_density():
    toy = UnbalancedMixture()
    x = toy.draw(40_000, np.random.default_rng(0))
    np.testing.assert_allclose(toy.figures(x)["weights"], toy.weights, atol=0.01)
    axis = np.linspace(-6, 6, 241)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    assert abs(toy.density(grid).sum() * 0.05**2 - 1) < 1e-3


def test_moons_are_independent_draws():
    """The number on the upper moon varies as a binomial does; scikit-learn's own never varies."""
    counts = [
        np.sum(TwoMoons().draw(100, np.random.default_rng(i))[:, 1] > 0.6) for i in range(200)
    ]
    assert 3.0 < np.std(counts) < 7.0


@pytest.mark.parametrize("toy", [UnbalancedMixture(), TwoMoons()], ids=lambda toy: toy.name)
def test_gradients_are_those_of_the_densities(toy):
    """Against central differences, and the mass of a grid's cells is that of draws in them."""
    x = toy.draw(50, np.random.default_rng(1))
    step = 1e-5
    for axis, unit in enumerate(np.eye(2)):
        slope = (toy.density(x + step * unit) - toy.density(x - step * unit)) / (2 * step)
        np.testing.assert_allclose(toy.gradient(x)[:, axis], slope, rtol=1e-5, atol=1e-6)


def test_moons_have_their_density():
    axis = np.linspace(-1.5, 2.5, 401)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    density = TwoMoons().density(grid) * 0.01**2
    assert abs(density.sum() - 1) < 1e-3
    draws = TwoMoons().draw(20_000, np.random.default_rng(0))
    for corner in ([0.0, 0.5], [1.0, 0.0], [-0.5, 0.2]):
        share = np.mean(np.all(draws < corner, axis=1))
        assert abs(density[np.all(grid < corner, axis=1)].sum() - share) < 0.01
