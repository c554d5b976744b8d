"""Off-policy evaluation: returns of one policy from the transitions of another one."""

import gymnasium as gym
import numpy as np
import pytest

from bellman_diffusion import Planner, plan_from_transitions
from bellman_diffusion.environments import finite_mdp, make_env
from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.planning.certify import certified_distribution, certify
from bellman_diffusion.planning.logs import Log
from bellman_diffusion.planning.off_policy import OffPolicy, Target, pair_rows
from bellman_diffusion.returns.tabular_policies import optimal_policy, random_policy


@pytest.fixture(scope="module")
def lake():
    """FrozenLake, and a log of episodes in which every action is drawn at random."""
    mdp = finite_mdp(make_env("FrozenLake-v1"))
    rng = np.random.default_rng(0)
    rows, state = [], 0
    step = {}
    for i, pair in enumerate(zip(mdp.state, mdp.action, strict=True)):
        step.setdefault(pair, []).append(i)
    for _ in range(60_000):
        action = int(rng.integers(mdp.n_actions))
        choices = step[state, action]
        weight = mdp.probability[choices]
        row = rng.choice(choices, p=weight / weight.sum())
        after, done = int(mdp.next_state[row]), bool(mdp.done[row])
        rows.append((state, action, float(mdp.reward[row, 0]), after, done))
        state = 0 if done else after
    return mdp, [np.array(column) for column in zip(*rows, strict=True)]


def test_a_log_of_random_actions_tells_the_return_of_the_optimal_policy(lake):
    """Against exact planning; the policy that was logged has a mean of 0.013 from the start."""
    mdp, (state, action, reward, after, done) = lake
    best = optimal_policy(mdp, 0.99).argmax(axis=1)
    truth = certify(mdp.under(np.eye(4)[best]), 0.99)
    exact = certified_distribution(truth, np.arange(16))
    planner = plan_from_transitions(
        state, reward, after, done, action=action, policy=lambda o: int(best[o])
    )
    assert planner.header.actions.n_actions == 4
    assert planner.figures.outside_log == 0
    living = [0, 1, 4, 8, 9, 14]
    found = planner.distribution(living, best[living])
    np.testing.assert_allclose(found.mean(), exact.mean()[np.array(living)], atol=0.03)
    np.testing.assert_allclose(found.cvar(0.5), exact.cvar(0.5)[np.array(living)], atol=0.03)
    episode = planner.start_distribution()
    assert float(episode.mean()) == pytest.approx(float(exact.mean()[0]), abs=0.03)
    logged = plan_from_transitions(state, reward, after, done)
    assert float(logged.start_distribution().mean()) < 0.05


def test_a_pair_differs_from_the_policys_own_action_by_its_first_step_alone(lake):
    """Q(s, a) is one backup of the exact returns of the policy."""
    mdp, (state, action, reward, after, done) = lake
    best = optimal_policy(mdp, 0.99).argmax(axis=1)
    mean = certify(mdp.under(np.eye(4)[best]), 0.99).moments.mean
    value = mdp.reward[:, 0] + 0.99 * np.where(mdp.done, 0, mean[mdp.next_state])
    q = np.zeros((16, 4))
    np.add.at(q, (mdp.state, mdp.action), mdp.probability * value)
    planner = plan_from_transitions(
        state, reward, after, done, action=action, policy=lambda o: int(best[o])
    )
    found = planner.distribution([(14, a) for a in range(4)])
    np.testing.assert_allclose(found.mean(), q[14], atol=0.04)
    assert float(q[14].max() - q[14].min()) > 0.1


def test_an_npy_table_is_a_policy_of_a_log(lake, tmp_path):
    mdp, (state, action, reward, after, done) = lake
    np.save(tmp_path / "policy.npy", random_policy(mdp))
    arguments = (state, reward, after, done)
    planner = plan_from_transitions(*arguments, action=action, policy=str(tmp_path / "policy.npy"))
    # The policy that was logged: 1.3 % of its episodes reach the goal.
    assert float(planner.start_distribution().mean()) == pytest.approx(0.0127, abs=0.005)
    np.save(tmp_path / "small.npy", np.zeros(3, int))
    with pytest.raises(InvalidInputError, match="15 actions"):
        plan_from_transitions(*arguments, action=action, policy=str(tmp_path / "small.npy"))


