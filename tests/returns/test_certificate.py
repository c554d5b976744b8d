"""Bounds by proof: they hold for every return with the given atoms and variances, and are attained."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.returns.certificate import Certificate

LEVELS = (0.01, 0.1, 0.3, 0.5, 0.9)


def certificate(mass, atoms, variance, limits=(-np.inf, np.inf)):
    mass, atoms, variance = (np.atleast_2d(np.asarray(a, float)) for a in (mass, atoms, variance))
    mean = (mass * atoms).sum(axis=1)
    var = (mass * (variance + atoms**2)).sum(axis=1) - mean**2
    return Certificate(
        mass, atoms, variance, np.stack([mean, 0 * mean], -1), np.stack([var, 0 * var], -1),
        np.tile(limits, (len(mean), 1)), 0.0,
    )  # fmt: skip


def random_return(seed):
    """Atoms x_k, and a return that is x_k plus one of two values of mean zero."""
    rng = np.random.default_rng(seed)
    k = rng.integers(1, 8)
    mass, atoms = rng.dirichlet(np.ones(k)), np.sort(rng.normal(size=k))
    up, down = rng.exponential(0.3, k), rng.exponential(0.3, k) * rng.integers(0, 2, k)
    up = np.where(down > 0, up, 0.0)
    share = np.where(down > 0, down / np.maximum(up + down, 1e-300), 1.0)
    returns = np.concatenate([atoms + up, atoms - down])
    weights = np.concatenate([mass * share, mass * (1 - share)])
    order = np.argsort(returns)
    return certificate(mass, atoms, up * down), returns[order], weights[order]


def tail_mean(returns, weights, alpha):
    taken = np.clip(alpha - (np.cumsum(weights) - weights), 0, weights)
    return taken @ returns / alpha


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_intervals_contain_the_truth(seed):
    bounds, returns, weights = random_return(seed)
    cumulative = np.cumsum(weights)
    for q in LEVELS:
        low, high = bounds.cvar(q)
        assert low[0] - 1e-9 <= tail_mean(returns, weights, q) <= high[0] + 1e-9
        low, high = bounds.cvar(q, tail="upper")
        best = -tail_mean(-returns[::-1], weights[::-1], q)
        assert low[0] - 1e-9 <= best <= high[0] + 1e-9
        low, high = bounds.quantile(q)
        true = returns[min(np.searchsorted(cumulative, q - 1e-12), len(returns) - 1)]
        assert low[0] - 1e-9 <= true <= high[0] + 1e-9
    for x in (*returns[::3], 0.1):
        low, high = bounds.prob_at_most(x)
        assert low[0] - 1e-9 <= weights[returns <= x + 1e-12].sum() <= high[0] + 1e-9
        low, high = bounds.prob_below(x)
        assert low[0] - 1e-9 <= weights[returns < x - 1e-12].sum() <= high[0] + 1e-9
    mean = weights @ returns
    assert bounds.mean()[0][0] == pytest.approx(mean, abs=1e-9)
    assert bounds.std()[1][0] == pytest.approx(np.sqrt(weights @ (returns - mean) ** 2), abs=1e-6)
    gap = np.abs(np.sort(returns)[:, None] - bounds.atoms[0]).min(axis=1)
    assert weights @ gap <= bounds.w1()[0] + 1e-9


def test_bounds_of_one_atom_are_the_closed_forms():
    """Cantelli's inequality, and the least CVaR of a given mean and variance: m − σ√((1 − α)/α)."""
    one = certificate([1.0], [2.0], [0.09])
    assert one.prob_at_most(1.5)[1][0] == pytest.approx(0.09 / (0.09 + 0.25), rel=1e-4)
    assert one.prob_at_most(1.5)[0][0] == 0
    assert one.prob_at_most(2.5)[0][0] == pytest.approx(0.25 / (0.09 + 0.25), rel=1e-4)
    for alpha in (0.01, 0.1, 0.5):
        low, high = one.cvar(alpha)
        assert low[0] == pytest.approx(2 - 0.3 * np.sqrt((1 - alpha) / alpha), abs=1e-6)
        assert high[0] == 2
    low, high = one.quantile(0.1)
    assert low[0] == pytest.approx(2 - 0.3 * np.sqrt(0.9 / 0.1), abs=1e-6)
    assert high[0] == pytest.approx(2 + 0.3 * np.sqrt(0.1 / 0.9), abs=1e-6)
    assert one.w1()[0] == pytest.approx(0.3)


def test_no_bound_lies_outside_the_possible_returns():
    one = certificate([1.0], [2.0], [0.09], limits=(1.9, 2.2))
    assert one.cvar(0.01)[0][0] == 1.9
    assert one.quantile(0.01)[0][0] == 1.9
    assert one.quantile(0.99)[1][0] == pytest.approx(2.2)
    assert one.prob_at_most(1.8)[1][0] == 0
    assert one.prob_at_most(2.2)[0][0] == 1


def test_rounding_and_the_error_of_the_mean_widen_every_interval():
    exact = certificate([0.5, 0.5], [0.0, 1.0], [0.0, 0.0])
    rough = exact._replace(rounding=1e-6, mean_and_error=np.array([[0.5, 1e-3]]))
    assert rough.cvar(0.5)[0][0] < exact.cvar(0.5)[0][0] - 1e-3
    assert rough.cvar(0.5)[1][0] > exact.cvar(0.5)[1][0] + 1e-3
    assert rough.prob_at_most(0.5)[1][0] == pytest.approx(0.5 + 1e-6, abs=1e-12)
    assert rough.prob_at_most(0.5)[0][0] == pytest.approx(0.5 - 1e-6, abs=1e-12)
    assert rough.quantile(0.3)[1][0] >= 1e-3
    assert rough.mean()[1][0] == pytest.approx(0.501)


def test_levels_outside_their_range_are_refused():
    one = certificate([1.0], [2.0], [0.0])
    with pytest.raises(InvalidInputError, match="alpha"):
        one.cvar(0.0)
    with pytest.raises(InvalidInputError, match="level"):
        one.quantile(1.0)
