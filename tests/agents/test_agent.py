"""The trained agent in Python: Stable-Baselines3's habits, distributions, files."""

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bellman_diffusion.agents.agent import AGENT_FILE, Agent, AgentHeader, _like, save_agents
from bellman_diffusion.agents.config import AgentConfig
from bellman_diffusion.agents.episodes import greedy_returns, play
from bellman_diffusion.agents.train import train_agents
from bellman_diffusion.errors import CheckpointError, InvalidInputError
from bellman_diffusion.training.checkpoint import read_checkpoint
from tests.agents.test_learner import SMALL


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    config = AgentConfig("CartPole-v1", **(SMALL | {"steps": 600}))
    save_agents(folder / AGENT_FILE, train_agents(config, [3, 4]))
    return folder


def test_stable_baselines_judges_our_agent_as_we_do(run):
    """The returns of the very same episodes, played by the action with the best mean."""
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.monitor import Monitor
    from stable_baselines3.common.vec_env import DummyVecEnv

    agent = Agent.load(run)
    theirs = DummyVecEnv([lambda: Monitor(gym.make("CartPole-v1"))])
    theirs.seed(7)
    returns, lengths = evaluate_policy(
        agent, theirs, n_eval_episodes=5, return_episode_rewards=True
    )
    best = jax.jit(
        lambda o: jnp.argmax(agent.learner.model.means(_outputs(agent, o), agent.normalisation))
    )
    env, own = gym.make("CartPole-v1"), []
    for episode in range(5):
        # A later reset goes on with the random numbers of the first.
        observation, _ = env.reset(seed=7 if episode == 0 else None)
        total, over = 0.0, False
        while not over:
            observation, reward, stop, cut, _ = env.step(int(best(jnp.asarray(observation))))
            total, over = total + reward, stop or cut
        own.append(total)
    assert returns == own
    assert lengths == own  # CartPole pays 1 a step
    assert len(set(own)) > 1


def _outputs(agent, observation):
    return agent.learner.model.outputs(agent.network, agent.normalisation, observation)


def test_one_observation_gives_one_action_and_a_batch_gives_many(run):
    agent = Agent.load(run)
    observation, _ = agent.make_env().reset(seed=0)
    action, state = agent.predict(observation)
    assert action in (0, 1)
    assert state is None
    actions, _ = agent.predict(np.stack([observation] * 3))
    np.testing.assert_array_equal(actions, [action] * 3)
    agent.predict(observation, deterministic=False)


def test_laws_are_of_each_action_and_the_best_mean_is_taken(run):
    agent = Agent.load(run)
    observation, _ = agent.make_env().reset(seed=1)
    distributions = agent.returns(observation)
    assert distributions.batch_shape == (2,)
    assert agent.returns(observation[None]).batch_shape == (1, 2)
    assert int(jnp.argmax(distributions.mean())) == agent.predict(observation)[0]
    assert np.all(np.asarray(distributions.cvar(0.1)) <= np.asarray(distributions.mean()))
    assert distributions[0].quantile(0.5).shape == ()


def test_the_best_seed_is_loaded_unless_another_is_asked_for(run):
    _, header = read_checkpoint(run / AGENT_FILE, "agent", AgentHeader, _like)
    best = max(header.summary, key=lambda row: row.greedy_return).seed
    assert Agent.load(run).seed == best
    assert Agent.load(run, 4).seed == 4
    with pytest.raises(InvalidInputError, match=r"seeds \[3, 4\]"):
        Agent.load(run, 9)


def test_greedy_returns_can_be_repeated(run):
    agent = Agent.load(run)
    first, second = (greedy_returns(agent, 4, seed=7) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert np.all(first >= 8)


def test_an_episode_is_played_with_pictures(run):
    moments = list(play(Agent.load(run), seed=0, most=5))
    assert len(moments) == 5
    assert moments[0].frame.shape[2] == 3
    assert moments[0].frame.std() > 0


def test_wrong_observations_and_files_are_refused(run, tmp_path):
    agent = Agent.load(run)
    with pytest.raises(InvalidInputError, match=r"\(4,\)"):
        agent.predict(np.zeros(3))
    with pytest.raises(InvalidInputError, match="bellman train"):
        Agent.load(tmp_path)
    (tmp_path / AGENT_FILE).write_bytes((run / AGENT_FILE).read_bytes()[:-5])
    with pytest.raises(CheckpointError, match="damaged"):
        Agent.load(tmp_path)


def test_discrete_observations_and_the_host_path_work_too(tmp_path):
    config = AgentConfig(
        "Taxi-v4" if "Taxi-v4" in gym.registry else "Taxi-v3", **(SMALL | {"steps": 300})
    )
    save_agents(tmp_path / AGENT_FILE, train_agents(config, [0]))
    agent = Agent.load(tmp_path)
    assert agent.predict(12)[0] in range(6)
    np.testing.assert_array_equal(agent.predict(np.array([12, 13]))[0].shape, (2,))
    with pytest.raises(InvalidInputError):
        agent.predict(10_000)
    host = AgentConfig("Blackjack-v1", **(SMALL | {"steps": 300}))
    trained = train_agents(host, [0])
    assert -1 <= trained.returns[-1, 0] <= 1
    save_agents(tmp_path / AGENT_FILE, trained)
    assert Agent.load(tmp_path).predict((14, 10, 0))[0] in (0, 1)
