"""Learning from transitions: targets, losses, supports, whole plans."""

import sys
import types

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bellman_diffusion.returns.basis import GaussianBasis
from bellman_diffusion.planning.evaluation import against_returns
from bellman_diffusion.planning.learning import LearnSettings, cut_off, find_support, learn, new_field
from bellman_diffusion.bellman.losses import Batch, algorithm_3_loss, cramer_loss
from bellman_diffusion.returns.mixture import MixtureReturn
from bellman_diffusion.returns.observations import Encoder, from_index, row_size, to_row
from bellman_diffusion.planning.planner import Planner
from bellman_diffusion.planning.plan import PlanSettings, plan
from bellman_diffusion.planning.policies import load_policy
from bellman_diffusion.returns.projection import BasisProjection, CategoricalProjection
from bellman_diffusion.bellman.target import BellmanTarget
from bellman_diffusion.planning.transitions import (
    Returns,
    Transitions,
    collect,
    known_returns,
    sample_chain,
)
from bellman_diffusion.returns.whitening import Whitening
from bellman_diffusion.errors import CheckpointError, InvalidInputError
from bellman_diffusion.training import NoProgress, RunFolder
from tests.bellman.chains import two_states

BASIS = GaussianBasis.on_interval(-1, 4, 21)
SMALL = LearnSettings(gamma=0.9, width=16, max_iter=500, batch_size=128)


@pytest.mark.parametrize("kind", [BasisProjection, CategoricalProjection])
def test_batched_target_is_the_matrix_of_dynamic_programming(kind):
    projection, gamma = kind(BASIS), 0.9
    rng = np.random.default_rng(0)
    laws = rng.dirichlet(np.ones(21), size=6)
    reward = np.array([0.0, 0.37, -0.2, 1.0, 0.5, 2.0])
    terminated = np.array([0, 0, 0, 0, 1, 1.0])
    target = BellmanTarget.create(projection, gamma)
    found = target(*(jnp.asarray(a, jnp.float32) for a in (laws, reward, terminated)))
    for i in range(6):
        truth = (
            projection.terminal(reward[i : i + 1])
            if terminated[i]
            else projection.backed_up(reward[i : i + 1], gamma) @ laws[i]
        )
        assert np.allclose(found[i], truth, atol=2e-3)
        assert float(found[i].sum()) == pytest.approx(1, abs=1e-4)


def test_whitened_coordinates_make_cramers_distance_euclidean():
    whitening, gram = Whitening.of(BASIS), BASIS.inner("cramer", BASIS.centres, BASIS.sigma**2)
    rng = np.random.default_rng(0)
    gap = rng.dirichlet(np.ones(21)) - rng.dirichlet(np.ones(21))
    y = whitening.from_coefficients @ gap
    assert y @ y == pytest.approx(gap @ gram @ gap, rel=1e-4)
    assert np.allclose(whitening.to_coefficients @ y, gap, atol=1e-4)


def test_algorithm_3_at_an_end_is_the_field_matching_loss():
    """Terminal rows: the mean over x₁, x₂ ~ N(r, σ²) of g² + κ g' + s² − 2κs, by quadrature."""
    encoder = Encoder(jnp.zeros(1), jnp.ones(1), 2)
    settings = LearnSettings(mode="paper", width=8)
    field = new_field(settings, encoder, BASIS, 0)
    n, sigma, epsilon = 20_000, 0.3, 0.2
    rows = jnp.zeros((n, 1))
    batch = Batch(rows, jnp.full(n, 0.5), rows, jnp.ones(n))
    found = algorithm_3_loss(field, field, 0.9, sigma, epsilon, jax.random.key(0), batch)
    x = np.linspace(0.5 - 6 * sigma, 0.5 + 6 * sigma, 801).astype(np.float32)
    p = np.exp(-0.5 * ((x - 0.5) / sigma) ** 2) / (sigma * np.sqrt(2 * np.pi))
    wide = epsilon + sigma**2
    rho = np.exp(-0.5 * (x - 0.5) ** 2 / wide) / np.sqrt(2 * np.pi * wide)
    s, g = jax.vmap(lambda y: field.fields(y, jnp.zeros(1)))(jnp.asarray(x))
    slope = np.gradient(np.asarray(g), x)
    half = float(field.high - field.low) / 2
    inside = half**4 * (g**2 + rho * slope) + half**2 * (s**2 - 2 * rho * s)
    truth = np.trapezoid(p * inside, x)
    assert float(found) == pytest.approx(truth, rel=0.05, abs=0.02)


