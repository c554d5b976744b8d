"""How the learner explores, learns and evaluates, with a model whose every step is known by hand."""

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bellman_diffusion.agents.algorithms import Algorithm, register_algorithm
from bellman_diffusion.agents.config import AgentConfig
from bellman_diffusion.agents.host_program import HostProgram, Tally
from bellman_diffusion.agents.jax_learner import JaxLearner
from bellman_diffusion.agents.learner import Learner
from bellman_diffusion.agents.replay import Rows
from bellman_diffusion.environments import Environment, HostEnvironments
from bellman_diffusion.environments.base import EnvSpec, EnvState, JaxEnvironment
from bellman_diffusion.returns.models import ReturnModel, register_model
from bellman_diffusion.returns.observations import ObservationEncoder

ENCODER = ObservationEncoder((1,), 0)
SPACE = gym.spaces.Box(-10, 10, (1,), np.float32)
# A round is ten steps and one update; a run is a hundred rounds; learning starts in the first.
BASE = {
    "steps": 1000,
    "eval_every": 100,
    "steps_per_round": 10,
    "updates_per_round": 1,
    "learning_starts": 10,
    "batch_size": 4,
    "n_step": 1,
    "replay": 200,
    "support": (0.0, 1.0),
    "normalise": False,
    "learning_rate": 0.1,
    "learning_rate_end": 1.0,
}


class Known(ReturnModel):
    """What each action is worth, and two weights whose gradients tell what the loss was given.

    Adam's first step is the rate against the gradient's sign.
    """

    n_actions: int = eqx.field(static=True, default=2)

    def network(self, key):
        return {"worth": jnp.zeros(self.n_actions), "chosen": jnp.zeros(()), "read": jnp.zeros(())}

    def outputs(self, network, normalisation, observation):
        return network["worth"]

    def means(self, outputs, normalisation):
        return outputs

    def distribution(self, outputs, normalisation):
        raise AssertionError("nobody asks for it")

    def loss(self, network, normalisation, step, ahead, key):
        # The gradient of `chosen` is 1 for action 0 and −1 for action 1.
        return network["chosen"] * (1.0 - 2.0 * ahead.action) + network["read"] * ahead.outputs[0]


def learner_of(**changes) -> Learner:
    return Learner(AgentConfig("known", **(BASE | changes)), Known(), ENCODER)


def learned_states(learner, rounds, **changes):
    """The states after each of some rounds of empty rows."""
    c = learner.config
    size = (c.rows_per_round, c.n_envs)
    zeros = jnp.zeros(size)
    rows = Rows(zeros[..., None], zeros.astype(int), zeros, zeros[..., None], zeros, zeros)
    step = jax.jit(lambda state, round_: learner.learn(jax.random.key(1), state, rows, round_)[0])
    state = learner.init(jax.random.key(0))._replace(**changes)
    states = []
    for round_ in rounds:
        state = step(state, jnp.asarray(round_))
        states.append(state)
    return states


def network_of(*worth):
    return {"worth": jnp.asarray(worth), "chosen": jnp.zeros(()), "read": jnp.zeros(())}


@pytest.mark.parametrize(("double", "action"), [(True, 0), (False, 1)])
def test_double_learning_chooses_by_the_learned_network_and_plain_by_the_target_network(
    double, action
):
    (state,) = learned_states(
        learner_of(double=double),
        [0],
        network=network_of(2.0, 1.0),
        target_network=network_of(-1.0, 3.0),
    )
    # Downhill from a gradient of 1 (action 0) or −1 (action 1).
    wanted = -0.1 if action == 0 else 0.1
    assert float(state.network["chosen"]) == pytest.approx(wanted, rel=1e-3)
    # Either way the target network evaluates the next state: −1 for action 0, not the network's 2.
    assert float(state.network["read"]) == pytest.approx(0.1, rel=1e-3)


