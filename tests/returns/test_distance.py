"""W1 between return distributions, against SciPy's and closed forms."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import wasserstein_distance

from bellman_diffusion.returns.atoms import AtomicReturn
from bellman_diffusion.returns.distance import wasserstein
from bellman_diffusion.returns.tabulated import TabulatedReturn


def atoms(mass, places, half=None):
    arrays = (np.atleast_2d(mass), np.atleast_2d(places), np.float32(0.1))
    own = None if half is None else jnp.asarray(np.atleast_2d(half), jnp.float32)
    return AtomicReturn(*(jnp.asarray(a, jnp.float32) for a in arrays), own)


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_atoms_are_as_far_apart_as_scipy_says(seed):
    rng = np.random.default_rng(seed)
    n, m = rng.integers(1, 9, 2)
    x, y = np.sort(rng.normal(size=n)), np.sort(rng.normal(size=m))
    p, q = rng.dirichlet(np.ones(n)), rng.dirichlet(np.ones(m))
    expected = wasserstein_distance(x, y, p, q)
    assert wasserstein(atoms(p, x), atoms(q, y))[0] == pytest.approx(expected, abs=1e-5)


def test_uniform_parts():
    """U(0, 2) and U(1, 2): the mean difference ½; U(0, 2) and a point at 1: ½; CDFs that cross."""
    wide, narrow = atoms([1.0], [1.0], [1.0]), atoms([1.0], [1.5], [0.5])
    point = atoms([1.0], [1.0])
    assert wasserstein(wide, narrow)[0] == pytest.approx(0.5, abs=1e-6)
    assert wasserstein(wide, point)[0] == pytest.approx(0.5, abs=1e-6)
    assert wasserstein(wide, atoms([1.0], [1.0], [0.5]))[0] == pytest.approx(0.25, abs=1e-6)
    assert wasserstein(wide, wide)[0] == pytest.approx(0, abs=1e-7)


def test_a_tabulated_density():
    grid = jnp.linspace(0, 2, 401)
    table = TabulatedReturn.create(grid, jnp.ones((1, 401)), jnp.zeros((1, 401)))
    assert wasserstein(table, atoms([1.0], [1.0], [1.0]))[0] == pytest.approx(0, abs=1e-5)
    assert wasserstein(table, atoms([1.0], [1.0]))[0] == pytest.approx(0.5, abs=1e-5)
