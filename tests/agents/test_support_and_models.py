"""The normalisation of a model (scales, support), and the formulas that need it."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bellman_diffusion.agents.algorithms import find_algorithm
from bellman_diffusion.agents.config import AgentConfig
from bellman_diffusion.agents.learner import Learner
from bellman_diffusion.agents.replay import Rows
from bellman_diffusion.returns.models import (
    Bootstrap,
    ModelSettings,
    Normalisation,
    Transition,
    make_model,
)
from bellman_diffusion.returns.observations import ObservationEncoder, ObservationScaler
from bellman_diffusion.returns.support import Support, first_support

ENCODER = ObservationEncoder((3,), 0)
NORMALISATION = Normalisation(ObservationScaler.identity(ENCODER), Support.fixed(-2.0, 6.0))
ROUND = 10


def config_of(algo, **changes):
    sizes = {"hidden": (8,), "batch_size": 8, "learning_starts": ROUND, "replay": 200}
    return AgentConfig("CartPole-v1", algo=algo, **(sizes | {"n_outputs": 11} | changes))


def model_of(algo, **changes):
    return model_for(config_of(algo, **changes))


def model_for(config):
    sizes = ModelSettings(config.n_outputs, config.smoothing, config.hidden)
    return make_model(find_algorithm(config.algo).model, ENCODER, 2, sizes)


def rows_of(reward, ended, terminated=None, observation=None):
    """One environment, time by time."""
    reward, ended = (np.asarray(a, np.float32)[:, None] for a in (reward, ended))
    n = len(reward)
    seen = np.zeros((n, 1, 3), np.float32) if observation is None else observation
    end = ended if terminated is None else np.asarray(terminated, np.float32)[:, None]
    return Rows(*map(jnp.asarray, (seen, np.zeros((n, 1), int), reward, seen, end, ended)))


def test_the_papers_loss_evaluates_the_next_state_with_the_target_network():
    model = model_of("bellman-paper")
    network, slow, other = (model.network(jax.random.key(i)) for i in range(3))
    rows = jax.random.normal(jax.random.key(3), (3, 3))

    @jax.jit
    def loss(target, next_observation, discount):
        reward = jnp.asarray(0.1)
        transition = Transition(rows[0], jnp.asarray(1), reward, next_observation, discount)
        ahead = Bootstrap(target, None, jnp.asarray(0))
        return model.loss(network, NORMALISATION, transition, ahead, jax.random.key(4))

    base = float(loss(slow, rows[1], 0.9))
    assert float(loss(other, rows[1], 0.9)) != pytest.approx(base, rel=1e-4)
    assert float(loss(slow, rows[2], 0.9)) != pytest.approx(base, rel=1e-4)
    # At an end neither matters.
    ends = [float(loss(s, row, 0.0)) for s in (slow, other) for row in rows[1:]]
    np.testing.assert_allclose(ends, ends[0], rtol=1e-6)


@pytest.mark.parametrize("discount", [0.0, 0.5])
def test_what_overflows_the_support_is_told_by_side(discount):
    """C51's atoms from −2 to 6, all mass at 6: r + d · 6 beyond 6 is above, in widths of 8."""
    model = model_of("c51", n_outputs=5)
    weights = jnp.tile(jnp.eye(5)[4], (2, 1))
    for reward in (10.0, -11.0, 1.0):
        transition = Transition(
            jnp.zeros(3), jnp.asarray(0), jnp.asarray(reward), jnp.zeros(3), jnp.asarray(discount)
        )
        below, above = model.overflow(
            NORMALISATION, transition, Bootstrap(None, weights, jnp.asarray(1))
        )
        place = reward + discount * 6.0
        assert float(below) == pytest.approx(max(-2.0 - place, 0) / 8, abs=1e-6)
        assert float(above) == pytest.approx(max(place - 6.0, 0) / 8, abs=1e-6)


def test_returns_of_one_episode_do_not_reach_into_the_one_before():
    """A reward of 1 at the end of each of ten episodes: the best return is 1, with a tenth of room."""
    ended = np.arange(30) % 3 == 2
    support = first_support(*(getattr(rows_of(ended, ended), n) for n in ("reward", "ended")), 0.99)
    assert float(support.high) == pytest.approx(1.1, rel=1e-5)
    assert float(support.low) == 0
    assert float(support.greatest) == pytest.approx(100, rel=1e-4)


