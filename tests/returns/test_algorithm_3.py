"""Algorithm 3 with the right constants: 1/γ for the density, 1/γ² for its gradient."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import norm

from bellman_diffusion.returns.models import (
    Bootstrap,
    ModelSettings,
    Normalisation,
    Transition,
    make_model,
)
from bellman_diffusion.returns.models.paper import Draws, algorithm_3
from bellman_diffusion.returns.observations import ObservationEncoder, ObservationScaler
from bellman_diffusion.returns.support import Support

SPAN = (jnp.asarray(-2.0), jnp.asarray(4.0))
HALF = 3.0
REWARD, GAMMA, EPSILON = jnp.asarray(0.3), 0.6, 0.2


def normal_fields(mean, width):
    """The density of N(mean, width²) and its slope."""

    def fields(x):
        s = norm.pdf(x, mean, width)
        return s, s * (mean - x) / width**2

    return fields


def nothing(x):
    return jnp.zeros_like(x), jnp.zeros_like(x)


def going_on(fields, following, x, gamma=GAMMA):
    x = jnp.asarray(x)
    draws = Draws(x, jnp.asarray(9.0), jnp.asarray(9.0))
    return algorithm_3(fields, following, draws, REWARD, jnp.asarray(gamma), SPAN, EPSILON)


@pytest.mark.parametrize("x", [-0.2, 0.5, 1.4])
def test_the_loss_vanishes_at_the_fields_of_the_moved_variable(x):
    """X' ~ N(m, v²) gives r + γX' ~ N(r + γm, γ²v²), density and gradient."""
    mean, width = 0.7, 0.5
    moved = normal_fields(REWARD + GAMMA * mean, GAMMA * width)
    assert float(going_on(moved, normal_fields(mean, width), x)) == pytest.approx(0, abs=1e-8)


@pytest.mark.parametrize("gamma", [0.3, 0.6, 1.0])
def test_targets_are_divided_by_gamma_and_by_its_square(gamma):
    """From fields that are zero, each target is seen on its own."""
    x = 0.8
    s, g = normal_fields(0.7, 0.5)((x - REWARD) / gamma)
    density = lambda y: (norm.pdf(y, 0.7, 0.5), jnp.zeros_like(y))
    slope = lambda y: (jnp.zeros_like(y), normal_fields(0.7, 0.5)(y)[1])
    found = [float(going_on(nothing, f, x, gamma)) for f in (density, slope)]
    wanted = [HALF**2 * float(s / gamma) ** 2, HALF**4 * float(g / gamma**2) ** 2]
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_what_would_come_from_beyond_the_span_is_no_target():
    wide = normal_fields(0.0, 5.0)
    # (x − r)/γ is 4.5 and −2.5: outside of [−2, 4].
    for x in (0.3 + 0.6 * 4.5, 0.3 - 0.6 * 2.5):
        assert float(going_on(nothing, wide, x)) == 0
    assert float(going_on(nothing, wide, 0.3 + 0.6 * 3.9)) > 0


def test_an_end_is_matched_to_its_samples_and_looks_at_nothing_that_follows():
    """half⁴ (g² + κ g') + half² (s² − 2κs) at the first draw, κ = N(x₁ − x₂; 0, ε)."""
    fields = normal_fields(0.2, 0.9)
    draws = Draws(jnp.asarray(1.0), jnp.asarray(0.5), jnp.asarray(0.1))

    def loss(following):
        zero = jnp.asarray(0.0)
        return float(algorithm_3(fields, following, draws, REWARD, zero, SPAN, EPSILON))

    s, g = (float(a) for a in fields(jnp.asarray(0.5)))
    step = 1e-2
    slope = float(fields(0.5 + step)[1] - fields(0.5 - step)[1]) / (2 * step)
    kappa = np.exp(-0.5 * 0.4**2 / EPSILON) / np.sqrt(2 * np.pi * EPSILON)
    wanted = HALF**4 * (g**2 + kappa * slope) + HALF**2 * (s**2 - 2 * kappa * s)
    assert loss(normal_fields(0.7, 0.5)) == pytest.approx(wanted, rel=1e-3)
    assert loss(normal_fields(0.7, 0.5)) == loss(nothing)


def test_a_batch_that_goes_on_regresses_to_gamma_backups_at_uniform_returns():
    """The mean over [low, high] by quadrature, within 5 % for 20,000 draws."""
    encoder = ObservationEncoder((1,), 2)
    model = make_model("paper", encoder, 1, ModelSettings(21, 1.2, (8,)))
    normalisation = Normalisation(ObservationScaler.identity(encoder), Support.fixed(-1.0, 4.0))
    network, target = (model.network(jax.random.key(seed)) for seed in (0, 1))
    transition = Transition(
        jnp.zeros(1), jnp.asarray(0), REWARD, jnp.ones(1), jnp.asarray(GAMMA, jnp.float32)
    )

    def loss(key):
        ahead = Bootstrap(target, None, jnp.asarray(0))
        return model.loss(network, normalisation, transition, ahead, key)

    found = jnp.mean(jax.vmap(loss)(jax.random.split(jax.random.key(0), 20_000)))
    low, high = (float(end) for end in model.span(normalisation.support))
    x = jnp.linspace(low, high, 4001)
    place = (x - REWARD) / GAMMA

    def fields(network, state, x):
        features = normalisation.scaler(jnp.full(1, state))
        s, g = jax.vmap(lambda y: model.fields(network, normalisation, features, y))(x)
        return s[:, 0], g[:, 0]

    s, g = fields(network, 0.0, x)
    s_next, g_next = fields(target, 1.0, place)
    inside = (place >= low) & (place <= high)
    half = (high - low) / 2
    missed = half**2 * (s - inside * s_next / GAMMA) ** 2
    missed = missed + half**4 * (g - inside * g_next / GAMMA**2) ** 2
    assert float(found) == pytest.approx(float(jnp.mean(missed)), rel=0.05)