@pytest.mark.parametrize("end", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("round_", [0, 50, 99])
def test_the_learning_rate_falls_in_a_line_to_its_share_at_the_end(round_, end):
    (state,) = learned_states(learner_of(learning_rate_end=end), [round_])
    # The first step of Adam has the length of the rate.
    rate = 0.1 * (1 - (1 - end) * round_ / 100)
    assert float(jnp.abs(state.network["chosen"])) == pytest.approx(rate, rel=1e-3)


def test_a_hard_target_is_the_learned_network_of_every_third_update_and_stays_till_the_next():
    states = learned_states(learner_of(target_every=3), range(8))
    learned = [float(s.network["chosen"]) for s in states]
    slow = [float(s.target_network["chosen"]) for s in states]
    assert len(set(learned)) == 8
    wanted = [0.0, 0.0, *[learned[2]] * 3, *[learned[5]] * 3]
    np.testing.assert_allclose(slow, wanted, rtol=1e-6)


def test_a_soft_target_moves_by_its_rate_towards_the_learned_network():
    states = learned_states(learner_of(target_rate=0.25), range(4))
    wanted = 0.0
    for state in states:
        wanted += 0.25 * (float(state.network["chosen"]) - wanted)
        assert float(state.target_network["chosen"]) == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("memory", [0.0, 0.15, 0.9])
def test_the_average_forgets_the_start_first_and_then_has_its_memory(memory):
    """Memory (1 + n)/(10 + n) at update n, at most the one asked for; 0 keeps the last weights."""
    states = learned_states(learner_of(ema_decay=memory), range(4))
    wanted = 0.0
    for n, state in enumerate(states):
        kept = min(memory, (1 + n) / (10 + n))
        wanted = kept * wanted + (1 - kept) * float(state.network["chosen"])
        assert float(state.ema_network["chosen"]) == pytest.approx(wanted, rel=1e-5)


def test_learning_starts_with_the_round_that_has_enough_steps():
    states = learned_states(learner_of(learning_starts=35), range(6))
    moved = [bool(state.network["chosen"] != 0) for state in states]
    assert moved == [False, False, False, True, True, True]


def test_a_round_has_as_many_updates_as_were_asked_for_and_numbers_them_through():
    """A target of every third update, two updates a round: copied in the second round and third."""
    states = learned_states(learner_of(updates_per_round=2, target_every=3), range(3))
    learned = [float(s.network["chosen"]) for s in states]
    slow = [float(s.target_network["chosen"]) for s in states]
    # Adam walks evenly under a constant gradient: 0.1 an update.
    np.testing.assert_allclose(np.abs(learned), [0.2, 0.4, 0.6], rtol=1e-3)
    np.testing.assert_allclose(np.abs(slow), [0.0, 0.3, 0.6], rtol=1e-3, atol=1e-6)


def test_exploration_is_one_before_learning_and_then_falls_in_a_line():
    learner = learner_of(
        learning_starts=100, epsilon_start=0.9, epsilon_end=0.1, epsilon_steps=400, steps=2000
    )
    steps = [0, 99, 100, 200, 300, 500, 1900]
    found = [float(learner.epsilon(jnp.asarray(step))) for step in steps]
    np.testing.assert_allclose(found, [1.0, 1.0, 0.9, 0.7, 0.5, 0.1, 0.1], atol=1e-6)


class Walk(JaxEnvironment):
    """Counts its steps, which is what is seen; each is paid by 1 + count; it never terminates."""

    spec: EnvSpec = eqx.field(static=True)

    def initial(self, key):
        return jnp.zeros(()), jnp.zeros(1)

    def advance(self, key, inner, action):
        return inner + 1, (inner + 1)[None], inner + 1.0, jnp.asarray(False)


class Choice(Walk):
    """One step, paid by the action's number."""

    def advance(self, key, inner, action):
        return inner, jnp.zeros(1), jnp.asarray(action, jnp.float32), jnp.asarray(True)


def spec_of(time_limit):
    return EnvSpec("walk", SPACE, 2, time_limit=time_limit)


def test_the_steps_taken_are_random_by_the_share_that_falls():
    """Half of the random actions are action 0; 1,000 steps a round, four standard errors."""
    shares = {"epsilon_start": 0.8, "epsilon_end": 0.2, "epsilon_steps": 2000}
    sizes = {"n_envs": 100, "steps_per_round": 1000, "steps": 5000, "eval_every": 5000}
    rest = {"learning_starts": 1000, "replay": 5000}
    learner = learner_of(**shares, **sizes, **rest)
    whole = JaxLearner(learner, Choice(spec_of(None)))
    state = whole.init(jax.random.key(0))._replace(network=network_of(0.0, 1.0))
    state, figures = jax.jit(whole.chunk)(jax.random.key(0), state, jnp.asarray(0))
    other = 1 - np.asarray(state.replay.action).reshape(5, 1000).mean(axis=1)
    wanted = np.array([1.0, 0.8, 0.5, 0.2, 0.2]) / 2
    assert np.all(np.abs(other - wanted) < 4 * np.sqrt(wanted * (1 - wanted) / 1000))
    assert float(figures["epsilon"]) == pytest.approx(0.2)


def test_a_truncated_episode_has_a_future_and_hands_on_what_it_reached():
    """With a time limit of three steps: no row is terminal, and none shows a reset as following."""
    learner = learner_of(n_envs=2, steps_per_round=20, learning_starts=200)
    whole = JaxLearner(learner, Walk(spec_of(3)))
    state = whole.init(jax.random.key(0))
    state, figures = jax.jit(whole.chunk)(jax.random.key(0), state, jnp.asarray(0))
    rows = jax.tree.map(lambda a: np.asarray(a)[:50, 0], state.replay)
    time = np.arange(50) % 3
    np.testing.assert_array_equal(rows.observation[:, 0], time)
    np.testing.assert_array_equal(rows.next_observation[:, 0], time + 1)
    np.testing.assert_array_equal(rows.ended, time == 2)
    assert not rows.terminated.any()
    # 1 + 2 + 3 for each episode, whichever chunk began it.
    assert float(figures["train_return"]) == pytest.approx(6.0)


def test_the_replay_is_a_ring_of_whole_rounds():
    """Room for 40 steps of ten a round: after six rounds the last four are there."""
    learner = learner_of(replay=40, learning_starts=40, eval_every=60, steps=600)
    whole = JaxLearner(learner, Walk(spec_of(None)))
    state = whole.init(jax.random.key(0))
    state, _ = jax.jit(whole.chunk)(jax.random.key(0), state, jnp.asarray(0))
    seen = np.asarray(state.replay.observation)[:, 0, 0]
    np.testing.assert_array_equal(seen, [*range(40, 60), *range(20, 40)])


def test_greedy_returns_stop_at_time_limits_and_followed_ones_are_discounted_through_them():
    learner = learner_of(gamma=0.5, eval_episodes=2)
    whole = JaxLearner(learner, Walk(spec_of(3)))
    state = whole.init(jax.random.key(0))
    np.testing.assert_allclose(whole.evaluate(jax.random.key(1), state), 6.0)
    start = jax.vmap(whole.environment.reset)(jax.random.split(jax.random.key(2), 2))
    found = whole.follow(jax.random.key(3), state.network, state.normalisation, start, 0.5, 5)
    # Σ γ^t (1 + t) over five steps.
    np.testing.assert_allclose(found, 1 + 2 / 2 + 3 / 4 + 4 / 8 + 5 / 16, rtol=1e-6)
    # An episode that has one step behind it has two left: 2 + 3.
    later = (EnvState(jnp.ones(2), jnp.ones(2, jnp.int32)), jnp.ones((2, 1)))
    found = whole.follow(jax.random.key(3), state.network, state.normalisation, later, 1.0)
    np.testing.assert_allclose(found, 5.0)


def test_jitted_agents_are_judged_by_their_averaged_weights():
    whole = JaxLearner(learner_of(eval_episodes=3), Choice(spec_of(None)))
    state = whole.init(jax.random.key(0))
    state = state._replace(network=network_of(1.0, 0.0), ema_network=network_of(0.0, 1.0))
    np.testing.assert_array_equal(whole.evaluate(jax.random.key(1), state), np.ones(3))


class HostChoice(gym.Env):
    """One step from a random start in (0, 1), paid by 10 · action + start."""

    observation_space = gym.spaces.Box(0, 1, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._start = np.float32(self.np_random.uniform(0.01, 0.99))
        return np.array([self._start]), {}

    def step(self, action):
        return np.array([self._start]), 10.0 * action + float(self._start), True, False, {}


gym.register("HostChoice-v0", HostChoice)
register_model("known", lambda e, n, s: Known(n))
register_algorithm("known", Algorithm("known"))
HOST = BASE | {"algo": "known", "learning_starts": 150, "eval_every": 50, "eval_episodes": 3}


@pytest.fixture(scope="module")
def host():
    program = HostProgram(AgentConfig("HostChoice-v0", **HOST), (0,))
    state, _ = program.start()
    yield program, state
    program.close()


def one_seed(*worth):
    return jax.tree.map(lambda a: a[None], network_of(*worth))


def test_host_stepped_agents_are_judged_by_their_averaged_weights(host):
    program, state = host
    state = state._replace(network=one_seed(1.0, 0.0), ema_network=one_seed(0.0, 1.0))
    _, _, returns = program.chunk(state, 0)
    assert 10 < returns[0] < 11


def test_no_chunk_of_host_stepped_agents_repeats_another(host):
    """Neither its episodes, nor its random actions, nor the starts that it is judged from."""
    program, state = host
    state, _, first = program.chunk(state, 0)
    state, _, second = program.chunk(state, 50)
    starts = np.asarray(state.replay.observation)[0, :100, 0, 0]
    actions = np.asarray(state.replay.action)[0, :100, 0].reshape(10, 10)
    assert len(np.unique(starts)) == 100
    # Ten rounds of ten coins: two alike would be a chance of 4 %, and this seed has none.
    assert len(np.unique(actions, axis=0)) == 10
    # Judged at one worth for both actions, so action 0, from three starts each.
    assert 0 < first[0] < 1
    assert first[0] != second[0]


def test_no_two_environments_of_the_host_start_alike():
    """Over seeds, environments side by side, and purposes: twelve starts."""
    spec = Environment("HostChoice-v0", {}).spec
    grids = [HostEnvironments(spec, ENCODER, (0, 1), 3, purpose) for purpose in (0, 1)]
    assert len(np.unique([grid.observation for grid in grids])) == 12


def test_returns_while_learning_are_means_over_ended_episodes():
    tally = Tally(2, 1)
    assert np.isnan(tally.means()).all()
    for reward, ended in ((1.0, 0), (2.0, 1), (5.0, 1), (9.0, 0)):
        tally.add(np.array([[reward], [0.0]]), np.array([[ended], [0]]))
    np.testing.assert_array_equal(tally.means(), [4.0, np.nan])
