"""The learner: probe environments with known answers, resuming, seeds apart from each other."""

import json
from collections.abc import Mapping

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from bellman_diffusion.agents.algorithms import find_algorithm
from bellman_diffusion.agents.config import AgentConfig
from bellman_diffusion.agents.evaluation import PredictedReturns, evaluate_returns
from bellman_diffusion.agents.jax_learner import JaxLearner
from bellman_diffusion.agents.learner import Learner
from bellman_diffusion.agents.make import make_jax_learner, make_learner
from bellman_diffusion.agents.registry import ENVIRONMENTS, default_config
from bellman_diffusion.agents.risk import Risk
from bellman_diffusion.agents.train import make_train, train_agents
from bellman_diffusion.environments.base import EnvSpec, JaxEnvironment
from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.returns.atoms import AtomicReturn
from bellman_diffusion.returns.models import ModelSettings, make_model
from bellman_diffusion.returns.observations import ObservationEncoder
from bellman_diffusion.returns.tabulated import TabulatedReturn
from bellman_diffusion.training import NoProgress, RunFolder

GAMMA = 0.8
SPACE = gym.spaces.Box(-2, 2, (1,), np.float32)


class Probe(JaxEnvironment):
    """A few states with fixed outcomes; the observation is a number."""

    spec: EnvSpec = eqx.field(static=True)
    seen: jax.Array
    start: jax.Array
    reward: jax.Array
    next_state: jax.Array
    done: jax.Array

    def initial(self, key):
        state = jax.random.choice(key, self.start.shape[0], p=self.start)
        return state, self.seen[state][None]

    def advance(self, key, inner, action):
        now = self.next_state[inner, action]
        return now, self.seen[now][None], self.reward[inner, action], self.done[inner, action]


def probe(seen, start, reward, next_state, done) -> Probe:
    spec = EnvSpec("probe", SPACE, 2, time_limit=10)
    arrays = (jnp.asarray(a, jnp.float32) for a in (seen, start, reward))
    return Probe(spec, *arrays, jnp.asarray(next_state), jnp.asarray(done, bool))


END = [[0, 0], [1, 1]]
# constant reward; observation-dependent; discounted; action-dependent; both.
PROBES = {
    "constant": (probe([0, 1], [1, 0], [[1, 1], [0, 0]], END, [[1, 1]] * 2), [[1, 1], None]),
    "observed": (
        probe([-1, 1], [0.5, 0.5], [[-1, -1], [1, 1]], END, [[1, 1]] * 2),
        [[-1] * 2, [1] * 2],
    ),
    "discounted": (
        probe([0, 1], [1, 0], [[0, 0], [1, 1]], [[1, 1], [1, 1]], [[0, 0], [1, 1]]),
        [[GAMMA] * 2, [1, 1]],
    ),
    "chosen": (probe([0, 1], [1, 0], [[-1, 1], [0, 0]], END, [[1, 1]] * 2), [[-1, 1], None]),
    "both": (probe([-1, 1], [0.5, 0.5], [[1, -1], [-1, 1]], END, [[1, 1]] * 2), [[1, -1], [-1, 1]]),
}


@pytest.mark.parametrize("algo", ["bellman", "c51", "qr-dqn", "dqn"])
def test_five_probe_environments_are_solved(algo):
    """All five at once: they differ in their numbers alone.

    Not by bellman-paper: Algorithm 3 looks at an end near its reward only, so what its s is
    elsewhere, and with it the mean, is the network's whim.
    """
    config = AgentConfig(
        "probe",
        algo=algo,
        steps=3000,
        eval_every=3000,
        gamma=GAMMA,
        learning_rate=3e-3,
        hidden=(32,),
        batch_size=32,
        n_step=1,
        support=(-2.0, 2.0),
        n_outputs=21,
        sigma=0.75,
        learning_starts=200,
        epsilon_end=0.5,
        normalise=False,
        updates_per_round=4,
    )
    encoder = ObservationEncoder.for_space(SPACE, "probe")
    sizes = ModelSettings(config.n_outputs, config.smoothing, config.hidden)
    model = make_model(find_algorithm(algo).model, encoder, 2, sizes)
    learner = Learner(config, model, encoder)
    together = jax.tree.map(lambda *a: jnp.stack(a), *(p for p, _ in PROBES.values()))

    @jax.jit
    def values(key):
        def one(environment):
            whole = JaxLearner(learner, environment)
            state, _ = whole.chunk(key, whole.init(key), jnp.asarray(0))
            readings = learner.outputs(
                state.network, state.normalisation, environment.seen[:, None]
            )
            return learner.model.means(readings, state.normalisation)

        return jax.vmap(one)(together)

    found = np.asarray(values(jax.random.key(0)))
    for (name, (_, wanted)), got in zip(PROBES.items(), found, strict=True):
        for state, row in enumerate(wanted):
            if row is not None:
                np.testing.assert_allclose(got[state], row, atol=0.1, err_msg=name)


