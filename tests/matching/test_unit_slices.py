"""Directions of length √D, or of length 1: what ε means in each dimension."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bellman_diffusion.matching.kernels import SlicedKernel

EPSILON = 0.3


@pytest.mark.parametrize(("unit", "length"), [(False, 1.0), (True, 0.5)])
def test_unit_slices_see_a_gap_along_an_axis_shortened_by_the_root_of_the_dimension(unit, length):
    """Signs ±1 in four dimensions: w·d is ±1 for d along an axis, and ±1/2 with unit slices."""
    kernel = SlicedKernel("rademacher", unit)
    x1 = jnp.zeros((3, 4))
    x2 = x1.at[:, 0].set(1.0)
    wanted = np.exp(-0.5 * length**2 / EPSILON) / np.sqrt(2 * np.pi * EPSILON)
    matched = kernel.matched(jax.random.key(0), x1, x2, EPSILON)
    rho, slope = kernel.all_pairs(jax.random.key(0), x1, x2, jnp.full(3, EPSILON))
    np.testing.assert_allclose(matched, wanted, rtol=1e-5)
    np.testing.assert_allclose(rho, wanted, rtol=1e-5)
    # ∇ρ = κ (w·d)/ε w; along the gap that is κ (w·d)²/(ε|d|).
    np.testing.assert_allclose(slope[:, 0], wanted * length**2 / EPSILON, rtol=1e-5)
