"""Policies of every kind: functions, with a memory, in batches, Stable-Baselines3's real files."""

import gymnasium as gym
import numpy as np
import pytest
from sb3_contrib import QRDQN, TRPO, RecurrentPPO
from stable_baselines3 import A2C, DQN, PPO, SAC
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.planning import PlanSettings, plan
from bellman_diffusion.planning.acting import Spaces, acting, as_action, table_policy

FRESH, LATER = np.ones(3, bool), np.zeros(3, bool)


@pytest.fixture(scope="module")
def cart_pole():
    return gym.make("CartPole-v1")


def observations(env, n=3):
    return np.stack([env.observation_space.sample() % 1 for _ in range(n)]).astype(np.float32)


def test_a_function_is_called_for_each_or_for_all(cart_pole):
    o = observations(cart_pole)
    single = acting(lambda x: int(x[2] > 0), cart_pole)

    def act(batch):
        return (batch[:, 2] > 0).astype(int)

    act.batched = True
    assert single.actions(o, FRESH) == acting(act, cart_pole).actions(o, FRESH)
    assert single(o[0]) == int(o[0][2] > 0)


def test_probabilities_are_drawn_from(cart_pole):
    policy = acting(lambda x: np.array([0.2, 0.8]), cart_pole, seed=1)
    o = observations(cart_pole, 500)
    drawn = policy.actions(o, np.ones(500, bool))
    assert np.mean(drawn) == pytest.approx(0.8, abs=0.06)


def test_a_memory_is_each_episodes_own_and_starts_empty(cart_pole):
    """A policy that alternates: the second environment begins a new episode at the third step."""

    def alternate(observation, state):
        step = 0 if state is None else state
        return step % 2, step + 1

    policy, o = acting(alternate, cart_pole), observations(cart_pole)
    assert policy.actions(o, FRESH) == [0, 0, 0]
    assert policy.actions(o, LATER) == [1, 1, 1]
    assert policy.actions(o, np.array([False, True, False])) == [0, 0, 0]
    assert policy.actions(o, LATER) == [1, 1, 1]


def test_actions_of_tuples_fit_and_infinite_ones_do_not():
    space = gym.spaces.Tuple([gym.spaces.Discrete(2), gym.spaces.Box(-1, 1, (2,))])
    action = (1, np.zeros(2, np.float32))
    assert as_action(space, action, np.random.default_rng(0)) is action
    with pytest.raises(InvalidInputError, match="not an action"):
        as_action(gym.spaces.Discrete(2), np.inf, np.random.default_rng(0))


