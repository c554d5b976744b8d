"""Logs: files of every format, what is derived where columns are missing, and what is refused."""

import numpy as np
import pandas as pd
import pytest

from bellman_diffusion import Planner, plan_from_transitions
from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.planning.logs import Log, read_log
from bellman_diffusion.planning.transitions import sample_chain
from tests.returns.chains import two_states

# Two episodes of a walk 0, 1, 2, …: one ends, one is cut off.
STATE = np.array([0, 1, 2, 0, 1, 2, 3])
NEXT = np.array([1, 2, 3, 1, 2, 3, 4])
REWARD = np.arange(7.0)
TERMINATED = np.array([0, 0, 1, 0, 0, 0, 0])
TRUNCATED = np.array([0, 0, 0, 0, 0, 0, 1])


def boxed(values):
    return values[:, None] * [1.0, 0.5]


def test_without_next_observations_they_are_those_of_the_next_row():
    """What came after the last row of a truncated episode is not known: that row goes."""
    whole = Log.of(boxed(STATE), REWARD, boxed(NEXT), TERMINATED, TRUNCATED).transitions
    short = Log.of(boxed(STATE), REWARD, None, TERMINATED, TRUNCATED).transitions
    assert len(short) == 6
    assert np.array_equal(whole.ended, [0, 0, 1, 0, 0, 0, 1])
    assert np.array_equal(short.ended, [0, 0, 1, 0, 0, 1])
    kept = [0, 1, 3, 4, 5]
    assert np.array_equal(short.next_observation[kept], whole.next_observation[kept])


def test_episodes_are_found_by_numbers_by_flags_or_by_jumps():
    for found in (
        Log.of(boxed(STATE), REWARD, boxed(NEXT), TERMINATED, TRUNCATED),
        Log.of(boxed(STATE), REWARD, boxed(NEXT), TERMINATED, episode=[5, 5, 5, 9, 9, 9, 9]),
        Log.of(boxed(STATE), REWARD, boxed(NEXT), np.zeros(7)),
    ):
        assert np.array_equal(found.transitions.ended, [0, 0, 1, 0, 0, 0, 1])


def test_files_give_what_arrays_give(tmp_path):
    arrays = Log.of(boxed(STATE), REWARD, boxed(NEXT), TERMINATED, TRUNCATED).transitions
    frame = pd.DataFrame(
        {
            "obs_0": STATE, "obs_1": STATE / 2, "next_obs_0": NEXT, "next_obs_1": NEXT / 2,
            "r": REWARD, "Terminated": TERMINATED.astype(bool), "timeouts": TRUNCATED,
        }
    )  # fmt: skip
    frame.to_csv(tmp_path / "log.csv", index=False)
    frame.to_parquet(tmp_path / "log.parquet")
    np.savez(
        tmp_path / "log.npz", observations=boxed(STATE), r=REWARD, terminals=TERMINATED,
        next_observations=boxed(NEXT), truncations=TRUNCATED,
    )  # fmt: skip
    for name in ("log.csv", "log.parquet", "log.npz"):
        found = read_log(str(tmp_path / name), {"reward": "r"}).transitions
        for a, b in zip(found, arrays, strict=True):
            assert np.array_equal(a, b), name
        with pytest.raises(InvalidInputError, match="has no reward"):
            read_log(str(tmp_path / name))


def test_logs_that_make_no_sense_are_refused():
    box = boxed(STATE)
    with pytest.raises(InvalidInputError, match="nothing tells which steps end"):
        Log.of(box, REWARD, boxed(NEXT))
    bad = REWARD.copy()
    bad[4] = np.nan
    with pytest.raises(InvalidInputError, match="reward of row 4"):
        Log.of(box, bad, boxed(NEXT), TERMINATED)
    wrong = box.copy()
    wrong[2, 1] = np.inf
    with pytest.raises(InvalidInputError, match="observation of row 2"):
        Log.of(wrong, REWARD, boxed(NEXT), TERMINATED)
    with pytest.raises(InvalidInputError, match="rows of episode 1 are not together"):
        Log.of(box, REWARD, boxed(NEXT), TERMINATED, episode=[1, 2, 1, 2, 1, 2, 2])
    mixed = [0, 1, 2, 3, 5, 4, 6]
    columns = (a[mixed] for a in (box, REWARD, boxed(NEXT), TERMINATED, TRUNCATED))
    with pytest.raises(InvalidInputError, match="row 3 goes on to another"):
        Log.of(*columns)
    with pytest.raises(InvalidInputError, match="next observations"):
        Log.of(box, REWARD, NEXT, TERMINATED)
    with pytest.raises(InvalidInputError, match="there are no rows"):
        Log.of(box[:0], REWARD[:0], None, TERMINATED[:0])