SMALL = {
    "steps": 1200,
    "eval_every": 300,
    "eval_episodes": 3,
    "learning_starts": 200,
    "hidden": (16,),
    "batch_size": 16,
    "n_outputs": 11,
    "replay": 700,
    "ema_decay": 0.9,
}


class StopAt(NoProgress):
    """Ctrl-C after a number of steps."""

    def __init__(self, step: int) -> None:
        self._step = step

    def update(self, step: int, n_steps: int, metrics: Mapping[str, float]) -> None:
        if step == self._step:
            raise KeyboardInterrupt


@pytest.mark.parametrize("options", [{}, {"max_episode_steps": 200}], ids=["jitted", "host"])
def test_a_stopped_run_that_goes_on_ends_bit_for_bit_the_same(tmp_path, options):
    config = AgentConfig("CartPole-v1", env_options=options, **SMALL)
    settings = config.to_json()
    whole = train_agents(config, [5, 6, 7], run=RunFolder(tmp_path / "whole", settings))
    run = RunFolder(tmp_path / "cut", settings)
    with pytest.raises(KeyboardInterrupt):
        train_agents(config, [5, 6, 7], run=run, progress=StopAt(600))
    rest = train_agents(config, [5, 6, 7], run=RunFolder(tmp_path / "cut", settings))
    for one, other in zip(jax.tree.leaves(whole.state), jax.tree.leaves(rest.state), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(whole.returns, rest.returns)
    lines = [(tmp_path / name / "metrics.jsonl").read_text() for name in ("whole", "cut")]
    assert lines[0] == lines[1]
    assert len(lines[0].splitlines()) == 4
    assert "return/seed 6" in json.loads(lines[0].splitlines()[0])


def test_a_seed_learns_the_same_alone_in_company_and_as_a_pure_function():
    config = AgentConfig("CartPole-v1", **(SMALL | {"steps": 600}))
    alone = train_agents(config, [6])
    together = train_agents(config, [5, 6])
    np.testing.assert_allclose(alone.returns[:, 0], together.returns[:, 1])
    state, returns = jax.jit(make_train(config))(jax.random.key(6))
    np.testing.assert_allclose(returns.mean(axis=1), alone.returns[:, 0])
    network = jax.tree.map(lambda a: a[0], alone.state.network)
    for one, other in zip(jax.tree.leaves(network), jax.tree.leaves(state.network), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_the_support_is_found_and_grows_with_the_returns():
    """CartPole at γ = 0.99: rewards of 1 bound returns by 100, random episodes are shorter."""
    config = AgentConfig("CartPole-v1", **(SMALL | {"steps": 1200, "updates_per_round": 8}))
    trained = train_agents(config, [0])
    support = jax.tree.map(lambda a: float(a[0]), trained.state.normalisation.support)
    assert support.low == 0
    assert 10 < support.high <= 100.001
    assert support.greatest == pytest.approx(100, rel=1e-4)


def test_predicted_returns_are_compared_with_rollouts():
    config = AgentConfig("CartPole-v1", **(SMALL | {"steps": 300}))
    whole = make_jax_learner(config)
    state = jax.tree.map(lambda a: a[0], train_agents(config, [0]).state)
    predicted = evaluate_returns(
        whole, jax.random.key(0), state.ema_network, state.normalisation, 4, 3
    )
    assert predicted.returns.shape == (4, 3)
    # A return is Σ γ^k over the steps that are left.
    lengths = np.log(1 - predicted.returns * (1 - config.gamma)) / np.log(config.gamma)
    np.testing.assert_allclose(lengths, lengths.round(), atol=0.02)
    # W1 to a certain return is the mean distance to it.
    distribution = predicted.distributions[0]
    wanted = float(
        jnp.sum(distribution.mass * jnp.abs(distribution.atoms - predicted.returns[0, 0]))
    )
    assert predicted.w1()[0] == pytest.approx(wanted, rel=0.05)


def test_errors_of_the_fields_are_those_of_shifted_gaussians():
    """Of N(m, h²) moved by h: ∫|s − s*| = 2(2Φ(1/2) − 1), and ∫|g − g*| by quadrature."""
    distribution = AtomicReturn(jnp.ones((1, 1)), jnp.asarray([11.0]), jnp.asarray(0.1))
    predicted = PredictedReturns(np.zeros((1, 1)), distribution, np.full((1, 3), 10.0))
    scalar, gradient = predicted.field_errors(1.0)
    assert scalar[0] == pytest.approx(2 * (2 * norm.cdf(0.5) - 1), rel=1e-3)
    z = np.linspace(-10, 10, 20_001)
    slope = -z * norm.pdf(z)
    moved = -(z - 1) * norm.pdf(z - 1)
    wanted = np.abs(moved - slope).sum() / np.abs(slope).sum()
    assert gradient[0] == pytest.approx(wanted, rel=1e-3)
    right = PredictedReturns(np.zeros((1, 1)), distribution, np.full((1, 3), 11.0))
    assert max(right.field_errors(1.0)) < 1e-5
    # A table of a narrow distribution is smoothed as much as the returns are.
    grid = jnp.linspace(9.0, 13.0, 4001)
    table = TabulatedReturn.create(grid, distribution.pdf(grid), distribution.gradient(grid))
    assert max(PredictedReturns(np.zeros((1, 1)), table, right.returns).field_errors(1.0)) < 0.02


@pytest.mark.parametrize("name", sorted(ENVIRONMENTS))
def test_every_registered_configuration_can_be_used(name):
    config = default_config(name)
    assert ENVIRONMENTS[name].why
    if name != "LunarLander-v3":
        learner, _ = make_learner(config)
        jax.eval_shape(learner.init, jax.random.key(0))


def test_short_runs_are_predicted_at_their_end():
    config = default_config("CartPole-v1", steps=333)
    assert config.steps == config.eval_every == 340


@pytest.mark.parametrize(
    ("text", "wanted"), [("mean", 2.0), ("cvar:0.5", 0.0), ("quantile:0.25", 0.0), ("above:3", 0.5)]
)
def test_risk_is_a_figure_of_the_law(text, wanted):
    distribution = AtomicReturn(jnp.array([0.5, 0.5]), jnp.array([0.0, 4.0]), jnp.asarray(0.01))
    assert float(Risk.parse(text).value(distribution)) == pytest.approx(wanted, abs=0.03)


@pytest.mark.parametrize("text", ["cvar", "cvar:0", "cvar:2", "quantile:1", "best", "above:x"])
def test_an_unknown_risk_says_how_to_write_one(text):
    with pytest.raises(InvalidInputError, match=r"cvar:0\.1"):
        Risk.parse(text)


@pytest.mark.parametrize(
    "bad",
    [
        {"gamma": 1.5},
        {"gamma": 0.0},
        {"steps": 1500},
        {"support": (3.0, 1.0)},
        {"replay": 10},
        {"hidden": ()},
        {"risk": "none"},
        {"n_envs": 3},
        {"n_outputs": 2},
    ],
)
def test_settings_that_cannot_be_run_are_refused(bad):
    with pytest.raises(InvalidInputError):
        AgentConfig("CartPole-v1", **bad)


def test_gamma_of_one_needs_a_time_limit():
    gym.register("Endless-v0", "gymnasium.envs.classic_control:CartPoleEnv")
    with pytest.raises(InvalidInputError, match="max_episode_steps"):
        make_learner(AgentConfig("Endless-v0", gamma=1.0))
    make_learner(AgentConfig("CartPole-v1", gamma=1.0))
