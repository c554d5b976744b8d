"""Counted chains: frequencies, what was never seen, and how near they come to the truth."""

import jax.numpy as jnp
import numpy as np
import pytest

from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.planning import Planner, PlanSettings, plan
from bellman_diffusion.planning.counting import Counted
from bellman_diffusion.planning.transitions import Transitions, sample_chain
from tests.returns.chains import two_states


def test_frequencies_are_those_of_the_transitions():
    found = sample_chain(two_states(), 40_000, seed=0)
    chain = Counted.of(found, 2).chain
    for state in (0, 1):
        rows = chain.state == state
        assert chain.probability[rows].sum() == pytest.approx(1)
        own = found.observation[:, 0] == state
        ends = chain.probability[rows & chain.done].sum()
        assert ends == pytest.approx(np.mean(found.terminated[own]))


def test_a_state_that_is_never_left_is_warned_of_and_one_never_seen_refused(tmp_path):
    rows = np.array([[0], [1]], np.float32)
    ones = np.ones(2, np.float32)
    transitions = Transitions(rows, ones, rows + 1, np.zeros(2, np.float32), ones)
    with pytest.warns(RuntimeWarning, match="state 2"):
        counted = Counted.of(transitions, 5)
    assert counted.seen.tolist() == [True, True, False, False, False]
    # The optimal policy never walks along the edge of the cliff's upper left corner.
    settings = PlanSettings("CliffWalking-v1", samples=600, time_limit="bootstrap", gamma=0.9)
    planner = plan(settings, policy=lambda o: {36: 0, 35: 2}.get(int(o), 1))
    planner.save(tmp_path / "planner.bellman")
    for one in (planner, Planner.load(tmp_path / "planner.bellman")):
        assert float(one.distribution([36]).mean()[0]) == pytest.approx(-7.458134, abs=1e-3)
        with pytest.raises(InvalidInputError, match="state 0 does not occur"):
            one.distribution([0])


def test_nothing_is_certified_of_the_true_chain():
    planner = plan(PlanSettings("FrozenLake-v1", samples=20_000))
    distribution = planner.distribution([0])
    with pytest.raises(InvalidInputError, match="no certified bounds"):
        _ = distribution.bounds
    assert planner.figures.accuracy_reached is None
    # P(return ≤ 0) is 0.1765; 20,000 transitions over 16 states.
    assert float(distribution.prob_at_most(0.0)[0]) == pytest.approx(0.1765, abs=0.05)
    assert float(distribution.prob_below(0.0)[0]) == 0
    assert jnp.all(distribution.cvar(0.1) >= 0)
