"""Annealed dynamics without its corrections: a flow whose end is known in closed form."""

from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bellman_diffusion.dynamics.annealed import Annealed
from bellman_diffusion.dynamics.euler_maruyama import EulerMaruyama
from bellman_diffusion.dynamics.metropolis import Metropolis
from bellman_diffusion.dynamics.sample import sample
from tests.known import MixtureNoiseField, normal

VARIANCE, LOW, HIGH = 1.0, 0.5, 3.0
START = np.array([[-2.0], [0.7], [4.0]], np.float32)


def transported(n_steps):
    """Where the flow ends for data N(0, VARIANCE); corrections of size 0 change nothing."""
    field = MixtureNoiseField(normal(1, VARIANCE), LOW, HIGH)
    dynamics = Annealed(field=field, scale=field.scale(), n_steps=n_steps, step_factor=0.0)
    return sample(dynamics, jax.random.key(0), START).x


def heun(n_steps):
    """The same by hand: dx/dσ = σx/(v + σ²), then E[x₀ | x] = v x/(v + σ²)."""
    sigmas = np.geomspace(HIGH, LOW, n_steps)
    x = START.astype(float)
    slope = lambda x, sigma: sigma * x / (VARIANCE + sigma**2)
    for sigma, following in pairwise(sigmas):
        ahead = x + (following - sigma) * slope(x, sigma)
        x = x + 0.5 * (following - sigma) * (slope(x, sigma) + slope(ahead, following))
    return x * VARIANCE / (VARIANCE + LOW**2)


def exact():
    """Along the flow x is in proportion to the deviation √(v + σ²)."""
    carried = START * np.sqrt((VARIANCE + LOW**2) / (VARIANCE + HIGH**2))
    return carried * VARIANCE / (VARIANCE + LOW**2)


@pytest.mark.parametrize("n_steps", [2, 5, 40])
def test_the_transport_takes_heuns_steps_and_a_last_one_takes_the_noise_off(n_steps):
    np.testing.assert_allclose(transported(n_steps), heun(n_steps), rtol=1e-4)


def test_the_flow_ends_at_the_closed_form_with_an_error_of_the_second_order():
    """Twice the levels, a quarter of the error; Euler's step would halve it."""
    errors = [np.abs(transported(n) - exact()).max() for n in (11, 21, 41)]
    assert errors[2] < 2e-3
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.2)
    assert errors[1] / errors[2] == pytest.approx(4, rel=0.2)


def test_corrections_move_by_the_root_of_their_factor_times_the_noise():
    """At one level far from the drift's scale: the deviation of one step is √factor · σ · √(s/s̄)."""
    field = MixtureNoiseField(normal(1, VARIANCE), 0.1, 0.1)
    scale = field.scale()
    dynamics = Annealed(
        field=field, scale=scale, n_steps=1, n_corrections=1, step_factor=0.04, transport=False
    )
    start = np.zeros((20_000, 1), np.float32)
    end = sample(dynamics, jax.random.key(0), start).x
    s = float(field.at(0.1).scalar(jnp.zeros(1)))
    wanted = np.sqrt(0.04 * 0.1**2 * s / float(scale(jnp.asarray(0.1))))
    # 20,000 draws know a deviation to 0.5 %.
    assert end.std() == pytest.approx(wanted, rel=0.02)


def test_no_block_of_paths_repeats_the_noise_of_another():
    """1,200 paths from one place are run in three blocks; no two of them end alike."""
    p = normal(1)
    dynamics = EulerMaruyama(p.field(p.density), 0.1, 2)
    end = sample(dynamics, jax.random.key(0), np.zeros((1200, 1), np.float32)).x
    assert len(np.unique(end)) > 1190


@pytest.mark.parametrize("dim", [1, 3])
def test_metropolis_is_in_detailed_balance(dim):
    """P(accept x → y) s(x) q(y|x) = P(accept y → x) s(y) q(x|y), from the step's own choices."""
    p = normal(dim, 0.5)
    field, eta = p.field(p.density), 0.4
    dynamics = Metropolis(field, eta, 1)
    n = 4000
    start = jnp.tile(0.3 * jnp.arange(1.0, dim + 1), (n, 1))
    key = jax.random.key(0)
    state, info = eqx.filter_jit(dynamics.step)(key, dynamics.init(start))
    # The proposals again, by the formula.
    noise = jax.random.normal(jax.random.split(key)[0], start.shape)
    fields = jax.jit(jax.vmap(field.scalar_and_gradient))
    s, g = fields(start)
    proposal = start + eta * g + jnp.sqrt(eta * s)[:, None] * noise
    s_there, g_there = fields(proposal)

    def log_q(to, at, s, g):
        gap = jnp.sum((to - at - eta * g) ** 2, axis=1)
        return -0.5 * gap / (eta * s) - 0.5 * dim * jnp.log(2 * jnp.pi * eta * s)

    ratio = jnp.log(s_there) + log_q(start, proposal, s_there, g_there)
    chance = np.exp(np.minimum(0, ratio - jnp.log(s) - log_q(proposal, start, s, g)))
    accepted = np.asarray(info.accepted)
    # Four standard errors of the sum of so many coins, over all and over the likely half.
    for some in (chance > -1, chance > np.median(chance), chance <= np.median(chance)):
        error = np.sqrt(np.sum((chance * (1 - chance))[some]))
        assert abs(accepted[some].sum() - chance[some].sum()) < 4 * error + 1e-6
    np.testing.assert_allclose(
        state.position, np.where(accepted[:, None], proposal, start), atol=1e-5
    )
