"""Intervals that promise a coverage keep it, whatever the model; too few episodes promise nothing."""

import jax.numpy as jnp
import numpy as np
import pytest

from bellman_diffusion.planning.conformal import calibrate, interval
from bellman_diffusion.planning.evaluation import probability_transform
from bellman_diffusion.planning.transitions import Returns
from bellman_diffusion.returns.atoms import AtomicReturn


def model(n, width):
    """The same even distribution around 0 for every state."""
    mass = jnp.ones((n, 1))
    return AtomicReturn(mass, jnp.zeros((n, 1)), jnp.asarray(0.1), jnp.full((n, 1), width))


def returns(value):
    n = len(value)
    return Returns(np.zeros((n, 1), np.float32), value, np.ones(n, bool), np.zeros(n))


@pytest.mark.parametrize("width", [0.2, 1.0, 5.0])
def test_coverage_is_kept_by_models_that_are_too_narrow_or_too_wide(width):
    """The mean over 400 calibrations with 60 episodes is in [1 − α, 1 − α + 1/61]."""
    rng = np.random.default_rng(0)
    covered = {0.8: [], 0.9: [], 0.95: []}
    fresh = rng.normal(size=4000)
    for _ in range(400):
        for found in calibrate(model(60, width), returns(rng.normal(size=60))):
            low, high = interval(model(1, width), found.level, found.widening)
            covered[found.level].append(np.mean((fresh >= low[0]) & (fresh <= high[0])))
    for level, shares in covered.items():
        assert level - 0.012 <= np.mean(shares) <= level + 1 / 61 + 0.012


def test_too_few_episodes_cannot_say():
    assert calibrate(model(3, 1.0), returns(np.zeros(3))) == []
    levels = [c.level for c in calibrate(model(12, 1.0), returns(np.zeros(12)))]
    assert levels == [0.8, 0.9]


def test_the_transform_of_an_atom_is_spread_over_its_probability():
    atoms = AtomicReturn(jnp.full((2000, 2), 0.5), jnp.array([0.0, 1.0]), jnp.asarray(0.1))
    value = np.repeat([0.0, 1.0], 1000)
    found = np.sort(probability_transform(atoms, value))
    assert np.abs(found - (np.arange(2000) + 0.5) / 2000).max() < 0.05