def test_what_follows_an_end_is_nothing():
    """A log may have −1 there: states and counts stay what they are."""
    after = np.where(TERMINATED == 1, -1, NEXT)
    found = Log.of(STATE, REWARD, after, TERMINATED, TRUNCATED)
    assert found.space.n == 5
    assert found.transitions.next_observation.min() >= 0
    one = Log.of([[1.0, 2.0]], [1.0], [[1.0, 3.0]], [1])
    assert len(one.transitions) == 1


def test_settings_that_are_not_for_logs_are_refused():
    for wrong in ({"objective": "cvar:0.1"}, {"epsilon": 0.1}, {"time_limit": "end"}):
        with pytest.raises(InvalidInputError):
            plan_from_transitions(STATE, REWARD, NEXT, TERMINATED, **wrong)
    with pytest.raises(InvalidInputError, match="trace"):
        plan_from_transitions(STATE, REWARD, NEXT, TERMINATED, trace=1.5)


def test_starts_of_a_table_are_states_that_occur():
    """Every episode has a start of its own: those that were held out are not asked for."""
    start = np.arange(60)
    state = np.column_stack([start, np.full(60, 60), np.full(60, 61)]).reshape(-1)
    end = np.tile([0, 0, 1], 60)
    with pytest.warns(RuntimeWarning, match="start where no other one was"):
        planner = plan_from_transitions(state, np.ones(180), None, end, gamma=0.9)
    np.testing.assert_allclose(planner.distribution(planner.starts).mean(), 2.71, atol=1e-3)
    assert float(planner.start_distribution().mean()) == pytest.approx(2.71, abs=1e-3)


def test_a_table_is_counted_and_saved(tmp_path):
    """The two-state chain: m₀ = 1 + 0.9 m₁, m₁ = 0.4 · 2 + 0.6 · 0.9 m₀."""
    t = sample_chain(two_states(), 40_000, seed=0)
    state, after = (a[:, 0].astype(int) for a in (t.observation, t.next_observation))
    # Rows are not in the order of episodes, so that hardly any return is known.
    with pytest.warns(RuntimeWarning, match="held-out"):
        planner = plan_from_transitions(state, t.reward, after, t.terminated, gamma=0.9)
    planner.save(tmp_path / "planner.bellman")
    m0 = (1 + 0.9 * 0.8) / (1 - 0.9 * 0.54)
    for one in (planner, Planner.load(tmp_path / "planner.bellman")):
        means = one.distribution([0, 1]).mean()
        np.testing.assert_allclose(means, [m0, 0.8 + 0.54 * m0], atol=0.03)


def test_a_log_of_numbers_is_learned_and_evaluated_on_episodes_held_out(tmp_path):
    """Episodes of 1 to 9 steps with a reward of 1 a step; the first number tells how many."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 10, 600)
    left = np.concatenate([np.arange(n, 0, -1) for n in lengths]).astype(float)
    noise = rng.normal(size=len(left))
    planner = plan_from_transitions(
        np.column_stack([left, noise]), np.ones(len(left)), None, left == 1, max_iter=800
    )
    planner.save(tmp_path / "planner.bellman")
    planner = Planner.load(tmp_path / "planner.bellman")
    found = planner.distribution(np.array([[3.0, 0.0], [8.0, 0.0]], np.float32))
    exact = [(1 - 0.99**n) / 0.01 for n in (3, 8)]
    np.testing.assert_allclose(found.mean(), exact, atol=0.25)
    # The return is known from the observation: the distribution is narrow, not as wide as all returns.
    assert float(found.std().max()) < 0.5
    held_out = planner.figures.held_out
    assert held_out.n_episodes == 120
    assert held_out.mean_error_relative < 0.05
    assert [c.level for c in planner.figures.conformal] == [0.8, 0.9, 0.95]
