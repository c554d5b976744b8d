"""The return models' formulas, against published test vectors and independent computations."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.returns.backup import BellmanBackup
from bellman_diffusion.returns.basis import GaussianBasis
from bellman_diffusion.returns.models import (
    Bootstrap,
    ModelSettings,
    Normalisation,
    Transition,
    make_model,
    model_names,
    register_model,
)
from bellman_diffusion.returns.models.categorical import share_between_neighbours
from bellman_diffusion.returns.models.paper import Draws, algorithm_3
from bellman_diffusion.returns.models.quantile import quantile_huber
from bellman_diffusion.returns.models.smoothed import SmoothedCategorical, spread
from bellman_diffusion.returns.observations import ObservationEncoder, ObservationScaler
from bellman_diffusion.returns.projection import BasisProjection, CategoricalProjection
from bellman_diffusion.returns.support import Support
from bellman_diffusion.returns.whitening import Whitening

ENCODER = ObservationEncoder((3,))
NORMALISATION = Normalisation(ObservationScaler.identity(ENCODER), Support.fixed(-2.0, 6.0))
BASIS = GaussianBasis.on_interval(-1, 4, 21)
ALL = ("smoothed", "cells", "cramer", "paper", "categorical", "quantile", "expectation")


def project(support, weights, target) -> np.ndarray:
    """Weights on any points, put on an even grid."""
    target = np.asarray(target, float)
    place = (np.asarray(support, float) - target[0]) / (target[1] - target[0])
    return np.asarray(
        share_between_neighbours(jnp.asarray(weights, jnp.float32), jnp.asarray(place), len(target))
    )


def model_of(name: str, **changes):
    return make_model(name, ENCODER, 2, ModelSettings(**changes))


def test_projection_of_signed_weights_is_rlax():
    old = np.arange(-1, 1.0, 0.25)
    new = np.arange(-1, 1.0, 0.5)
    first = old.copy()
    first[::2] = 0.0
    second = old + 1.0
    second[1::2] = 0.0
    np.testing.assert_allclose(project(old, first, new), [-0.375, -0.5, 0, 0.875], atol=1e-6)
    np.testing.assert_allclose(project(old + 1, second, new + 1), [0, 0.5, 1, 1.5], atol=1e-6)


def test_projection_is_dopamines_from_a_support_out_of_order():
    found = project([4, 3, 2, 1, 0], [0.1, 0.2, 0.1, 0.3, 0.3], [3, 4, 5, 6, 7])
    np.testing.assert_allclose(found, [0.9, 0.1, 0, 0, 0], atol=1e-6)


def test_projection_is_dopamines_to_a_coarser_support():
    found = project([8, 9, 10, 12, 14], [0.1, 0.2, 0.4, 0.1, 0.2], [0, 4, 8, 12, 16])
    np.testing.assert_allclose(found, [0, 0, 0.45, 0.45, 0.1], atol=1e-6)


def test_projection_keeps_the_mass_where_an_atom_is_hit():
    for place in ([0, 1, 2, 3, 4], [4, 4, 4, 4, 4], [0, 0, 0, 0, 0], [-3, 1, 2, 9, 4]):
        found = share_between_neighbours(jnp.full(5, 0.2), jnp.asarray(place, jnp.float32))
        assert float(found.sum()) == pytest.approx(1, abs=1e-6)


def test_quantile_huber_is_sb3_contribs():
    loss = float(quantile_huber(jnp.zeros(10), jnp.ones(10)))
    assert loss == pytest.approx(2.5, abs=1e-6)
    assert loss / 10 == pytest.approx(0.25, abs=1e-7)


def test_quantile_regression_finds_the_quantiles():
    """The minimiser over a large sample is the quantiles of the sample (κ small)."""
    sample = jnp.asarray(np.random.default_rng(0).exponential(size=400), jnp.float32)
    values = jnp.full(5, 1.0)
    gradient = jax.jit(jax.grad(lambda q: quantile_huber(q, sample, kappa=0.01)))
    for _ in range(600):
        values = values - 0.05 * gradient(values)
    wanted = np.quantile(np.asarray(sample), (np.arange(5) + 0.5) / 5)
    np.testing.assert_allclose(values, wanted, atol=0.05)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.floats(2.0, 17.0), min_size=20, max_size=20),
    st.floats(0.0, 0.8),
    st.integers(0, 1000),
)
def test_spreading_keeps_mass_mean_and_sign_and_adds_the_variance_asked_for(places, added, seed):
    mass = np.random.default_rng(seed).dirichlet(np.ones(20)).astype(np.float32)
    place = np.asarray(places, np.float32)
    found = np.asarray(spread(jnp.asarray(mass), jnp.asarray(place), added), float)
    nodes = np.arange(20)
    mean = mass @ place
    assert found.sum() == pytest.approx(1, abs=1e-5)
    assert found @ nodes == pytest.approx(mean, abs=1e-3)
    t = place - np.floor(place)
    wanted = mass @ ((place - mean) ** 2 + np.maximum(added, t * (1 - t)))
    assert found.min() >= -1e-6
    assert found @ (nodes - mean) ** 2 == pytest.approx(wanted, abs=5e-3)


def test_noise_preserving_backups_reach_the_return_smoothed_once():
    """A certain reward of 1.01 at each step, γ = 0.9: the fixed point is N(10.1, σ²), not wider."""
    model = model_of("smoothed", n_outputs=61, sigma=1.5)
    assert isinstance(model, SmoothedCategorical)
    support = Support.fixed(0.0, 12.0)
    nodes, spacing = model.nodes(support), model.spacing(support)
    distribution = jnp.full(61, 1 / 61)
    place = (1.01 + 0.9 * nodes - support.low) / spacing + model.margin
    step = jax.jit(lambda distribution: model.target(distribution, jnp.asarray(0.9), place))
    for _ in range(150):
        distribution = step(distribution)
    mean = float(distribution @ nodes)
    deviation = float(jnp.sqrt(distribution @ (nodes - mean) ** 2))
    assert mean == pytest.approx(10.1, abs=0.01)
    assert deviation == pytest.approx(1.5 * float(spacing), rel=0.02)
    # C51's sharing adds a variance at each backup instead.
    atoms = jnp.full(61, 1 / 61)
    for _ in range(150):
        atoms = share_between_neighbours(atoms, place)
    shown = float(jnp.sqrt(atoms @ (nodes - float(atoms @ nodes)) ** 2))
    assert shown > 0.3 * float(spacing)


def test_reported_laws_have_the_returns_own_variance():
    """The smoothing is taken out again: N(2, 1² + σ²) at the nodes is reported with deviation 1."""
    model = model_of("smoothed", n_outputs=61, sigma=1.5)
    assert isinstance(model, SmoothedCategorical)
    nodes, spacing = model.nodes(NORMALISATION.support), model.spacing(NORMALISATION.support)
    total = 1.0 + (1.5 * spacing) ** 2
    weights = jax.nn.softmax(-0.5 * (nodes - 2.0) ** 2 / total)
    distribution = model.distribution(weights[None, None], NORMALISATION)[0, 0]
    assert float(distribution.mean()) == pytest.approx(2.0, abs=1e-3)
    assert float(distribution.var()) == pytest.approx(1.0, rel=0.01)
    # An atom at 2 itself is half of the symmetric distribution's middle.
    around = float(distribution.prob_below(2.0) + distribution.prob_at_most(2.0)) / 2
    assert around == pytest.approx(0.5, abs=1e-3)


def test_reported_laws_keep_a_small_tail_apart_from_a_certain_return():
    """3 % at the support's low end, the rest at its high end: no mass between them."""
    model = model_of("smoothed", n_outputs=31, sigma=2.0)
    assert isinstance(model, SmoothedCategorical)
    ends = [jnp.asarray(float(model.margin)), jnp.asarray(30.0 - model.margin)]
    low, high = (model.smoothed(end) for end in ends)
    distribution = model.distribution((0.03 * low + 0.97 * high)[None, None], NORMALISATION)[0, 0]
    middle = (NORMALISATION.support.low + NORMALISATION.support.high) / 2
    spacing = float(model.spacing(NORMALISATION.support))
    assert float(distribution.prob_below(middle)) == pytest.approx(0.03, abs=1e-3)
    assert float(distribution.quantile(0.5)) == pytest.approx(
        float(NORMALISATION.support.high), abs=0.5 * spacing
    )
    assert float(distribution.mean()) == pytest.approx(
        float(0.03 * NORMALISATION.support.low + 0.97 * NORMALISATION.support.high),
        abs=0.5 * spacing,
    )


