import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bellman_diffusion.matching import SLICE_DISTRIBUTIONS, draw_slices


@pytest.mark.parametrize("dim", [1, 3])
@pytest.mark.parametrize("distribution", SLICE_DISTRIBUTIONS)
def test_slices_have_the_identity_as_second_moment(distribution, dim):
    v = draw_slices(distribution, jax.random.key(0), 200_000, dim)
    moment = v.T @ v / len(v)
    # The entries' standard error is below √3/√200 000 = 0.004.
    np.testing.assert_allclose(moment, np.eye(dim), atol=0.016)


def test_sphere_slices_have_length_root_dim():
    v = draw_slices("sphere", jax.random.key(0), 10, 4)
    np.testing.assert_allclose(jnp.linalg.norm(v, axis=1), 2.0, rtol=1e-5)
