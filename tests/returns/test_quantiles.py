"""Exact planning on quantiles, against quantiles computed by hand."""

import numpy as np
import pytest

from bellman_diffusion.returns.mdp import FiniteMDP
from bellman_diffusion.returns.quantiles import quantile_dynamic_programming


def chain_of(table):
    mdp = FiniteMDP.from_table([[row] for row in table])
    return mdp.under(np.ones((mdp.n_states, 1)))


def test_a_step_that_ends_has_the_quantiles_of_its_rewards():
    """Levels 1/8, 3/8, 5/8, 7/8 of 0 (30 %), 1 (40 %), 5 (30 %)."""
    chain = chain_of([[(0.3, 0, 0.0, True), (0.4, 0, 1.0, True), (0.3, 0, 5.0, True)]])
    np.testing.assert_allclose(quantile_dynamic_programming(chain, 0.9, 4), [[0, 1, 1, 5]])


def test_two_steps_are_backed_up_with_the_discount():
    chain = chain_of([[(1.0, 1, 2.0, False)], [(0.5, 1, 0.0, True), (0.5, 1, 4.0, True)]])
    np.testing.assert_allclose(
        quantile_dynamic_programming(chain, 0.5, 2), [[2, 4], [0, 4]], atol=1e-8
    )


def test_the_median_of_a_coin_tossed_for_ever_is_its_own_fixed_point():
    """One quantile m = median of {m/2, 1 + m/2}: the lower one, so 0."""
    chain = chain_of([[(0.5, 0, 0.0, False), (0.5, 0, 1.0, False)]])
    assert quantile_dynamic_programming(chain, 0.5, 1)[0, 0] == pytest.approx(0, abs=1e-8)
    many = quantile_dynamic_programming(chain, 0.5, 101)[0]
    # The return is uniform on (0, 2).
    assert np.abs(many - 2 * (np.arange(101) + 0.5) / 101).max() < 0.03
