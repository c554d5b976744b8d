"""Returns of several components: vector rewards, and several discounts of one reward."""

import json

import jax.numpy as jnp
import numpy as np
import pytest

import tests.environments.two_rewards
from bellman_diffusion import Planner, PlanSettings, plan
from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.planning.transitions import Transitions, known_returns, partial_returns
from bellman_diffusion.planning.vector_rewards import component_discounts, component_names
from bellman_diffusion.returns.backup import BellmanBackup
from bellman_diffusion.returns.models.particles import Particles
from bellman_diffusion.returns.observations import ObservationEncoder
from bellman_diffusion.returns.support import Support
from tests.cli.test_agents import bellman

GAMMA = 0.8
ERRAND = PlanSettings(
    "tests/Errand-v0", policy="random", gamma=GAMMA, samples=4000, max_iter=1500, n_basis=60
)


@pytest.fixture(scope="module")
def errand():
    return plan(ERRAND)


@pytest.fixture(scope="module")
def truth():
    """20,000 returns in closed form: the number of minutes is geometric."""
    minutes = np.random.default_rng(0).geometric(0.5, 20_000)
    discounted = (1 - GAMMA**minutes) / (1 - GAMMA)
    coins = (1 - GAMMA ** (minutes - 1)) / (1 - GAMMA)
    return np.stack([-discounted, coins], axis=1)


def distance(atoms, mass, values):
    from scipy.stats import wasserstein_distance

    return wasserstein_distance(np.asarray(atoms), values, np.asarray(mass))


def test_components_and_their_correlation_are_those_of_the_returns(errand, truth):
    """W1 within 2 % of the range and correlation within 0.05."""
    joint = errand.joint(errand.starts)[0]
    for d in range(2):
        found = joint.marginal(d)
        assert distance(found.atoms, found.mass, truth[:, d]) < 0.02 * np.ptp(truth[:, d])
    correlation = np.corrcoef(truth.T)[0, 1]
    assert float(joint.correlation()[0, 1]) == pytest.approx(correlation, abs=0.05)


def test_any_mixture_is_answered_without_new_training(errand, truth):
    for weights in ([1.0, 0.0], [1.0, 1.0], [-0.5, 2.0]):
        value = truth @ weights
        found = errand.along(weights).distribution(errand.starts)[0]
        assert distance(found.atoms, found.mass, value) < 0.03 * np.ptp(truth, axis=0).max()
        assert float(found.mean()) == pytest.approx(value.mean(), abs=0.06)


def test_each_component_is_evaluated_on_held_out_episodes(errand):
    assert errand.components == ["reward 0", "reward 1"]
    for weights in np.eye(2):
        part = errand.along(weights)
        assert part.figures.held_out.coverage_90 > 0.8
        assert [c.level for c in part.figures.conformal] == [0.8, 0.9, 0.95]
        low, high = part.interval(part.starts, 0.9)
        assert np.all(low < high)
    found = errand.figures.correlation
    assert np.allclose(np.diag(found.monte_carlo), 1)
    assert found.predicted[0][1] == pytest.approx(found.monte_carlo[0][1], abs=0.1)


def test_the_start_distribution_is_joint_too(errand):
    episode = errand.joint()
    assert episode.batch_shape == ()
    assert np.allclose(episode.mean(), errand.joint(errand.starts)[0].mean(), atol=1e-3)
    alone = errand.along([0.0, 1.0]).start_distribution()
    assert float(alone.mean()) == pytest.approx(float(episode.mean()[1]), abs=1e-3)


def test_a_saved_vector_plan_gives_the_same(errand, tmp_path):
    errand.save(tmp_path / "planner.bellman")
    again = Planner.load(tmp_path / "planner.bellman")
    assert np.array_equal(again.joint([[0.0]]).atoms, errand.joint([[0.0]]).atoms)
    assert "2 components" in repr(again)


def test_what_is_for_one_number_is_refused(errand, tmp_path):
    with pytest.raises(InvalidInputError, match="2 components: use joint"):
        errand.distribution([[0.0]])
    with pytest.raises(InvalidInputError, match="a number for each of reward 0, reward 1"):
        errand.along([1.0])
    with pytest.raises(InvalidInputError, match="not all of them 0"):
        errand.along([0.0, 0.0])
    with pytest.raises(InvalidInputError, match="save the plan that this one is a component of"):
        errand.along([1.0, 0.0]).save(tmp_path / "x.bellman")
    with pytest.raises(InvalidInputError, match="leave it out for vector returns"):
        plan(PlanSettings("tests/Errand-v0", policy="random", samples=200, mode="c51"))
    with pytest.raises(InvalidInputError, match="the ranges of vector returns are found"):
        plan(PlanSettings("tests/Errand-v0", policy="random", samples=200, support=(0.0, 1.0)))
    with pytest.raises(InvalidInputError, match="give --samples"):
        plan(PlanSettings("FrozenLake-v1", also_gamma=(0.5,)))
    with pytest.raises(InvalidInputError, match="gamma"):
        plan(PlanSettings("tests/Errand-v0", policy="random", samples=200, also_gamma=(1.5,)))


