"""Copying, where there are more rows to learn from than rows held out."""

import numpy as np
import pytest

from bellman_diffusion.metrics.privacy import closest_record_share, membership_auc
from bellman_diffusion.paper.table_evaluation import copying


def rows(n, seed):
    return np.random.default_rng(seed).normal(size=(n, 3))


@pytest.mark.parametrize(("n_known", "n_fresh"), [(2000, 200), (200, 2000), (500, 500)])
def test_a_model_that_copies_nothing_is_nearer_to_either_set_alike_whatever_their_sizes(
    n_known, n_fresh
):
    """Half; the standard error over 1,500 rows and the choice of 200 is about 0.02."""
    synthetic = rows(1500, 0)
    share = closest_record_share(synthetic, rows(n_known, 1), rows(n_fresh, 2))
    assert share == pytest.approx(0.5, abs=0.06)


@pytest.mark.parametrize("distinct", [True, False])
def test_the_tables_share_of_copies_is_half_without_copies_though_most_rows_are_learned_from(
    distinct,
):
    """Over ten choices of as many: the standard error is about 0.02, of the held-out rows alone."""
    share = copying(rows(1000, 0), rows(2000, 1), rows(250, 2), distinct=distinct)
    assert share == pytest.approx(0.5, abs=0.06)


def test_copies_are_found_in_the_share_that_the_choice_of_rows_leaves():
    """250 of 1,000 rows are chosen: a copy is certain for a quarter, a coin for the others."""
    known, fresh = rows(1000, 1), rows(250, 2)
    share = copying(known, known, fresh, distinct=True)
    assert share == pytest.approx(0.25 + 0.75 / 2, abs=0.06)


def test_doubled_rows_count_once_where_rows_are_measurements():
    """A held-out set with every row ten times over has as many places as one with each once."""
    known, fresh = rows(200, 1), rows(200, 2)
    ten = np.repeat(fresh, 10, axis=0)
    once = copying(rows(1000, 0), known, fresh, distinct=True)
    assert copying(rows(1000, 0), known, ten, distinct=True) == pytest.approx(once, abs=1e-9)


def test_membership_is_found_by_small_distances():
    """Three training rows on synthetic ones, two held out at distances 1 and 2: all pairs in order."""
    synthetic = np.array([[0.0], [10.0], [20.0]])
    assert membership_auc(synthetic, synthetic, np.array([[1.0], [22.0]])) == 1.0
    # Held-out rows on the synthetic ones, training rows away from them: all pairs out of order.
    assert membership_auc(synthetic, synthetic + 3.0, synthetic[:2]) == 0.0
