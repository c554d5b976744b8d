"""n-step windows: their lengths, rewards and discounts, and that they average to the λ-return."""

import jax
import numpy as np
import pytest

from bellman_diffusion.planning.targets import TrainingRows, draw_windows
from bellman_diffusion.planning.transitions import Transitions

GAMMA = 0.9


def two_episodes():
    """Rewards 1 … 5, a terminal end; rewards 6 … 9, a truncation."""
    n = 9
    ended = np.isin(np.arange(n), (4, 8)).astype(np.float32)
    terminated = np.isin(np.arange(n), (4,)).astype(np.float32)
    rows = np.arange(n, dtype=np.float32)[:, None]
    return Transitions(rows, np.arange(1, n + 1, dtype=np.float32), rows + 100, terminated, ended)


@pytest.mark.parametrize("trace", [0.0, 0.7, 1.0])
def test_windows_sum_the_rewards_between_two_rows_of_an_episode(trace):
    data = two_episodes()
    rows = TrainingRows.of(data, GAMMA)
    found = draw_windows(jax.random.key(0), rows, 500, GAMMA, trace)
    for first, last, reward, discount in zip(*map(np.asarray, found), strict=True):
        assert first <= last
        assert not data.ended[first:last].any()
        powers = GAMMA ** np.arange(last - first + 1)
        assert reward == pytest.approx(data.reward[first : last + 1] @ powers, abs=1e-4)
        expected = 0 if data.terminated[last] else GAMMA ** (last - first + 1)
        assert discount == pytest.approx(expected, abs=1e-6)


def test_lambda_0_is_one_step_and_lambda_1_goes_to_the_end():
    rows = TrainingRows.of(two_episodes(), GAMMA)
    one = draw_windows(jax.random.key(1), rows, 200, GAMMA, 0.0)
    assert np.array_equal(one.first, one.last)
    whole = draw_windows(jax.random.key(1), rows, 200, GAMMA, 1.0)
    assert np.array_equal(whole.last, np.where(np.asarray(whole.first) <= 4, 4, 8))


def test_lengths_have_the_weights_of_the_lambda_return():
    """From a row with 4 more behind it: (1 − λ)λⁿ⁻¹, and all the rest for the whole way."""
    rows = TrainingRows.of(two_episodes(), GAMMA)
    found = draw_windows(jax.random.key(2), rows, 90_000, GAMMA, 0.6)
    first, last = np.asarray(found.first), np.asarray(found.last)
    steps = (last - first)[first == 0]
    shares = np.bincount(steps, minlength=5) / len(steps)
    np.testing.assert_allclose(shares, [0.4, 0.24, 0.144, 0.0864, 0.1296], atol=0.02)


def test_a_quarter_of_a_batch_starts_where_episodes_do():
    """Of 9 rows two are starts, or those that are named: 25 % and their part of the rest."""
    data = two_episodes()
    for starts, where in ((None, (0, 5)), (np.array([3]), (3,))):
        rows = TrainingRows.of(data, GAMMA, starts)
        found = np.asarray(draw_windows(jax.random.key(3), rows, 20_000, GAMMA, 0.0).first)
        share = 0.25 + 0.75 * len(where) / 9
        assert np.mean(np.isin(found, where)) == pytest.approx(share, abs=0.02)
