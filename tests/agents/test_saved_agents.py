"""What is kept of a training: the averaged weights, and when each seed had solved it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bellman_diffusion.agents.agent import AGENT_FILE, Agent, save_agents
from bellman_diffusion.agents.config import AgentConfig
from bellman_diffusion.agents.make import make_learner
from bellman_diffusion.agents.train import SeedSummary, Training

CONFIG = AgentConfig("FrozenLake-v1", algo="dqn", hidden=(4,), support=(0.0, 1.0), epsilon_end=0.3)
SEEDS = (3, 8)
# FrozenLake counts as solved at 0.7.
RETURNS = np.array([[0.1, 0.2], [0.75, 0.3], [0.6, 0.69], [0.8, 0.70]])


@pytest.fixture(scope="module")
def training():
    learner, environment = make_learner(CONFIG)
    state = jax.vmap(learner.init)(jnp.stack([jax.random.key(seed) for seed in SEEDS]))
    average = jax.tree.map(lambda a: a + 1.0, state.network)
    return Training(
        CONFIG,
        environment.spec,
        SEEDS,
        state._replace(ema_network=average),
        np.arange(1000, 5000, 1000),
        RETURNS,
        1.0,
        1.0,
    )


def test_a_saved_agent_acts_by_the_averaged_weights_of_its_seed(training, tmp_path):
    save_agents(tmp_path / AGENT_FILE, training)
    for place, seed in enumerate(SEEDS):
        agent = Agent.load(tmp_path, seed)
        kept = jax.tree.leaves(agent.network)
        wanted = jax.tree.leaves(jax.tree.map(lambda a, i=place: a[i], training.state.ema_network))
        for one, other in zip(kept, wanted, strict=True):
            np.testing.assert_array_equal(one, other)


def test_the_seed_with_the_best_last_judgement_is_loaded(training, tmp_path):
    save_agents(tmp_path / AGENT_FILE, training)
    assert Agent.load(tmp_path).seed == 3


def test_a_seed_has_solved_its_environment_at_the_first_judgement_at_the_threshold(training):
    assert training.spec.solved_at == pytest.approx(0.7)
    first, second = training.summary()
    assert first == SeedSummary(3, 0.8, 2000)
    assert second == SeedSummary(8, 0.7, 4000)


def test_an_agent_that_may_deviate_does_so_in_the_share_that_training_ended_with(
    training, tmp_path
):
    """A random action is another one three times in four: 0.3 · 0.75, four standard errors."""
    save_agents(tmp_path / AGENT_FILE, training)
    agent = Agent.load(tmp_path)
    rows = np.zeros(4000, int)
    greedy, _ = agent.predict(rows)
    free, _ = agent.predict(rows, deterministic=False)
    assert np.unique(greedy).size == 1
    wanted = 0.3 * 0.75
    assert np.mean(free != greedy) == pytest.approx(
        wanted, abs=4 * np.sqrt(wanted * (1 - wanted) / 4000)
    )
