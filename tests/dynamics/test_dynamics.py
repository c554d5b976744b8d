"""Samplers against exact distributions and against diffrax."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import ks_2samp

from bellman_diffusion.dynamics import (
    AbstractDynamics,
    Annealed,
    Box,
    EulerMaruyama,
    Info,
    Langevin,
    Metropolis,
    data_start,
    normal_start,
    sample,
)
from bellman_diffusion.dynamics.base import PathState
from bellman_diffusion.errors import SamplingFailedError
from tests.known import Mixture, MixtureNoiseField, bimodal, normal

N = 4000


def weights(p, x):
    nearest = np.argmin(np.sum((x[:, None] - np.asarray(p.means)) ** 2, axis=2), axis=1)
    return np.bincount(nearest, minlength=len(p.weights)) / len(x)


@pytest.mark.parametrize("rho", ["density", "wide"])
def test_euler_keeps_the_target_whatever_the_kernel(rho):
    """From the target, with small steps, it stays: mean and variance within 4 errors + 2 %."""
    p = bimodal(1)
    field = p.field(p.density if rho == "density" else p.rho("isotropic", 1.0))
    start = p.draw(jax.random.key(0), N)
    end = sample(EulerMaruyama(field, 0.02, 400), jax.random.key(1), start).x
    fresh = np.asarray(p.draw(jax.random.key(2), N))
    assert ks_2samp(end[:, 0], fresh[:, 0]).pvalue > 1e-3
    np.testing.assert_allclose(end.std(), fresh.std(), rtol=0.04)


def test_euler_agrees_in_law_with_diffrax():
    p = bimodal(2)
    field = p.field(p.rho("isotropic", 0.5))
    start = 2.0 * jax.random.normal(jax.random.key(0), (N, 2))
    eta, steps = 0.1, 100
    ours = sample(EulerMaruyama(field, eta, steps), jax.random.key(1), start).x

    def solve(x, key):
        path = diffrax.VirtualBrownianTree(0.0, eta * steps, eta / 4, (2,), key)
        drift = diffrax.ODETerm(lambda t, y, _: field.gradient(y))
        diffusion = diffrax.ControlTerm(
            lambda t, y, _: jnp.sqrt(field.scalar(y)) * jnp.eye(2), path
        )
        solution = diffrax.diffeqsolve(
            diffrax.MultiTerm(drift, diffusion), diffrax.Euler(), 0.0, eta * steps, eta, x
        )
        return solution.ys[-1]

    theirs = np.asarray(jax.jit(jax.vmap(solve))(start, jax.random.split(jax.random.key(2), N)))
    for direction in np.array([[1.0, 0.0], [0.0, 1.0], [0.7, 0.7]]):
        assert ks_2samp(ours @ direction, theirs @ direction).pvalue > 1e-3


def test_metropolis_has_the_right_weights_at_steps_where_euler_has_not(mixture):
    p = Mixture(jnp.asarray(mixture.weights), 0.4 * jnp.asarray(mixture.means), 0.04)
    field = p.field(p.density)
    start = p.draw(jax.random.key(0), N)
    eta = 0.1
    adjusted = sample(Metropolis(field, eta, 300), jax.random.key(1), start)
    plain = sample(EulerMaruyama(field, eta, 300), jax.random.key(1), start, max_lost=1.0)
    assert abs(weights(p, adjusted.x)[2] - 0.1) < 4 * (0.09 / N) ** 0.5
    assert 0.05 < adjusted.acceptance < 0.9
    assert weights(p, plain.x)[2] > 0.13
    spread = np.std(adjusted.x - np.asarray(p.means)[_mode(p, adjusted.x)])
    np.testing.assert_allclose(spread, 0.2, rtol=0.05)


def _mode(p, x):
    return np.argmin(np.sum((x[:, None] - np.asarray(p.means)) ** 2, axis=2), axis=1)


def test_langevin_has_the_right_spread():
    p = normal(2, 0.5)
    start = jnp.zeros((N, 2))
    end = sample(Langevin(p.field(p.density), 0.02, 300, 1e-6), jax.random.key(0), start).x
    np.testing.assert_allclose(end.var(axis=0), 0.5, rtol=0.1)


def test_langevin_floors_the_quotient():
    p = normal(1, 0.01)
    far = jnp.full((10, 1), 3.0)
    dynamics = Langevin(p.field(p.density), 0.01, 1, 1e-3)
    state, _ = eqx.filter_jit(dynamics.step)(jax.random.key(0), dynamics.init(far))
    assert np.all(np.abs(state.position - far) < 1.0)


@pytest.mark.parametrize("transport", [True, False])
def test_annealing_finds_the_weights_from_a_wide_start(transport):
    """0.3 and 0.7 within 4 standard errors with transport; plain annealing lags a little."""
    p = bimodal(2)
    field = MixtureNoiseField(p, 0.02, 3.0)
    start = normal_start(jax.random.key(0), N, 10.0 * jnp.eye(2))
    dynamics = Annealed(
        field=field,
        scale=field.scale(),
        n_steps=60,
        n_corrections=1 if transport else 20,
        step_factor=0.3,  # the start is only roughly p at σ_max: let it forget
        transport=transport,
    )
    # Without transport a few paths stall in the tails, where s is small.
    box = Box(np.full(2, -4.0), np.full(2, 4.0)) if transport else None
    end = sample(dynamics, jax.random.key(1), start, box=box).x
    end = end[np.all(np.abs(end) < 4, axis=1)]
    tolerance = 4 * (0.21 / N) ** 0.5
    assert abs(weights(p, end)[0] - 0.3) < (tolerance if transport else 2 * tolerance)
    spread = np.std(end - np.asarray(p.means)[_mode(p, end)])
    np.testing.assert_allclose(spread, 0.5, rtol=0.06)


def test_a_longer_sample_begins_with_the_shorter_one():
    """Within one size of block: here both are above 512."""
    p = bimodal(2)
    dynamics = EulerMaruyama(p.field(p.density), 0.1, 10)
    start = p.draw(jax.random.key(0), 3000)
    long = sample(dynamics, jax.random.key(1), start).x
    np.testing.assert_array_equal(long[:600], sample(dynamics, jax.random.key(1), start[:600]).x)


class Exploding(AbstractDynamics):
    """A sampler that loses the paths that start above zero."""

    n_steps: int = 1

    def init(self, position):
        return PathState(position)

    def step(self, key, state):
        position = jnp.where(state.position > 0, jnp.nan, state.position)
        return type(state)(position), Info(jnp.ones(len(position), bool))


def test_lost_paths_are_counted_and_too_many_are_an_error():
    start = -np.ones((1000, 1), np.float32)
    start[:5] = 1.0
    start[5:8] = -9.0
    box = Box(np.array([-2.0]), np.array([2.0]))
    with pytest.warns(RuntimeWarning, match="5 of 1000 paths"):
        result = sample(Exploding(), jax.random.key(0), start, box=box)
    assert (result.n_nonfinite, result.n_outside) == (5, 3)
    start[:50] = 1.0
    with pytest.raises(SamplingFailedError, match="lower step_size"):
        sample(Exploding(), jax.random.key(0), start, box=box)


def test_box_is_wider_than_the_data():
    box = Box.around(np.array([[0.0], [2.0]]), margin=0.5)
    assert box.contains(np.array([[-0.9], [2.9], [3.1]])).tolist() == [True, True, False]


def test_starts_have_their_laws():
    covariance = jnp.array([[2.0, 0.5], [0.5, 1.0]])
    x = normal_start(jax.random.key(0), 100_000, covariance)
    np.testing.assert_allclose(np.cov(x.T), covariance, atol=0.03)
    rows = jnp.arange(6.0).reshape(3, 2)
    drawn = np.asarray(data_start(jax.random.key(0), 3000, rows))
    values, counts = np.unique(drawn[:, 0], return_counts=True)
    assert values.tolist() == [0.0, 2.0, 4.0]
    assert np.all(np.abs(counts - 1000) < 120)