@pytest.mark.parametrize("name", ALL)
def test_every_model_gives_distributions_whose_means_are_its_means(name):
    model = model_of(name)
    network = model.network(jax.random.key(0))
    rows = jax.random.normal(jax.random.key(1), (4, 3))
    outputs = jax.vmap(lambda o: model.outputs(network, NORMALISATION, o))(rows)
    found = model.distribution(outputs, NORMALISATION)
    assert found.batch_shape == (4, 2)
    np.testing.assert_allclose(found.mean(), model.means(outputs, NORMALISATION), atol=1e-3)
    x = jnp.asarray(found.grid_of_returns(4001))
    np.testing.assert_allclose(jnp.trapezoid(found.pdf(x), x, axis=-1), 1, atol=0.02)
    if name != "cramer":
        # Signed coefficients of an untrained network are no distribution.
        assert np.all(np.asarray(found.cvar(0.1)) <= np.asarray(found.mean()) + 1e-4)


@pytest.mark.parametrize("name", [name for name in ALL if name != "paper"])
def test_a_terminal_transition_does_not_look_at_the_next_state(name):
    model = model_of(name)
    network, other = (model.network(jax.random.key(i)) for i in (0, 1))
    rows = jax.random.normal(jax.random.key(2), (2, 3))

    def loss(target, discount):
        transition = Transition(
            rows[0], jnp.asarray(1), jnp.asarray(0.7), rows[1], jnp.asarray(discount)
        )
        ahead = model.outputs(target, NORMALISATION, rows[1])
        bootstrap = Bootstrap(target, ahead, jnp.asarray(0))
        inputs = (network, NORMALISATION, transition, bootstrap, jax.random.key(3))
        return float(model.loss(*inputs))

    assert loss(network, 0.0) == pytest.approx(loss(other, 0.0), abs=1e-5)
    assert loss(network, 0.9) != pytest.approx(loss(other, 0.9), abs=1e-5)


