"""Planners and return distributions as objects: in programs, copied, pickled, and what they say."""

import copy
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bellman_diffusion import PlanSettings, plan, plan_from_transitions
from bellman_diffusion.errors import InvalidInputError

ROWS = np.random.default_rng(1).normal(size=(6, 2)).astype(np.float32)


@pytest.fixture(scope="module")
def learned():
    rng = np.random.default_rng(0)
    now = rng.normal(size=(400, 2))
    ends = np.arange(400) % 4 == 3
    return plan_from_transitions(now, rng.normal(size=400), None, ends, gamma=0.9, max_iter=20)


@pytest.fixture(scope="module")
def exact():
    return plan(PlanSettings("FrozenLake-v1", episodes=0, accuracy=0.01))


def test_a_learned_plan_is_part_of_a_jitted_program(learned):
    """The same under jit and vmap, and with a gradient with respect to the observation."""
    wanted = learned.distribution(ROWS).cvar(0.1)
    found = jax.jit(lambda rows: learned.distribution(rows).cvar(0.1))(ROWS)
    each = jax.vmap(lambda row: learned.distribution(row[None])[0].mean())(jnp.asarray(ROWS))
    np.testing.assert_allclose(found, wanted, atol=1e-3)
    np.testing.assert_allclose(each, learned.distribution(ROWS).mean(), atol=1e-4)
    slope = jax.grad(lambda row: learned.distribution(row[None]).mean()[0])(jnp.asarray(ROWS[0]))
    assert np.all(np.isfinite(slope))
    assert np.any(slope != 0)
    np.testing.assert_allclose(learned.distribution(jnp.asarray(ROWS)).mean(), each, atol=1e-4)


def test_what_cannot_be_traced_is_said(learned, exact):
    with pytest.raises(InvalidInputError, match=r"shape \(n, 2\).*\(6, 3\)"):
        jax.jit(lambda rows: learned.distribution(rows).mean())(jnp.zeros((6, 3)))
    with pytest.raises(InvalidInputError, match="this plan is certified"):
        jax.jit(lambda rows: exact.distribution(rows).mean())(jnp.zeros((6, 1)))


def test_plans_and_distributions_are_copied_and_pickled(learned, exact):
    for planner, where in ((learned, ROWS), (exact, [0, 14])):
        wanted = planner.distribution(where)
        for other in (copy.deepcopy(planner), pickle.loads(pickle.dumps(planner))):
            assert other.header == planner.header
            np.testing.assert_array_equal(other.distribution(where).mean(), wanted.mean())
        again = pickle.loads(pickle.dumps(wanted))
        np.testing.assert_array_equal(again.quantile(0.3), wanted.quantile(0.3))


def test_they_say_what_they_are(learned, exact):
    assert repr(exact).startswith("Planner(FrozenLake-v1, policy optimal, gamma 0.99: certified")
    assert "policy logged, gamma 0.9: learned from 320 transitions" in repr(learned)
    start = exact.distribution([0])
    assert repr(start[0]).startswith("AtomicReturn(mean 0.54")
    assert "returns in [0, 0.951]" in repr(start[0])
    assert "1 states, means in [0.54" in repr(start)
    said = []
    jax.jit(lambda rows: said.append(repr(learned.distribution(rows))))(ROWS)
    assert said == ["AtomicReturn(traced)"]