def learned_frame(learner, rows, rounds=(0,), **changes):
    """The state after some rounds of the same rows."""
    absorb = jax.jit(lambda state, n: learner.learn(jax.random.key(1), state, rows, n)[0])
    state = learner.init(jax.random.key(0))._replace(**changes)
    for n in rounds:
        state = absorb(state, jnp.asarray(n))
    return state


@pytest.mark.parametrize(("algo", "high"), [("c51", 1.1), ("dqn", 100.0)])
def test_a_support_that_cannot_grow_is_as_wide_as_the_rewards_allow(algo, high):
    """Rewards of at most 1 bound returns by 1/(1 − γ) = 100; the returns seen reach 1."""
    ended = np.arange(ROUND) % 5 == 4
    config = config_of(algo, gamma=0.99, n_step=1, normalise=False)
    learner = Learner(config, model_for(config), ENCODER)
    support = learned_frame(learner, rows_of(ended, ended)).normalisation.support
    assert float(support.high) == pytest.approx(high, rel=1e-4)


def test_a_support_that_grows_takes_all_three_networks_along():
    """Ends with a reward of 3 overflow [0, 1]: half as wide again, and predictions stay the same."""
    config = config_of(
        "c51", gamma=0.9, n_step=1, normalise=False, learning_rate=1e-12, n_outputs=41
    )
    learner = Learner(config, model_for(config), ENCODER)
    model = learner.model
    rows = rows_of(np.full(ROUND, 3.0), np.ones(ROUND))
    old = Support(*(jnp.asarray(v, jnp.float32) for v in (0.0, 1.0, 0.0, 30.0)))
    normalisation = Normalisation(ObservationScaler.identity(ENCODER), old)
    # A distribution well inside the support.
    bump = jnp.tile(20 * jnp.exp(-0.5 * ((jnp.arange(41) - 24) / 4) ** 2), 2)
    network = model.network(jax.random.key(5))
    network = eqx.tree_at(lambda n: n.layers[-1].bias, network, bump)
    before = model.means(model.outputs(network, normalisation, jnp.ones(3)), normalisation)
    networks = {"network": network, "target_network": network, "ema_network": network}
    # Supports are looked at in every hundredth round.
    state = learned_frame(learner, rows, (100,), normalisation=normalisation, **networks)
    assert float(state.normalisation.support.high) == pytest.approx(1.5, rel=1e-5)
    assert float(state.normalisation.support.low) == 0
    for moved in (state.network, state.target_network, state.ema_network):
        after = model.means(
            model.outputs(moved, state.normalisation, jnp.ones(3)), state.normalisation
        )
        np.testing.assert_allclose(after, before, atol=0.03)


def test_observations_are_standardised_by_those_of_the_random_steps():
    """Columns: any numbers; zeros and ones, which stay so; and a constant, which is only moved."""
    rng = np.random.default_rng(0)
    seen = np.stack([rng.normal(5, 2, 400), rng.integers(0, 2, 400), np.full(400, 7.0)], axis=1)
    scaling = ObservationScaler.identity(ENCODER).fitted(jnp.asarray(seen, jnp.float32))
    mean, deviation = seen[:, 0].mean(), seen[:, 0].std()
    found = scaling(jnp.array([9.0, 1.0, 7.0]))
    np.testing.assert_allclose(found, [(9 - mean) / deviation, 1.0, 0.0], rtol=1e-4, atol=1e-5)
    # What is farther out than ten deviations is cut off.
    far = scaling(jnp.array([1e4, 0.0, -1e4]))
    np.testing.assert_allclose(far, [10.0, 0.0, -10.0], rtol=1e-5)


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({"gamma": 0.99, "n_step": 5, "n_outputs": 31}, 0.5 / np.sqrt(1 - 0.99**10)),
        ({"gamma": 0.9, "n_step": 1, "n_outputs": 31}, 0.5 / np.sqrt(1 - 0.81)),
        # At most a tenth of the outputs; one node where tails are minded; the given one.
        ({"gamma": 0.999, "n_step": 1, "n_outputs": 31}, 3.1),
        ({"gamma": 1.0, "n_outputs": 31}, 3.1),
        ({"gamma": 0.9, "n_step": 1, "risk": "cvar:0.1"}, 1.0),
        ({"gamma": 0.9, "n_step": 1, "sigma": 0.7}, 0.7),
    ],
)
def test_the_smoothing_is_the_least_that_makes_a_backup_exact(settings, wanted):
    assert AgentConfig("CartPole-v1", **settings).smoothing == pytest.approx(wanted)