@pytest.mark.parametrize("name", ["smoothed", "categorical"])
def test_softmax_networks_predict_the_same_over_a_wider_support(name):
    model = model_of(name, n_outputs=81)
    network = model.network(jax.random.key(0))
    # A distribution well inside the support.
    bump = jnp.exp(-0.5 * ((jnp.arange(81) - 40) / 5) ** 2) * 12
    layer = network.layers[-1]
    network = eqx.tree_at(lambda n: n.layers[-1].bias, network, layer.bias + jnp.tile(bump, 2))
    _same_means_over_a_wider_support(model, network, atol=0.25)


def test_a_cramer_network_predicts_the_same_over_a_wider_support():
    """Means are kept but for interpolation: within a hundredth of the support."""
    model = model_of("cramer", n_outputs=41)
    network = model.network(jax.random.key(0))
    wanted = jax.nn.softmax(-0.5 * ((jnp.arange(41) - 20) / 3) ** 2)
    raw = model._tables.to_raw @ wanted
    layer = network.layers[-1]
    network = eqx.tree_at(
        lambda n: (n.layers[-1].weight, n.layers[-1].bias),
        network,
        (jnp.zeros_like(layer.weight), jnp.tile(raw, 2)),
    )
    _same_means_over_a_wider_support(model, network, atol=0.08)


def _same_means_over_a_wider_support(model, network, atol):
    wide = Support.fixed(-6.0, 10.0)
    rescaled = model.rescaled(network, NORMALISATION.support, wide)
    row = jnp.ones(3)
    before = model.means(model.outputs(network, NORMALISATION, row), NORMALISATION)
    after_normalisation = Normalisation(NORMALISATION.scaler, wide)
    after = model.means(model.outputs(rescaled, after_normalisation, row), after_normalisation)
    np.testing.assert_allclose(after, before, atol=atol)


