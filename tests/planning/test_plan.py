"""Planning from transitions: learning, supports, evaluation, whole plans."""

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bellman_diffusion.errors import CheckpointError, InvalidInputError
from bellman_diffusion.planning import Planner, PlanSettings, plan
from bellman_diffusion.planning.evaluation import evaluate_against_returns
from bellman_diffusion.planning.learning import LearnSettings, learn
from bellman_diffusion.planning.planned_returns import state_distribution
from bellman_diffusion.planning.return_range import range_of_returns
from bellman_diffusion.planning.transitions import Returns, Transitions, known_returns, sample_chain
from bellman_diffusion.returns.atoms import AtomicReturn
from bellman_diffusion.returns.observations import ObservationEncoder, from_index, to_row
from bellman_diffusion.training import NoProgress, RunFolder
from tests.returns.chains import two_states

TWO_STATES = ObservationEncoder((1,), 2)
SMALL = LearnSettings(gamma=0.9, n_basis=33, width=16, max_iter=500, batch_size=128)


@pytest.mark.parametrize("mode", ["default", "cramer", "smoothed", "quantile"])
def test_learned_means_are_those_of_the_fixed_point(mode):
    """From sampled transitions, the two-state chain's means are right within 0.1."""
    transitions = sample_chain(two_states(), 20_000, seed=0)
    settings = LearnSettings(
        gamma=0.9, mode=mode, n_basis=25, width=32, max_iter=3000, batch_size=256
    )
    returns = learn(transitions, TWO_STATES, (0.0, 8.0), settings, seed=0).returns
    means = state_distribution(returns, jnp.arange(2.0)[:, None]).mean()
    # m₀ = 1 + 0.9 m₁, m₁ = 0.4 · 2 + 0.6 · 0.9 m₀.
    m0 = (1 + 0.9 * 0.8) / (1 - 0.9 * 0.54)
    assert np.allclose(means, [m0, 0.8 + 0.54 * m0], atol=0.1)


def test_transitions_of_a_small_table_are_counted():
    """Their order is nothing to learn from, and how often each occurs is all there is."""
    found = sample_chain(two_states(), 20_000, seed=0)
    mixed = Transitions(*(a[np.random.default_rng(0).permutation(len(found))] for a in found))
    # The ends of episodes alone, nine of ten times: state 1 ends more often than it did.
    ends = np.flatnonzero(found.terminated > 0)
    more = Transitions(*(np.concatenate([a, *[a[ends]] * 9]) for a in found))

    def means(transitions):
        returns = learn(transitions, TWO_STATES, (0.0, 8.0), SMALL, seed=0).returns
        return np.asarray(state_distribution(returns, jnp.arange(2.0)[:, None]).mean())

    assert np.array_equal(means(found), means(mixed))
    share = 10 * len(ends) / (10 * len(ends) + np.sum(found.observation == 1) - len(ends))
    m0 = (1 + 0.9 * 2 * share) / (1 - 0.81 * (1 - share))
    assert np.allclose(means(more), [m0, 2 * share + 0.9 * (1 - share) * m0], atol=0.05)


def test_sampled_transitions_have_the_chains_frequencies():
    transitions = sample_chain(two_states(), 40_000, seed=0)
    from_1 = transitions.observation[:, 0] == 1
    assert np.mean(from_1) == pytest.approx(0.5, abs=0.01)
    assert np.mean(transitions.terminated[from_1]) == pytest.approx(0.4, abs=0.015)
    assert np.all(transitions.reward[~from_1] == 1)


def test_the_range_of_returns_has_room_for_what_comes_after_a_truncation():
    """Ten rewards of 1 and a cut at γ = 0.9: the return is between 6.5 and 10."""
    rows = np.zeros((10, 1), np.float32)
    ended = np.eye(10, dtype=np.float32)[9]
    ones, never = np.ones(10, np.float32), np.zeros(10, np.float32)
    low, high = range_of_returns(Transitions(rows, ones, rows, never, ended), 0.9)
    assert low <= 6.5
    assert high == pytest.approx(10.0)
    # Also where the cut comes early: at γ = 0.99 a third of the return is not seen.
    many = (np.tile(a, (12, 1)[: a.ndim]) for a in (rows, ones, rows, never))
    found = range_of_returns(Transitions(*many, np.eye(120, dtype=np.float32)[119]), 0.99)
    assert found[1] == pytest.approx(100.0)
    # Single rows are no episodes: only the rewards bound what comes after them.
    assert range_of_returns(Transitions(rows, ones, rows, never, ones), 0.9) == (
        0.0,
        pytest.approx(10),
    )
    # At an end nothing comes after.
    low, high = range_of_returns(Transitions(rows, ones, rows, ended, ended), 0.9)
    seen = (1 - 0.9**10) / 0.1
    assert 0 <= low < 1
    assert seen < high < 1.1 * seen
    with pytest.raises(InvalidInputError, match="gamma is 1"):
        range_of_returns(Transitions(rows, ones, rows, never, ended), 1.0)


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


