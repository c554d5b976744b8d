"""Predictions against returns: tails, means and coverage, of right and of wrong ones."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from bellman_diffusion.planning.evaluation import (
    QUANTILE_LEVELS,
    _pooled_cdf,
    evaluate_against_returns,
)
from bellman_diffusion.planning.transitions import Returns
from bellman_diffusion.returns.atoms import AtomicReturn

N, K = 2000, 150


def evaluated(shift=0.0, width=1.0, starts=None):
    """Returns from N(m, 1) for means m from 2 to 6, and distributions N(m + shift, width²)."""
    rng = np.random.default_rng(0)
    means = np.linspace(2, 6, N)
    value = means + rng.normal(size=N)
    # Equally likely quantiles of each normal distribution.
    quantiles = norm.ppf((np.arange(K) + 0.5) / K)
    atoms = means[:, None] + shift + width * quantiles
    distributions = AtomicReturn(
        jnp.full((N, K), 1 / K), jnp.asarray(atoms, jnp.float32), jnp.asarray(0.1)
    )
    starts = np.ones(N, bool) if starts is None else starts
    return evaluate_against_returns(
        distributions, Returns(np.zeros((N, 1), np.float32), value, starts, np.zeros(N)), n_groups=2
    )


def test_the_right_distributions_have_the_right_tails_and_coverage():
    """Means of CVaR 10 % of each group, by quadrature over its means; within 0.08."""
    found = evaluated()
    assert found.coverage_90 == pytest.approx(0.9, abs=0.015)
    x = np.linspace(-3, 10, 20_001)
    for group, (low, high) in zip(found.groups, ((2, 4), (4, 6)), strict=True):
        cdf = np.mean([norm.cdf(x, m) for m in np.linspace(low, high, 201)], axis=0)
        levels = np.linspace(0, 0.1, 2001)[1:]
        worst = np.interp(levels, cdf, x).mean()
        assert group.cvar_10 == pytest.approx(worst, abs=0.08)
        assert group.cvar_10_predicted == pytest.approx(worst, abs=0.08)
        assert group.mean_predicted == pytest.approx((low + high) / 2, abs=0.01)
        assert group.n == N // 2
    assert found.cvar_10_error_worst_group < 0.1


@pytest.mark.parametrize("shift", [-0.5, 0.5])
def test_distributions_that_are_moved_are_off_by_as_much(shift):
    found = evaluated(shift)
    assert found.mean_error_relative == pytest.approx(0.5 / 4, abs=0.01)
    assert found.w1_worst_group == pytest.approx(0.5, abs=0.05)
    assert found.cvar_10_error_worst_group == pytest.approx(0.5, abs=0.1)
    # 5 % and 95 % of N(±0.5, 1), under N(0, 1).
    inside = norm.cdf(shift + norm.ppf(0.95)) - norm.cdf(shift + norm.ppf(0.05))
    assert found.coverage_90 == pytest.approx(inside, abs=0.015)


def test_distributions_that_are_too_wide_cover_too_much():
    found = evaluated(width=2.0)
    assert found.coverage_90 == pytest.approx(2 * norm.cdf(2 * norm.ppf(0.95)) - 1, abs=0.01)


def test_the_error_at_the_start_is_that_of_starts_alone():
    starts = np.zeros(N, bool)
    starts[:1000] = True
    found = evaluated(0.5, starts=starts)
    # The first thousand have means from 2 to 2.5; four standard errors of theirs are 0.056 of it.
    assert found.mean_error_start == pytest.approx(0.5 / 2.25, abs=0.06)
    assert found.n_episodes == 1000
    assert evaluated(starts=np.zeros(N, bool)).mean_error_start is None


def test_the_pooled_distribution_is_the_mean_of_all():
    """Atoms and spread atoms; against the mean of the states' own CDFs."""
    rng = np.random.default_rng(0)
    atoms = np.sort(rng.normal(size=(40, 7)), axis=1)
    half = rng.choice([0.0, 0.05, 0.4], size=(40, 7))
    mass = rng.dirichlet(np.ones(7), size=40)
    arrays = (jnp.asarray(a, jnp.float32) for a in (mass, atoms, 0.1, half))
    predicted = AtomicReturn(*arrays)
    x = np.linspace(-4, 4, 301)
    mean = np.asarray(predicted.cdf(jnp.asarray(x, jnp.float32))).mean(axis=0)
    assert np.allclose(_pooled_cdf(predicted, x), mean, atol=1e-5)


def test_the_histogram_tells_distributions_that_are_too_narrow_or_too_wide():
    """Even to 4 standard errors where they are right; heavy or light at both ends where not."""
    even = np.array(evaluated().pit_histogram)
    assert even.sum() == pytest.approx(1)
    assert np.all(np.abs(even - 0.1) < 4 * np.sqrt(0.09 / N) + 0.01)
    narrow, wide = (np.array(evaluated(width=w).pit_histogram) for w in (0.5, 2.0))
    assert min(narrow[0], narrow[-1]) > 0.14
    assert max(wide[0], wide[-1]) < 0.05


def test_groups_keep_quantiles_of_predictions_and_of_returns():
    """Of a mixture of normal distributions; 1,000 returns a group."""
    for group in evaluated().groups:
        assert len(group.quantiles) == len(group.quantiles_predicted) == len(QUANTILE_LEVELS)
        assert np.allclose(group.quantiles, group.quantiles_predicted, atol=0.3)
        assert group.quantiles_predicted[9] == pytest.approx(group.mean_predicted, abs=0.1)
