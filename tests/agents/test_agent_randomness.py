"""No two rounds, chunks, judgements or seeds of an agent's training share their chance."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bellman_diffusion.agents.config import AgentConfig
from bellman_diffusion.agents.devices import SeedGrid
from bellman_diffusion.agents.jax_program import JaxProgram, evaluation_key
from bellman_diffusion.agents.learner import Streams, round_key

# Random actions throughout: learning would start after the last step.
CONFIG = AgentConfig(
    "FrozenLake-v1",
    algo="dqn",
    hidden=(4,),
    n_envs=4,
    steps_per_round=16,
    eval_every=64,
    steps=128,
    learning_starts=500,
    replay=500,
    eval_episodes=2,
)


@pytest.fixture(scope="module")
def actions():
    """Of two seeds: (seed, round, action) for the four rounds of each of two chunks."""
    program = JaxProgram(CONFIG, SeedGrid([0, 1], jax.local_devices()[:1]))
    state, _ = program.start()
    for step in (0, 64):
        state, _, _ = program.chunk(state, step)
    found = np.asarray(program.finish(state).replay.action)[:, :32]
    return found.reshape(2, 8, 16)


def test_every_round_of_every_chunk_has_random_actions_of_its_own(actions):
    # Sixteen draws of four actions: two rounds alike would be a chance of one in a hundred million.
    for seed in actions:
        assert len(np.unique(seed, axis=0)) == 8


def test_seeds_share_no_random_actions(actions):
    assert not (actions[0] == actions[1]).all(axis=1).any()
    # And all four actions are taken, about as often.
    counts = np.bincount(actions.reshape(-1), minlength=4)
    assert np.all(np.abs(counts - 64) < 4 * np.sqrt(256 * 0.1875))


def bits(key):
    return tuple(np.asarray(jax.random.key_data(key)).tolist())


def test_rounds_and_judgements_have_different_keys_throughout_a_run():
    key = jax.random.key(7)
    rounds = [bits(round_key(key, jnp.asarray(i))) for i in range(20)]
    judged = [bits(evaluation_key(key, jnp.asarray(i))) for i in range(20)]
    streams = [bits(k) for k in Streams.of(key)]
    assert len({*rounds, *judged, *streams}) == 20 + 20 + 4
    # The same round of the same seed has the same chance, which is what a resume needs.
    assert bits(round_key(key, jnp.asarray(3))) == rounds[3]