def test_an_episode_that_was_cut_off_is_lost_and_nothing_is_promised_then():
    """One that fails after 3 steps and one that goes on: the first alone says nothing of both."""
    rows = np.zeros((8, 1), np.float32)
    ended = np.isin(np.arange(8), (2, 7)).astype(np.float32)
    terminated = np.isin(np.arange(8), (2,)).astype(np.float32)
    found = known_returns(Transitions(rows, np.ones(8, np.float32), rows, terminated, ended), 0.99)
    assert (len(found.value), found.n_lost, found.of_starts().n_lost) == (3, 1, 1)
    settings = PlanSettings("CartPole-v1", samples=1000, max_iter=20, gamma=1.0, support=(0, 500))

    def balance(observation):
        # Some episodes fail, others reach the time limit.
        return int(3 * observation[2] + observation[3] > 0) if observation[0] < 0.2 else 0

    with pytest.warns(RuntimeWarning, match="not known|evaluates"):
        planner = plan(settings, policy=balance)
    assert planner.figures.start is None
    assert planner.figures.conformal == []


def test_observations_of_discrete_and_tuple_spaces_are_indices():
    space = gym.spaces.Tuple([gym.spaces.Discrete(3), gym.spaces.Discrete(4, start=1)])
    for index in range(12):
        assert to_row(space, from_index(space, index)).tolist() == [index]
    box = gym.spaces.Box(-1, 1, (2, 3))
    assert ObservationEncoder.for_space(box, "it").shape == (6,)
    with pytest.raises(InvalidInputError, match="cannot be read"):
        ObservationEncoder.for_space(gym.spaces.Sequence(gym.spaces.Discrete(2)), "it")


def test_true_laws_are_judged_calibrated():
    """10,000 returns from their own distributions: coverage 0.9 ± 0.01, PIT within 0.01 of even."""
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(21), size=10_000)
    arrays = (weights, np.linspace(-1, 4, 21), 0.1, np.full(weights.shape, 0.125))
    distributions = AtomicReturn(*(jnp.asarray(a, jnp.float32) for a in arrays))
    value = np.asarray(distributions.sample(jax.random.key(0), 1)[:, 0], float)
    rows = np.zeros((10_000, 1), np.float32)
    figures = evaluate_against_returns(
        distributions, Returns(rows, value, np.ones(10_000, bool), np.zeros(10_000))
    )
    assert figures.coverage_90 == pytest.approx(0.9, abs=0.01)
    assert figures.pit_distance < 0.01
    assert figures.mean_error_start < 0.02
    assert figures.w1_worst_group < 0.1


def test_exact_plans_meet_their_bars():
    """Every state within 0.1 % of the range: FrozenLake 8×8, CliffWalking, Taxi, Blackjack."""
    cases = [
        PlanSettings("FrozenLake-v1", env_options={"map_name": "8x8"}),
        PlanSettings("CliffWalking-v1", epsilon=0.1),
        PlanSettings("Taxi-v4"),
        PlanSettings("Blackjack-v1", gamma=1.0),
    ]
    for case in cases:
        figures = plan(case).figures
        assert figures.accuracy_reached <= 0.001, case.env_id
        assert len(figures.monte_carlo) >= 1


class StopAfter(NoProgress):
    """A user who presses Ctrl-C."""

    def update(self, step, n_steps, metrics):
        if step >= 500:
            raise KeyboardInterrupt


def test_a_stopped_plan_goes_on_to_the_same_result(tmp_path):
    settings = PlanSettings(
        "FrozenLake-v1", mode="cells", n_basis=12, samples=2000, max_iter=1000, support=(0.0, 1.0)
    )
    whole = plan(settings, run=RunFolder(tmp_path / "whole", {}))
    with pytest.raises(KeyboardInterrupt):
        plan(settings, run=RunFolder(tmp_path / "parts", {}), progress=StopAfter())
    parts = plan(settings, run=RunFolder(tmp_path / "parts", {}))
    for a, b in zip(jax.tree.leaves(whole.returns), jax.tree.leaves(parts.returns), strict=True):
        assert np.array_equal(a, b)


@pytest.mark.filterwarnings("ignore:the support")
@pytest.mark.parametrize("mode", ["default", "c51", "paper"])
def test_a_saved_planner_gives_the_same_distributions(tmp_path, mode):
    settings = PlanSettings(
        "CartPole-v1", mode=mode, n_basis=11, samples=500, max_iter=50, support=(0.0, 60.0)
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


def test_the_smoothing_of_learned_densities_is_the_one_that_was_asked_for():
    settings = PlanSettings(
        "FrozenLake-v1", mode="c51", n_basis=11, sigma=0.05, samples=500, max_iter=50,
        support=(0.0, 1.0),
    )  # fmt: skip
    distribution = plan(settings).distribution([0])
    assert isinstance(distribution, AtomicReturn)
    assert float(distribution.sigma) == pytest.approx(0.05)


def test_a_support_that_cuts_off_mass_is_warned_of():
    settings = PlanSettings(
        "CartPole-v1", n_basis=11, samples=2000, max_iter=500, support=(0.0, 5.0)
    )
    with pytest.warns(RuntimeWarning, match="cuts off returns above"):
        plan(settings, policy=lambda o: int(o[2] > 0))


def test_an_exact_plan_warns_of_a_support_that_cuts_off_returns():
    with pytest.warns(RuntimeWarning, match="cuts off returns, which range over"):
        plan(PlanSettings("FrozenLake-v1", mode="c51", n_basis=11, support=(0.0, 0.5)))


def test_wrong_observations_are_refused():
    planner = plan(PlanSettings("FrozenLake-v1", n_basis=11))
    with pytest.raises(InvalidInputError, match="list of observations"):
        planner.distribution([99])
