"""Episodes by the vector API: order, ends, truncations, and that no episode is left out."""

import gymnasium as gym
import numpy as np
import pytest

from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.planning.acting import acting
from bellman_diffusion.planning.sampling import Sampler
from bellman_diffusion.planning.transitions import partial_returns
from bellman_diffusion.returns.observations import timed, timed_space, to_row
from tests.planning.counter import Counter


def sampler(policy=lambda o: 0, limit=None, **options):
    def make():
        return gym.wrappers.TimeLimit(Counter(**options), 7)

    return Sampler(make, acting(policy, make()), limit)


def test_rows_are_in_the_order_of_their_episodes():
    """16 counters side by side: what follows a row in its episode is the next observation."""
    found = sampler().transitions(8_000, seed=0)
    assert len(found) == 8_000
    going_on = found.ended[:-1] == 0
    assert np.array_equal(found.next_observation[:-1][going_on], found.observation[1:][going_on])
    starts = np.concatenate([[True], ~going_on])
    assert np.all(found.observation[starts][:, 0] == 0)
    # A reset is no transition: an observation is one more than the last.
    assert np.all(found.next_observation[:, 0] == found.observation[:, 0] + 1)


def test_truncation_is_not_termination_unless_the_limit_ends_episodes():
    found = sampler().transitions(1000, seed=0)
    assert found.terminated.sum() == 0
    assert found.ended.sum() >= 1000 // 7
    ending = sampler(limit=7).transitions(1000, seed=0)
    # The time is the last number of an observation; the two last rows that were cut off did not end.
    assert np.array_equal(ending.terminated, ending.next_observation[:, -1] == 1)
    assert np.allclose(ending.next_observation[:6, -1], np.arange(1, 7) / 7)


def test_a_policy_never_sees_the_end_of_an_episode():
    """An environment that is over is not acted in: the policy may not know such observations."""
    seen = set()

    def act(observation):
        seen.add(int(observation[0]))
        return 0

    found = sampler(act).transitions(200, seed=0)
    assert seen == set(range(7))
    assert found.next_observation.max() == 7


def test_long_episodes_are_not_left_out():
    """Episodes of 1 and of 7 steps with a half each: whole episodes have a mean length of 4."""
    found = sampler(stop_at_once=0.5).episodes(400, seed=0)
    assert found.ended.sum() == 400
    assert found.ended[-1] == 1
    assert len(found) / 400 == pytest.approx(4.0, abs=0.6)


def test_returns_of_starts_are_those_of_whole_episodes():
    """150 episodes of 64 counters: each has the return of its 1 or 7 rewards, and none is left out."""
    rows = sampler(stop_at_once=0.5).episodes(300, seed=0)
    first = np.concatenate([[True], rows.ended[:-1] > 0])
    whole = {float(v) for v in partial_returns(rows, 0.3)[0][first]}
    found = sampler(stop_at_once=0.5).returns_of_starts(150, 0.3, seed=1)
    assert len(found.value) == 150
    assert np.all(found.observation[:, 0] == 0)
    assert found.starts.all()
    assert {round(float(v), 3) for v in found.value} == {round(v, 3) for v in whole}
    # With a discount that leaves much of a cut-off return unknown, such episodes are lost.
    assert sampler().returns_of_starts(20, 0.9, seed=1).n_lost == 20


def test_actions_that_are_none_are_refused_by_name():
    for wrong, words in ((7, "not an action"), ("up", "not an action"), (None, "not an action")):
        with pytest.raises(InvalidInputError, match=words):
            sampler(lambda o, wrong=wrong: wrong).transitions(3, seed=0)

    def broken(observation):
        raise KeyError("weights")

    with pytest.raises(InvalidInputError, match="the policy failed on"):
        sampler(broken).transitions(3, seed=0)


def test_rewards_that_are_not_numbers_are_refused():
    with pytest.raises(InvalidInputError, match="finite number"):
        sampler(reward=np.nan).transitions(3, seed=0)


class Steps(gym.Env):
    """A discrete observation that does not start at 0: two more than the steps made."""

    observation_space = gym.spaces.Discrete(9, start=2)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.n = 0
        return 2, {}

    def step(self, action):
        self.n += 1
        return 2 + self.n, 1.0, False, False, {}


@pytest.mark.parametrize("kind", [Steps, Counter])
def test_rows_with_the_time_are_what_gymnasium_flattens(kind):
    def make():
        return gym.wrappers.TimeLimit(kind(), 7)

    found = Sampler(make, acting(lambda o: 0, make()), 7).transitions(1000, seed=0)
    space, first = make().observation_space, np.append(True, found.ended[:-1] > 0)
    time = np.arange(1000) - np.maximum.accumulate(np.where(first, np.arange(1000), 0))
    for row, later, steps in zip(found.observation, found.next_observation, time, strict=True):
        seen = 2 + int(steps) if kind is Steps else np.array([steps], np.float32)
        after = seen + 1
        assert np.allclose(row, to_row(timed_space(space), timed(seen, steps / 7)))
        assert np.allclose(later, to_row(timed_space(space), timed(after, (steps + 1) / 7)))
