"""Paths that are watched: as many steps as the dynamics has, each with noise of its own."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bellman_diffusion.dynamics.euler_maruyama import EulerMaruyama
from bellman_diffusion.dynamics.sample import trace
from bellman_diffusion.fields import AbstractField


class Free(AbstractField):
    """s = 1 and g = 0: Brownian motion."""

    def scalar_and_gradient(self, x):
        return jnp.ones(()), jnp.zeros_like(x)


def test_watched_paths_of_brownian_motion_spread_with_the_root_of_time():
    """Independent steps: after n of them the variance is n · η; 2,000 paths know it to 4 %."""
    start = np.zeros((2000, 1), np.float32)
    frames, x = trace(EulerMaruyama(Free(), 0.1, 20), jax.random.key(0), start, 5)
    np.testing.assert_array_equal(frames, [0, 5, 10, 15, 20])
    np.testing.assert_array_equal(x[0], start)
    assert x[1:].var(axis=(1, 2)) == pytest.approx(0.1 * frames[1:], rel=0.15)
    steps = np.diff(x[:, :, 0], axis=0)
    # What is done between two frames says nothing of what is done between two others.
    assert np.abs(np.corrcoef(steps) - np.eye(4)).max() < 4 / np.sqrt(2000)
