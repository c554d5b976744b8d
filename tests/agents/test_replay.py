"""n-step windows of the replay, against a plain loop."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bellman_diffusion.agents.replay import Rows, empty_replay, sample, store
from bellman_diffusion.returns.support import Support, first_support, grown, reward_bounds

CAPACITY, N_ENVS, GAMMA = 12, 2, 0.9


def filled(n_rows: int) -> tuple[Rows, list]:
    """A ring after n_rows steps of two environments; episodes end now and then, one by a time limit."""
    replay = empty_replay(CAPACITY, N_ENVS, (1,), jnp.float32)
    log = []
    for t in range(n_rows):
        terminated = np.array([t % 5 == 4, False], np.float32)
        ended = np.array([t % 5 == 4, t % 4 == 3], np.float32)
        observation = np.array([[t], [100 + t]], np.float32)
        rows = Rows(
            observation[None],
            np.array([[t % 3, t % 2]]),
            np.array([[1.0 + t, 2.0 + t]], np.float32),
            observation[None] + 0.5,
            terminated[None],
            ended[None],
        )
        log.append((observation, 1.0 + t, 2.0 + t, terminated, ended))
        replay = store(replay, jax.tree.map(jnp.asarray, rows), jnp.asarray(t % CAPACITY))
    return replay, log


@pytest.mark.parametrize("n_rows", [7, 12, 29])
@pytest.mark.parametrize("n_step", [1, 3])
def test_windows_sum_rewards_up_to_the_end_and_never_cross_the_newest_row(n_rows, n_step):
    replay, log = filled(n_rows)
    batch = sample(replay, jax.random.key(0), 512, n_step, GAMMA, jnp.asarray(n_rows))
    oldest = max(0, n_rows - CAPACITY)
    starts = set()
    for i in range(512):
        first = float(batch.observation[i, 0])
        env = int(first >= 100)
        t = int(first) - 100 * env
        starts.add((t, env))
        total, discount, last = 0.0, 1.0, t
        for last in range(t, t + n_step):
            total += discount * log[last][1 + env]
            discount *= GAMMA
            if log[last][4][env]:
                break
        discount *= 1 - log[last][3][env]
        assert float(batch.reward[i]) == pytest.approx(total, rel=1e-5)
        assert float(batch.discount[i]) == pytest.approx(discount, rel=1e-5)
        assert float(batch.next_observation[i, 0]) == last + 100 * env + 0.5
    assert {t for t, _ in starts} == set(range(oldest, n_rows - n_step + 1))
    assert {env for _, env in starts} == {0, 1}


def test_the_first_support_covers_the_returns_seen():
    replay, _ = filled(12)
    support = first_support(replay.reward, replay.ended, GAMMA)
    assert float(support.low) == 0
    # From the best row on: 2+8, then γ(2+9), …, to the end of the episode.
    best = sum(GAMMA**k * (2.0 + 8 + k) for k in range(4))
    assert float(support.high) >= best
    assert float(support.greatest) == pytest.approx(13 / (1 - GAMMA), rel=1e-4)
    # A bound on all returns that is near is taken at once; one that is far is not.
    assert float(support.high) == pytest.approx(130, rel=1e-4)
    rare = replay._replace(reward=replay.reward * (jnp.arange(12) == 11)[:, None])
    assert float(first_support(rare.reward, rare.ended, GAMMA).high) < 20


def test_a_support_grows_on_the_side_that_overflows_and_no_further_than_rewards_allow():
    replay, _ = filled(12)
    support = Support(*(jnp.asarray(v) for v in (0.0, 50.0, 0.0, 130.0)))
    nothing, much = jnp.zeros(()), jnp.ones(())
    wider = grown(support, nothing, much, reward_bounds(replay.reward, GAMMA), 1e-4)
    assert float(wider.high) > float(support.high)
    assert float(wider.low) == float(support.low)
    for _ in range(20):
        wider = grown(wider, much, much, reward_bounds(replay.reward, GAMMA), 1e-4)
    assert float(wider.high) == pytest.approx(13 / (1 - GAMMA), rel=1e-4)
    assert float(wider.low) == 0
