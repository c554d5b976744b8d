"""Theorems 4.1 and 4.2 on a grid, against closed forms."""

import numpy as np
import pytest
from scipy.stats import norm

from bellman_diffusion.paper.experiment import Options
from bellman_diffusion.paper.experiments import convergence
from bellman_diffusion.paper.experiments.convergence import TARGETS, measure_errors, measure_rates
from bellman_diffusion.paper.fokker_planck import FokkerPlanck
from tests.paper.helpers import report_of, workplace


def test_the_gap_of_a_uniform_law():
    """dx = √p dw on [0, L] with p = 1/L: cosines die at the rates (kπ/L)²/2L."""
    length = 2.0
    flat = FokkerPlanck(np.zeros_like, lambda x: np.full_like(x, 1 / length), 0.0, length, 200)
    assert flat.gap() == pytest.approx((np.pi / length) ** 2 / (2 * length), rel=1e-3)


def test_brownian_motion_spreads():
    """s = 1, g = 0 far from the ends: variance grows by t."""
    free = FokkerPlanck(np.zeros_like, np.ones_like, -10.0, 10.0, 400)
    distribution = free.run(norm.pdf(free.x, 0, 0.5), np.array([0.5, 2.0]))[-1]
    assert np.sum(distribution * free.x**2) * free.width == pytest.approx(0.25 + 2.0, rel=1e-3)


@pytest.mark.parametrize("name", TARGETS)
def test_the_target_is_at_rest(name):
    """With exact fields the flux of p is zero; what is left is the grid's error."""
    target = TARGETS[name]
    dynamics = FokkerPlanck(target.gradient, target.density, target.low, target.high, 300)
    p = target.density(dynamics.x)
    moved = dynamics.run(p, np.array([5.0]))[0]
    assert np.max(np.abs(moved - p / (p.sum() * dynamics.width))) < 2e-3 * p.max()


def test_w2_of_a_shift():
    grid = FokkerPlanck(np.zeros_like, np.ones_like, -10.0, 10.0, 400)
    a, b = norm.pdf(grid.x, -1, 1), norm.pdf(grid.x, 1.5, 1)
    assert grid.wasserstein_2(a, b) == pytest.approx(2.5, rel=1e-3)


def test_rates_stay_where_the_density_does_not_vanish_and_die_where_it_does():
    wave, normal = measure_rates(TARGETS["wave"]), measure_rates(TARGETS["normal"])
    assert wave.rate_end == pytest.approx(2 * wave.gap, rel=0.1)
    assert normal.rate_end < 0.1 * normal.rate_halved


def test_w2_falls_with_the_error_of_the_fields():
    rows = measure_errors(TARGETS["wave"]).rows
    last = [row.w2[-1] for row in rows]
    assert last == sorted(last)
    assert last[0] < 1e-3


def test_the_report_says_which_targets_are_forgotten(tmp_path):
    summary = convergence.run(Options(), workplace(tmp_path))
    text = convergence.sections(summary, tmp_path / "figures")[0].text
    assert text.index("uniform") < text.index("It does not for") < text.index("standard normal")
    assert "Theorem 4.2" in report_of("convergence", summary, tmp_path)