@pytest.mark.parametrize(
    ("name", "kind"), [("cramer", BasisProjection), ("categorical", CategoricalProjection)]
)
def test_jitted_targets_are_the_matrices_of_dynamic_programming(name, kind):
    projection, gamma = kind(BASIS), 0.9
    model, support = model_of(name, n_outputs=21), Support.fixed(-1.0, 4.0)
    rng = np.random.default_rng(0)
    ahead = rng.dirichlet(np.ones(21), size=6)
    reward = np.array([0.0, 0.37, -0.2, 1.0, 0.5, 2.0])
    terminated = np.array([0, 0, 0, 0, 1, 1.0])
    for i in range(6):
        discount = jnp.asarray(gamma * (1 - terminated[i]), jnp.float32)
        weights = jnp.asarray(ahead[i], jnp.float32)
        backup = BellmanBackup(jnp.asarray(reward[i], jnp.float32), discount)
        found = model.backed_up(weights, backup, support)
        truth = (
            projection.terminal(reward[i : i + 1])
            if terminated[i]
            else projection.backed_up(reward[i : i + 1], gamma) @ ahead[i]
        )
        assert np.allclose(found, truth, atol=2e-3)
        assert float(found.sum()) == pytest.approx(1, abs=1e-4)


def test_whitened_coordinates_make_cramers_distance_euclidean():
    whitening, gram = Whitening.of(BASIS), BASIS.inner("cramer", BASIS.centres, BASIS.sigma**2)
    rng = np.random.default_rng(0)
    gap = rng.dirichlet(np.ones(21)) - rng.dirichlet(np.ones(21))
    y = whitening.from_coefficients @ gap
    assert y @ y == pytest.approx(gap @ gram @ gap, rel=1e-4)
    assert np.allclose(whitening.to_coefficients @ y, gap, atol=1e-4)


def test_algorithm_3_at_an_end_is_the_field_matching_loss():
    """Terminal rows: the mean over x₁, x₂ ~ N(r, σ²) of g² + κ g' + s² − 2κs, by quadrature."""
    n, reward, sigma, epsilon = 20_000, 0.5, 0.3, 0.2
    low, high = span = (jnp.asarray(-2.0), jnp.asarray(5.0))

    def fields(x):
        return 0.2 + 0.1 * jnp.sin(x), 0.3 * jnp.cos(2 * x)

    def one(key):
        ends = reward + sigma * jax.random.normal(key, (2,))
        draws = Draws(jnp.asarray(0.0), ends[0], ends[1])
        zero, r = jnp.zeros(()), jnp.asarray(reward)
        return algorithm_3(fields, fields, draws, r, zero, span, epsilon)

    found = jnp.mean(jax.vmap(one)(jax.random.split(jax.random.key(0), n)))
    x = np.linspace(reward - 6 * sigma, reward + 6 * sigma, 801).astype(np.float32)
    p = np.exp(-0.5 * ((x - reward) / sigma) ** 2) / (sigma * np.sqrt(2 * np.pi))
    wide = epsilon + sigma**2
    rho = np.exp(-0.5 * (x - reward) ** 2 / wide) / np.sqrt(2 * np.pi * wide)
    s, g = fields(jnp.asarray(x))
    slope = np.gradient(np.asarray(g), x)
    half = float(high - low) / 2
    inside = half**4 * (g**2 + rho * slope) + half**2 * (s**2 - 2 * rho * s)
    assert float(found) == pytest.approx(np.trapezoid(p * inside, x), rel=0.05, abs=0.02)


def test_algorithm_3_regresses_to_the_bellman_equation():
    """For the exact fields of r + γX', X' ~ N(0.3, 0.8²), the loss before an end is zero."""
    gamma, reward, mean, width = 0.7, 0.4, 0.3, 0.8

    def normal(m, w):
        def at(x):
            s = jax.scipy.stats.norm.pdf(x, m, w)
            return s, -(x - m) / w**2 * s

        return at

    ours, ahead = normal(reward + gamma * mean, gamma * width), normal(mean, width)
    span = (jnp.asarray(-8.0), jnp.asarray(8.0))
    for x in (-0.5, 0.6, 1.4):
        draws = Draws(jnp.asarray(x), jnp.zeros(()), jnp.zeros(()))
        inputs = (draws, jnp.asarray(reward), jnp.asarray(gamma), span, 0.1)
        assert float(algorithm_3(ours, ahead, *inputs)) == pytest.approx(0, abs=1e-8)
        wrong = normal(reward + gamma * mean, 1.1 * gamma * width)
        assert float(algorithm_3(wrong, ahead, *inputs)) > 1e-3


def test_an_unknown_model_is_named_with_the_known_ones():
    with pytest.raises(InvalidInputError, match="choose smoothed"):
        model_of("rainbow")


def test_a_model_can_be_added():
    register_model("mine", lambda e, n, s: make_model("categorical", e, n, s))
    assert "mine" in model_names()
    assert model_of("mine").n_actions == 2
