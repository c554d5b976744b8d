"""Learned cells: what a target keeps, where the loss is least, and that certainty stays certain."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bellman_diffusion.returns.backup import BellmanBackup
from bellman_diffusion.returns.models import ModelSettings, make_model
from bellman_diffusion.returns.models.base import Normalisation
from bellman_diffusion.returns.models.cells import _in_order
from bellman_diffusion.returns.observations import ObservationEncoder, ObservationScaler
from bellman_diffusion.returns.support import Support

ENCODER = ObservationEncoder((2,))
SUPPORT = Support.fixed(0.0, 10.0)
MODEL = make_model("cells", ENCODER, 1, ModelSettings(n_outputs=33))
N = 11


def outputs(seed=0):
    rng = np.random.default_rng(seed)
    mass = rng.dirichlet(np.ones(N))
    mean = rng.uniform(-0.5, 0.5, N)
    mean[0], mean[-1] = abs(mean[0]), -abs(mean[-1])
    variance = rng.uniform(0, 0.25, N)
    return jnp.asarray(np.concatenate([mass, mean, variance]), jnp.float32)


def test_a_target_keeps_mass_mean_and_variance():
    """As long as nothing leaves the support: X = 0.5 + 0.9 X', cells of width 1."""
    x = outputs()
    mass, mean, variance = (np.asarray(a, float) for a in jnp.split(x, 3))
    moved = 0.5 + 0.9 * (np.arange(N) + mean)
    target = [np.asarray(a, float) for a in MODEL.backed_up(x, BellmanBackup(0.5, 0.9), SUPPORT)]
    node = np.arange(N)
    assert target[0].sum() == pytest.approx(1, abs=1e-6)
    assert (target[0] * node + target[1]).sum() == pytest.approx(mass @ moved, abs=1e-5)
    square = (target[0] * node**2 + 2 * node * target[1] + target[2]).sum()
    assert square == pytest.approx(mass @ (moved**2 + 0.81 * variance), abs=1e-4)


def test_at_an_end_all_is_the_reward():
    mass, first, second = MODEL.backed_up(outputs(), BellmanBackup(3.2, 0.0), SUPPORT)
    np.testing.assert_allclose(mass, np.eye(N)[3], atol=1e-6)
    np.testing.assert_allclose(first, 0.2 * np.eye(N)[3], atol=1e-5)
    np.testing.assert_allclose(second, 0.04 * np.eye(N)[3], atol=1e-5)


def test_the_loss_is_least_at_the_mixture_of_the_targets():
    """Two transitions with 30 % and 70 %: the cells of the mixture have no gradient."""
    backups = [
        (0.3, BellmanBackup(1.0, 0.9), outputs(1)),
        (0.7, BellmanBackup(0.2, 0.8), outputs(2)),
    ]
    parts = [[p * a for a in MODEL.backed_up(x, b, SUPPORT)] for p, b, x in backups]
    mass, first, second = (sum(a) for a in zip(*parts, strict=True))
    mean = first / mass
    best = jnp.concatenate([jnp.log(mass), mean, second / mass - mean**2])

    def loss(raw):
        return sum(p * MODEL.discrepancy(raw, x, b, SUPPORT) for p, b, x in backups)

    np.testing.assert_allclose(jax.grad(loss)(best), 0, atol=2e-6)
    for i in (2, N + 3, 2 * N + 4):
        assert loss(best.at[i].add(0.1)) > loss(best)


def test_a_certain_return_stays_certain():
    """Fifty updates of one return: C51 would spread it over its neighbours."""
    x = jnp.concatenate([jnp.eye(N)[5], jnp.zeros(2 * N)])
    value = 5.0
    for _ in range(50):
        mass, first, second = MODEL.backed_up(x, BellmanBackup(0.63, 0.9), SUPPORT)
        held = jnp.where(mass > 0, mass, 1)
        mean = first / held
        x = jnp.concatenate([mass, mean, jnp.maximum(second / held - mean**2, 0)])
        value = 0.63 + 0.9 * value
    normalisation = Normalisation(ObservationScaler.identity(ENCODER), SUPPORT)
    found = MODEL.distribution(x[None], normalisation)
    assert float(found.mean()[0]) == pytest.approx(value, abs=1e-3)
    assert float(found.std()[0]) < 1e-3


def test_what_lies_near_a_border_is_shared_by_both_cells():
    """All of it in one cell up to 1/8 before the border, half at the border, and nothing jumps."""
    certain = jnp.concatenate([jnp.eye(N)[0], jnp.zeros(2 * N)])
    places = np.linspace(3.3, 3.7, 81)
    targets = [MODEL.backed_up(certain, BellmanBackup(float(x), 0.9), SUPPORT) for x in places]
    mass = np.array([np.asarray(mass)[3:5] for mass, _, _ in targets])
    np.testing.assert_allclose(mass.sum(axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(mass[places < 3.374, 0], 1, atol=1e-4)
    np.testing.assert_allclose(mass[40], 0.5, atol=1e-4)
    assert np.abs(np.diff(mass[:, 0])).max() < 0.025


def test_distributions_lie_in_the_support_and_have_ordered_figures():
    """Whatever the weights of the network are."""
    normalisation = Normalisation(ObservationScaler.identity(ENCODER), SUPPORT)
    raw = 5 * jax.random.normal(jax.random.key(0), (40, 1, 3 * N))
    found = MODEL.distribution(jax.vmap(MODEL.head)(raw), normalisation)[:, 0]
    assert float(found.low) >= -1e-5
    assert float(found.high) <= 10 + 1e-5
    np.testing.assert_allclose(found.mass.sum(axis=-1), 1, atol=1e-5)
    tails = np.stack([found.cvar(a) for a in (0.01, 0.1, 0.5, 1.0)])
    assert np.all(np.diff(tails, axis=0) >= -1e-3)
    levels = np.asarray(found.quantile(np.array([0.05, 0.5, 0.95], np.float32)))
    assert np.all(np.diff(levels, axis=1) >= 0)


def test_cells_are_put_in_the_order_of_their_atoms():
    """As sorting does, for any means that cells can have."""
    rng = np.random.default_rng(0)
    place = np.arange(9) + rng.uniform(-0.625, 0.625, (500, 9))
    mass = rng.dirichlet(np.ones(9), size=500)
    atoms, masses = (jnp.asarray(a, jnp.float32) for a in (place, mass))
    assert np.any(np.diff(place) < 0)
    order = np.argsort(place, axis=1)
    found = _in_order(atoms, (atoms, masses))
    for values, given in zip(found, (place, mass), strict=True):
        assert np.allclose(values, np.take_along_axis(given, order, 1), atol=1e-6)