def test_windows_go_on_along_the_log_where_it_acts_as_the_policy_does():
    observation = np.arange(6.0)[:, None]
    action = np.array([0, 1, 1, 0, 1, 1])
    ends = np.array([0, 0, 1, 0, 0, 1])
    log = Log.of(observation, np.ones(6), observation + 1, ends, action=action)
    found = OffPolicy.of(log, Target(lambda o: 1))
    # Row 0 goes on to row 1 (action 1), row 1 to row 2; rows 2 and 5 are ends; row 3 to row 4.
    assert found.transitions.ended.tolist() == [0, 0, 1, 0, 0, 1]
    other = OffPolicy.of(log, Target(lambda o: 0))
    assert other.transitions.ended.tolist() == [1, 1, 1, 1, 1, 1]
    # The next pair has the policy's action, not the one that was logged.
    assert other.transitions.next_observation[:, 1:].tolist() == [[1, 0]] * 6
    assert other.starts.tolist() == [[0, 1, 0], [3, 1, 0]]


def test_pairs_are_stored_as_their_space_stores_them():
    table = gym.spaces.Discrete(5), gym.spaces.Discrete(3)
    rows = pair_rows(*table, np.array([[4.0], [2.0]]), np.array([[1.0], [2.0]]))
    assert rows.tolist() == [[13.0], [8.0]]
    box = gym.spaces.Box(-1, 1, (2,)), gym.spaces.Box(-1, 1, (1,))
    assert pair_rows(*box, np.array([[1.0, 2.0]]), np.array([[3.0]])).tolist() == [[1, 2, 3]]


def line(n=4000, seed=0):
    """A walk on a line of numbers: an action pushes, the reward is minus the distance from 0."""
    rng = np.random.default_rng(seed)
    now = rng.uniform(-1, 1, (n, 1)).astype(np.float32)
    push = rng.uniform(-0.6, 0.6, (n, 1)).astype(np.float32)
    after = np.clip(now + push, -1, 1)
    ends = rng.uniform(size=n) < 0.3
    return now, push, -np.abs(after[:, 0]), after, ends


@pytest.mark.quality
def test_continuous_actions_are_inputs_of_the_network(tmp_path):
    """Pushed towards 0 by half a unit, the return from x is −(|x| − ½)₊; then nothing is lost."""
    now, push, reward, after, ends = line()
    planner = plan_from_transitions(
        now, reward, after, ends, action=push, policy=lambda o: np.clip(-o, -0.5, 0.5),
        max_iter=3000,
    )  # fmt: skip
    # Rewards alone allow −100; short trainings find where returns are.
    low, high = planner.header.support
    assert -6 < low < -1.5
    assert high == 0
    planner.save(tmp_path / "planner.bellman")
    planner = Planner.load(tmp_path / "planner.bellman")
    at = np.array([[0.2], [0.9]], np.float32)
    found = planner.distribution(at, np.clip(-at, -0.5, 0.5))
    np.testing.assert_allclose(found.mean(), [0, -0.4], atol=0.06)
    # Pushed away once: the same from a worse place, where the episode goes on with 0.7.
    worse = planner.distribution(at[:1], np.array([[0.5]], np.float32))
    assert float(worse.mean()[0]) == pytest.approx(-0.7 - 0.7 * 0.99 * 0.2, abs=0.08)


def test_a_policy_that_leaves_the_log_is_warned_of():
    now, push, reward, after, ends = line(1000)
    with pytest.warns(RuntimeWarning, match="leaves the log: 100%"):
        planner = plan_from_transitions(
            now, reward, after, ends, action=push, policy=lambda o: np.full(1, 5.0), max_iter=10
        )
    assert planner.figures.outside_log == 1


def test_what_off_policy_evaluation_cannot_do_is_said(lake):
    _, (state, action, reward, after, done) = lake
    some = slice(0, 50)
    arguments = [a[some] for a in (state, reward, after, done)]
    with pytest.raises(InvalidInputError, match="no actions"):
        plan_from_transitions(*arguments, policy="random")
    with pytest.raises(InvalidInputError, match="has a memory"):
        plan_from_transitions(*arguments, action=action[some], policy=lambda o, state: (0, None))
    with pytest.raises(InvalidInputError, match="49 actions for 50 rows"):
        plan_from_transitions(*arguments, action=action[:49], policy="random")
    with pytest.raises(InvalidInputError, match="not an action"):
        plan_from_transitions(*arguments, action=action[some], policy=lambda o: 7)
    now, push, reward, after, ends = line(50)
    with pytest.raises(InvalidInputError, match="range of its continuous actions"):
        plan_from_transitions(now, reward, after, ends, action=push, policy="random")