def test_several_discounts_are_components(truth):
    """One minute is worth 1 in every discount: the mean number of steps is 2, discounted it is less."""
    settings = PlanSettings(
        "tests/Errand-v0", policy="random", gamma=1.0, also_gamma=(GAMMA,), samples=3000,
        max_iter=1000, n_basis=40,
    )  # fmt: skip
    planner = plan(settings)
    assert planner.components[2] == "reward 0, γ = 0.8"
    mean = planner.joint(planner.starts)[0].mean()
    assert float(mean[0]) == pytest.approx(-2, abs=0.12)
    assert float(mean[2]) == pytest.approx(truth[:, 0].mean(), abs=0.08)


def test_discounts_are_repeated_for_every_reward():
    assert component_discounts(0, 0.9, ()) is None
    assert component_discounts(0, 0.9, (0.5,)).tolist() == [0.9, 0.5]
    assert component_discounts(2, 0.9, (0.5,)).tolist() == [0.9, 0.9, 0.5, 0.5]
    assert component_names(0, 0.9, (0.5,)) == ["return, γ = 0.9", "return, γ = 0.5"]
    assert component_names(2, 0.9, ()) == ["reward 0", "reward 1"]


def test_returns_of_vectors_are_those_of_their_components():
    rng = np.random.default_rng(0)
    n, gamma = 12, np.array([0.9, 1e-3])
    ended = np.zeros(n)
    ended[[3, 8, 11]] = 1
    terminated = ended.copy()
    terminated[8] = 0
    rows = rng.normal(size=(n, 1)).astype(np.float32)
    reward = rng.normal(size=(n, 2)).astype(np.float32)
    every = Transitions(rows, reward, rows, terminated, ended)
    value, unknown = partial_returns(every, gamma)
    for d in range(2):
        alone = partial_returns(every.component(d), float(gamma[d]))
        assert np.allclose(value[:, d], alone[0])
        assert np.allclose(unknown[:, d], alone[1])
    # The second episode was cut off after five steps: of the first component nothing is known then.
    assert np.array_equal(known_returns(every, gamma).value, value[[0, 1, 2, 3, 9, 10, 11]])


def test_the_loss_is_the_energy_distance_up_to_a_constant():
    rng = np.random.default_rng(1)
    model = Particles(
        encoder=ObservationEncoder((1,)), n_actions=1, n_outputs=5, hidden=(4,), dim=2
    )
    support = Support.fixed(np.array([-2.0, 0.0], np.float32), np.array([2.0, 8.0], np.float32))
    backup = BellmanBackup(jnp.array([0.5, 1.0]), jnp.array([0.5, 0.9]))
    ahead = jnp.asarray(rng.uniform(0.3, 0.5, 10), jnp.float32)
    low, width = np.array([-2.0, 0.0]), np.array([4.0, 8.0])
    moved = np.array([0.5, 1.0]) + np.array([0.5, 0.9]) * (low + width * np.reshape(ahead, (5, 2)))
    target = (moved - low) / width

    def energy(x, y):
        apart = x[:, None] - y
        return np.mean(np.linalg.norm(apart, axis=-1) + 0.2 * np.abs(apart).sum(axis=-1))

    losses, expected = [], []
    for _ in range(3):
        own = rng.uniform(0, 1, (5, 2))
        raw = jnp.asarray(own.reshape(-1) - 0.5, jnp.float32)
        losses.append(float(model.discrepancy(raw, ahead, backup, support)))
        expected.append(2 * energy(own, target) - energy(own, own))
    assert np.allclose(losses, expected, atol=1e-5)
    # Nothing is nearer to the target than itself.
    exact = jnp.asarray(target.reshape(-1) - 0.5, jnp.float32)
    assert float(model.discrepancy(exact, ahead, backup, support)) < min(losses)


def test_the_command_reports_every_component(tmp_path):
    settings = ["--samples", "1000", "--max-iter", "250", "--n-basis", "20", "--policy", "random"]
    folder = tmp_path / "run"
    done = bellman(
        "plan", "tests/Errand-v0", "--gamma", "0.8", *settings, "-o", str(folder), "--json"
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert [c["name"] for c in found["components"]] == ["reward 0", "reward 1"]
    assert (
        found["components"][0]["starts"][0]["mean"]
        < 0
        < found["components"][1]["starts"][0]["mean"]
    )
    assert found["correlation"]["predicted"][0][0] == pytest.approx(1, abs=1e-4)
    page = (folder / "report.html").read_text()
    assert "Joint return of an episode" in page
    assert all(
        f"reward 1: {part}" in page for part in ("Accuracy", "Calibration", "Groups of states")
    )
    assert bellman("view", str(folder), "--html", str(tmp_path / "x.html")).returncode == 2


@pytest.mark.filterwarnings("ignore:.*The reward returned by")
def test_a_vector_without_a_reward_space_is_a_clear_error(monkeypatch):
    monkeypatch.delattr(tests.environments.two_rewards.Errand, "reward_space")
    with pytest.raises(InvalidInputError, match="reward_space"):
        plan(PlanSettings("tests/Errand-v0", policy="random", samples=200))


def test_starts_that_are_alike_are_named_once(errand):
    assert errand.starts == [[0.0]]