def test_cramer_loss_is_least_at_the_fixed_point():
    """Learned from sampled transitions, the two-state chain's means are right within 0.05."""
    transitions = sample_chain(two_states(), 20_000, seed=0)
    settings = LearnSettings(gamma=0.9, width=32, max_iter=3000, batch_size=256)
    basis = GaussianBasis.on_interval(0, 8, 25)
    field = learn(transitions, gym.spaces.Discrete(2), basis, settings, seed=0).field
    means = field.distribution(jnp.arange(2.0)[:, None]).mean()
    # m₀ = 1 + 0.9 m₁, m₁ = 0.4 · 2 + 0.6 · 0.9 m₀.
    m0 = (1 + 0.9 * 0.8) / (1 - 0.9 * 0.54)
    assert np.allclose(means, [m0, 0.8 + 0.54 * m0], atol=0.08)
    batch = Batch(*(jnp.asarray(a[:1000]) for a in transitions[:4]))
    target = BellmanTarget.create(BasisProjection(basis), 0.9)
    other = new_field(settings, field.encoder, basis, 1)
    assert cramer_loss(field, field, target, batch) < cramer_loss(other, field, target, batch)


def test_sampled_transitions_have_the_chains_frequencies():
    transitions = sample_chain(two_states(), 40_000, seed=0)
    from_1 = transitions.observation[:, 0] == 1
    assert np.mean(from_1) == pytest.approx(0.5, abs=0.01)
    assert np.mean(transitions.terminated[from_1]) == pytest.approx(0.4, abs=0.015)
    assert np.all(transitions.reward[~from_1] == 1)


def test_support_is_widened_until_nothing_is_cut_off():
    transitions, space = sample_chain(two_states(), 5000, seed=0), gym.spaces.Discrete(2)
    narrow = learn(transitions, space, GaussianBasis.on_interval(0, 1, 11), SMALL, seed=0).field
    assert cut_off(narrow, transitions, 0.9, 0)[1] > 0.05
    low, high = find_support(transitions, space, (0.0, 1.0), 11, SMALL, seed=0)
    assert low == 0
    assert high >= 4


def test_truncated_rows_are_not_known_returns_and_ends_are():
    rows = np.arange(6, dtype=np.float32)[:, None]
    transitions = Transitions(
        rows,
        np.ones(6, np.float32),
        rows + 1,
        np.array([0, 0, 1, 0, 0, 0], np.float32),
        np.array([0, 0, 1, 0, 0, 1], np.float32),
    )
    known = known_returns(transitions, 0.5)
    assert known.observation[:, 0].tolist() == [0, 1, 2]
    assert known.value.tolist() == [1.75, 1.5, 1.0]
    assert known.starts.tolist() == [True, False, False]


def test_collecting_bootstraps_truncation_and_checks_actions():
    env = gym.make("CartPole-v1", max_episode_steps=5)
    transitions = collect(env, lambda _: 0, 40, seed=0)
    assert transitions.ended.sum() == 8
    assert transitions.terminated.sum() == 0
    with pytest.raises(InvalidInputError, match="not an action"):
        collect(env, lambda _: 7, 3, seed=0)


def test_observations_of_discrete_and_tuple_spaces_are_indices():
    space = gym.spaces.Tuple([gym.spaces.Discrete(3), gym.spaces.Discrete(4, start=1)])
    for index in range(12):
        assert to_row(space, from_index(space, index)).tolist() == [index]
    box = gym.spaces.Box(-1, 1, (2, 3))
    assert row_size(box) == 6
    with pytest.raises(InvalidInputError, match="cannot be read"):
        row_size(gym.spaces.Sequence(gym.spaces.Discrete(2)))


def test_true_laws_are_judged_calibrated():
    """10,000 returns from their own laws: coverage 0.9 ± 0.01, PIT within 0.01 of even."""
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(21), size=10_000)
    laws = MixtureReturn.create(weights, BASIS)
    value = np.asarray(laws.sample(jax.random.key(0), 1)[:, 0], float)
    rows = np.zeros((10_000, 1), np.float32)
    figures = against_returns(laws, Returns(rows, value, np.ones(10_000, bool)))
    assert figures["coverage_90"] == pytest.approx(0.9, abs=0.01)
    assert figures["pit_distance"] < 0.01
    assert figures["mean_error_start"] < 0.02
    assert figures["w1_worst_group"] < 0.1