def test_a_table_asks_a_policy_in_every_state_and_says_what_it_cannot_do(tmp_path, monkeypatch):
    (tmp_path / "table_policies.py").write_text(
        "def batched(o):\n    return [2 for _ in o]\nbatched.batched = True\n"
        "def remembers(o, state):\n    return 0, state\n"
        "def nothing(o):\n    return None\n"
        "def breaks(o):\n    raise KeyError(o)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    planner = plan(PlanSettings("FrozenLake-v1", "table_policies:batched", n_basis=34))
    assert 0 < float(planner.distribution([0]).mean()[0]) < 0.1
    for name in ("remembers", "nothing", "breaks"):
        with pytest.raises(InvalidInputError, match=r"memory|failed|returned"):
            plan(PlanSettings("FrozenLake-v1", f"table_policies:{name}", n_basis=34))
    with pytest.raises(InvalidInputError, match="give --samples"):
        plan(PlanSettings("FrozenLake-v1", "table_policies:batched", stochastic=True))


def test_a_share_of_the_actions_is_random(cart_pole):
    policy = acting(lambda x: 1, cart_pole, seed=0, epsilon=0.4)
    o = observations(cart_pole, 1000)
    assert np.mean(policy.actions(o, np.ones(1000, bool))) == pytest.approx(0.8, abs=0.05)
    with pytest.raises(InvalidInputError, match="epsilon"):
        acting(lambda x: 1, cart_pole, epsilon=1.5)


def test_a_recurrent_policy_keeps_its_memory_and_forgets_at_a_start(cart_pole, tmp_path):
    """As its own `predict` does with the states handed on."""
    model = RecurrentPPO("MlpLstmPolicy", "CartPole-v1", seed=0, device="cpu")
    model.save(tmp_path / "policy.zip")
    policy = acting(str(tmp_path / "policy.zip"), cart_pole)
    state = None
    for fresh in (FRESH, LATER, LATER, np.array([True, False, False]), LATER):
        o = observations(cart_pole)
        expected, state = model.predict(o, state, episode_start=fresh, deterministic=True)
        assert policy.actions(o, fresh) == expected.tolist()


@pytest.mark.parametrize("kind", [PPO, A2C, DQN, QRDQN, TRPO])
def test_a_real_file_of_stable_baselines_acts_as_its_model(cart_pole, tmp_path, kind):
    model = kind("MlpPolicy", "CartPole-v1", seed=0, device="cpu")
    model.save(tmp_path / "policy.zip")
    o = observations(cart_pole, 20)
    policy = acting(str(tmp_path / "policy.zip"), cart_pole)
    expected = model.predict(o, deterministic=True)[0]
    assert policy.actions(o, np.ones(20, bool)) == expected.tolist()


def test_a_stochastic_policy_samples_when_it_is_asked_to(cart_pole, tmp_path):
    PPO("MlpPolicy", "CartPole-v1", seed=0, device="cpu").save(tmp_path / "policy.zip")
    o = np.repeat(observations(cart_pole, 1), 60, axis=0)
    path, fresh = str(tmp_path / "policy.zip"), np.ones(60, bool)
    assert len(set(acting(path, cart_pole).actions(o, fresh))) == 1
    assert len(set(acting(path, cart_pole, stochastic=True).actions(o, fresh))) == 2


def test_statistics_of_vec_normalize_are_applied(tmp_path):
    env = gym.make("Pendulum-v1")
    venv = VecNormalize(DummyVecEnv([lambda: gym.make("Pendulum-v1")]))
    model = SAC("MlpPolicy", venv, seed=0, device="cpu")
    venv.obs_rms.mean, venv.obs_rms.var = np.array([0.5, -0.5, 1.0]), np.array([0.1, 2.0, 9.0])
    model.save(tmp_path / "policy.zip")
    venv.save(tmp_path / "normalize.pkl")
    o = observations(env, 5)
    names = str(tmp_path / "policy.zip"), str(tmp_path / "normalize.pkl")
    found = acting(names[0], env, normalize=names[1]).actions(o, np.ones(5, bool))
    np.testing.assert_allclose(found, model.predict(venv.normalize_obs(o), deterministic=True)[0])
    with pytest.raises(InvalidInputError, match="VecNormalize"):
        acting(names[0], env, normalize=names[0])


def test_a_policy_of_another_environment_is_refused(cart_pole, tmp_path):
    SAC("MlpPolicy", "Pendulum-v1", device="cpu").save(tmp_path / "policy.zip")
    with pytest.raises(InvalidInputError, match="another environment"):
        acting(str(tmp_path / "policy.zip"), cart_pole)
    (tmp_path / "text.zip").write_text("no zip")
    with pytest.raises(InvalidInputError, match="not a zip"):
        acting(str(tmp_path / "text.zip"), cart_pole)
    with pytest.raises(InvalidInputError, match="no such file"):
        acting(str(tmp_path / "none.zip"), cart_pole)


def test_a_plan_of_a_file_says_what_the_whole_episode_returns(tmp_path):
    PPO("MlpPolicy", "CartPole-v1", seed=0, device="cpu").save(tmp_path / "policy.zip")
    settings = PlanSettings(
        "CartPole-v1", str(tmp_path / "policy.zip"), samples=3000, max_iter=500, n_basis=63
    )
    planner = plan(settings)
    found, seen = planner.start_distribution(), planner.figures.start
    assert float(found.mean()) == pytest.approx(seen.mean.value, rel=0.15)
    low, high = planner.interval(planner.starts, 0.9)
    assert np.all(low < high)
    with pytest.raises(InvalidInputError, match="levels that there are"):
        planner.interval(planner.starts, 0.5)


def test_a_table_is_drawn_from_by_its_probabilities():
    """40,000 draws in each state, four standard errors; states and actions that do not start at 0."""
    spaces = Spaces(gym.spaces.Discrete(2, start=5), gym.spaces.Discrete(3, start=1))
    table = np.array([[0.2, 0.0, 0.8], [0.0, 1.0, 0.0]])
    policy = table_policy(table, spaces, seed=0)
    n = 40_000
    drawn = np.array(policy.actions(np.repeat([5, 6], n), np.zeros(2 * n, bool)))
    shares = np.stack([np.mean(drawn.reshape(2, n) == a, axis=1) for a in (1, 2, 3)], axis=1)
    assert np.all(np.abs(shares - table) <= 4 * np.sqrt(table * (1 - table) / n))
    assert policy(6) == 2


def test_random_actions_are_independent_of_the_draws_from_a_table():
    """Both actions are as likely, with and without random ones; four standard errors."""
    spaces = Spaces(gym.spaces.Discrete(1), gym.spaces.Discrete(2))
    n = 20_000
    policy = table_policy(np.array([[0.5, 0.5]]), spaces, seed=0, epsilon=0.5)
    drawn = np.array(policy.actions(np.zeros(n, int), np.zeros(n, bool)))
    assert abs(drawn.mean() - 0.5) < 4 * 0.5 / np.sqrt(n)
