"""The algorithms' formulas, against published test vectors and independent computations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bellman_diffusion.agents.algorithms import algorithm_names, make_algorithm, register
from bellman_diffusion.agents.algorithms.base import Frame
from bellman_diffusion.agents.algorithms.bellman import BellmanFields, spread
from bellman_diffusion.agents.algorithms.c51 import share_between_neighbours
from bellman_diffusion.agents.algorithms.quantile import quantile_huber
from bellman_diffusion.agents.config import AgentConfig
from bellman_diffusion.returns.networks import Reader, Scaling
from bellman_diffusion.agents.replay import Transition
from bellman_diffusion.returns.support import Support
from bellman_diffusion.errors import InvalidInputError

READER = Reader((3,), 0)
FRAME = Frame(Scaling.none(READER), Support.fixed(-2.0, 6.0))


def project(support, weights, target) -> np.ndarray:
    """Weights on any points, put on an even grid."""
    target = np.asarray(target, float)
    place = (np.asarray(support, float) - target[0]) / (target[1] - target[0])
    return np.asarray(
        share_between_neighbours(jnp.asarray(weights, jnp.float32), jnp.asarray(place), len(target))
    )


def algorithm(name: str, **changes):
    return make_algorithm(AgentConfig("CartPole-v1", algo=name, **changes), READER, 2)


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
    model = algorithm("bellman", n_outputs=61, sigma=1.5)
    assert isinstance(model, BellmanFields)
    support = Support.fixed(0.0, 12.0)
    nodes, spacing = model.nodes(support), model.spacing(support)
    law = jnp.full(61, 1 / 61)
    place = (1.01 + 0.9 * nodes - support.low) / spacing + model.margin
    step = jax.jit(lambda law: model.target(law, jnp.asarray(0.9), place))
    for _ in range(150):
        law = step(law)
    mean = float(law @ nodes)
    deviation = float(jnp.sqrt(law @ (nodes - mean) ** 2))
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
    model = algorithm("bellman", n_outputs=61, sigma=1.5)
    assert isinstance(model, BellmanFields)
    nodes, spacing = model.nodes(FRAME.support), model.spacing(FRAME.support)
    total = 1.0 + (1.5 * spacing) ** 2
    weights = jax.nn.softmax(-0.5 * (nodes - 2.0) ** 2 / total)
    law = model.laws(weights[None, None], FRAME)[0, 0]
    assert float(law.mean()) == pytest.approx(2.0, abs=1e-3)
    assert float(law.var()) == pytest.approx(1.0, rel=0.01)
    assert float(law.prob_below(2.0)) == pytest.approx(0.5, abs=1e-3)


def test_reported_laws_keep_a_small_tail_apart_from_a_certain_return():
    """3 % at the support's low end, the rest at its high end: no mass between them."""
    model = algorithm("bellman", n_outputs=31, sigma=2.0)
    assert isinstance(model, BellmanFields)
    ends = [jnp.asarray(float(model.margin)), jnp.asarray(30.0 - model.margin)]
    low, high = (model.smoothed(end) for end in ends)
    law = model.laws((0.03 * low + 0.97 * high)[None, None], FRAME)[0, 0]
    middle = (FRAME.support.low + FRAME.support.high) / 2
    spacing = float(model.spacing(FRAME.support))
    assert float(law.prob_below(middle)) == pytest.approx(0.03, abs=1e-3)
    assert float(law.quantile(0.5)) == pytest.approx(float(FRAME.support.high), abs=0.5 * spacing)
    assert float(law.mean()) == pytest.approx(
        float(0.03 * FRAME.support.low + 0.97 * FRAME.support.high), abs=0.5 * spacing
    )


@pytest.mark.parametrize("name", ["bellman", "bellman-paper", "c51", "qr-dqn", "dqn"])
def test_every_algorithm_gives_laws_whose_means_are_its_means(name):
    model = algorithm(name)
    network = model.network(jax.random.key(0))
    rows = jax.random.normal(jax.random.key(1), (4, 3))
    readings = jax.vmap(lambda o: model.read(network, FRAME, o))(rows)
    laws = model.laws(readings, FRAME)
    assert laws.batch_shape == (4, 2)
    np.testing.assert_allclose(laws.mean(), model.means(readings, FRAME), atol=1e-3)
    x = jnp.linspace(float(laws.low), float(laws.high), 4001)
    np.testing.assert_allclose(jnp.trapezoid(laws.pdf(x), x, axis=-1), 1, atol=0.02)
    assert np.all(np.asarray(laws.cvar(0.1)) <= np.asarray(laws.mean()) + 1e-4)


@pytest.mark.parametrize("name", ["bellman", "c51", "qr-dqn", "dqn"])
def test_a_terminal_transition_does_not_look_at_what_follows(name):
    model = algorithm(name)
    network, other = (model.network(jax.random.key(i)) for i in (0, 1))
    rows = jax.random.normal(jax.random.key(2), (2, 3))

    def loss(slow, discount):
        transition = Transition(
            rows[0], jnp.asarray(1), jnp.asarray(0.7), rows[1], jnp.asarray(discount)
        )
        following = model.read(slow, FRAME, rows[1])
        key = jax.random.key(3)
        return float(model.loss(network, slow, FRAME, transition, following, jnp.asarray(0), key))

    assert loss(network, 0.0) == pytest.approx(loss(other, 0.0), abs=1e-6)
    assert loss(network, 0.9) != pytest.approx(loss(other, 0.9), abs=1e-6)


def test_networks_say_the_same_over_a_wider_support():
    for name in ("bellman", "c51"):
        model = algorithm(name, n_outputs=81)
        network = model.network(jax.random.key(0))
        # A law well inside the support.
        bump = jnp.exp(-0.5 * ((jnp.arange(81) - 40) / 5) ** 2) * 12
        layer = network.layers[-1]
        import equinox as eqx

        network = eqx.tree_at(lambda n: n.layers[-1].bias, network, layer.bias + jnp.tile(bump, 2))
        wide = Support.fixed(-6.0, 10.0)
        moved = model.moved(network, FRAME.support, wide)
        row = jnp.ones(3)
        before = model.means(model.read(network, FRAME, row), FRAME)
        after_frame = Frame(FRAME.scaling, wide)
        after = model.means(model.read(moved, after_frame, row), after_frame)
        np.testing.assert_allclose(after, before, atol=0.25)


def test_an_unknown_algorithm_is_named_with_the_known_ones():
    with pytest.raises(InvalidInputError, match="choose bellman"):
        algorithm("rainbow")


def test_an_algorithm_can_be_added():
    register("mine", lambda c, r, n: make_algorithm(AgentConfig("x", algo="c51"), r, n))
    assert "mine" in algorithm_names()
    assert algorithm("mine").n_actions == 2