def test_exact_plans_meet_their_bars():
    """W1 of the worst state below 1 % of the range: FrozenLake 8×8, CliffWalking, Taxi, Blackjack."""
    cases = [
        PlanSettings("FrozenLake-v1", env_options={"map_name": "8x8"}),
        PlanSettings("CliffWalking-v1", epsilon=0.1),
        PlanSettings("Taxi-v4"),
        PlanSettings("Blackjack-v1", gamma=1.0),
    ]
    for case in cases:
        figures = plan(case).meta["figures"]
        assert figures["w1_worst_relative"] < 0.003, case.env_id


class StopAfter(NoProgress):
    """A user who presses Ctrl-C."""

    def update(self, step, n_steps, metrics):
        if step >= 500:
            raise KeyboardInterrupt


def test_a_stopped_plan_goes_on_to_the_same_result(tmp_path):
    settings = PlanSettings(
        "FrozenLake-v1", functions=11, samples=2000, max_iter=1000, support=(0.0, 1.0)
    )
    whole = plan(settings, run=RunFolder(tmp_path / "whole", {}))
    with pytest.raises(KeyboardInterrupt):
        plan(settings, run=RunFolder(tmp_path / "parts", {}), progress=StopAfter())
    parts = plan(settings, run=RunFolder(tmp_path / "parts", {}))
    for a, b in zip(jax.tree.leaves(whole.field), jax.tree.leaves(parts.field), strict=True):
        assert np.array_equal(a, b)


@pytest.mark.filterwarnings("ignore:the support")
@pytest.mark.parametrize("mode", ["default", "c51", "paper"])
def test_a_saved_planner_gives_the_same_laws(tmp_path, mode):
    settings = PlanSettings(
        "CartPole-v1", mode=mode, functions=11, samples=500, max_iter=50, support=(0.0, 60.0)
    )
    planner = plan(settings, policy=lambda o: int(o[2] > 0))
    planner.save(tmp_path / "planner.bellman")
    observations = [np.array([0.0, 0.1, 0.02, -0.1], np.float32)] * 2
    loaded = Planner.load(tmp_path / "planner.bellman")
    first, second = (p.distribution(observations) for p in (planner, loaded))
    assert np.array_equal(first.mean(), second.mean())
    assert first.batch_shape == (2,)
    content = bytearray((tmp_path / "planner.bellman").read_bytes())
    content[-5] ^= 1
    (tmp_path / "planner.bellman").write_bytes(content)
    with pytest.raises(CheckpointError, match="damaged"):
        Planner.load(tmp_path / "planner.bellman")


def test_a_support_that_cuts_off_mass_is_warned_of():
    settings = PlanSettings(
        "CartPole-v1", functions=11, samples=2000, max_iter=500, support=(0.0, 5.0)
    )
    with pytest.warns(RuntimeWarning, match="cuts off returns above"):
        plan(settings, policy=lambda o: int(o[2] > 0))


def test_a_stable_baselines_policy_is_used_when_that_package_is_there(tmp_path, monkeypatch):
    """With a stand-in for the package: the first algorithm that can load the file is taken."""

    class Foreign:
        @staticmethod
        def load(path, device):
            raise ValueError("other networks")

    class Fitting:
        @staticmethod
        def load(path, device):
            return Fitting()

        def predict(self, observation, deterministic):
            return np.array(1), None

    path = tmp_path / "policy.zip"
    path.write_bytes(b"zip")
    env = gym.make("CartPole-v1")
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    with pytest.raises(InvalidInputError, match="pip install stable-baselines3"):
        load_policy(str(path), env)
    package = types.SimpleNamespace(PPO=Foreign, DQN=Fitting)
    monkeypatch.setitem(sys.modules, "stable_baselines3", package)
    assert load_policy(str(path), env)(np.zeros(4)) == 1
    package.DQN = Foreign
    with pytest.raises(InvalidInputError, match="can load"):
        load_policy(str(path), env)


def test_an_exact_plan_warns_of_a_support_that_cuts_off_returns():
    with pytest.warns(RuntimeWarning, match="cuts off returns, which range over"):
        plan(PlanSettings("FrozenLake-v1", functions=11, support=(0.0, 0.5)))


def test_wrong_observations_are_refused():
    planner = plan(PlanSettings("FrozenLake-v1", functions=11))
    with pytest.raises(InvalidInputError, match="list of observations"):
        planner.distribution([99])
