"""Training that ends with the weights that did best on other rows."""

import jax.numpy as jnp
import numpy as np
import pytest

from bellman_diffusion import BellmanDiffusion
from bellman_diffusion.training import TrainState, train_until_best


def counting(state, step, n_steps):
    """A program whose averaged weight is the step reached."""
    done = jnp.asarray(float(min(step + 10, n_steps)))
    figures = {"loss": jnp.full(10, 1.0)}
    return TrainState(done, done, state.moments), figures


@pytest.mark.parametrize(("best", "waited"), [(10, 20), (30, 30), (90, 50)])
def test_the_best_weights_are_kept(best, waited):
    start = TrainState(jnp.asarray(0.0), jnp.asarray(0.0), None)
    state, figures, steps = train_until_best(
        counting, start, 200, 10, lambda weights: (weights - best) ** 2
    )
    assert float(state.average) == best == steps
    # As long again as the best took, at least a tenth and at most a quarter of the plan, and it ends.
    assert float(state.params) == best + waited
    assert figures["loss/validation"] == waited**2


def test_it_ends_with_the_last_step_where_that_is_best():
    start = TrainState(jnp.asarray(0.0), jnp.asarray(0.0), None)
    _, _, steps = train_until_best(counting, start, 55, 10, lambda weights: -weights)
    assert steps == 55


@pytest.mark.quality
def test_few_rows_stop_a_fit_before_it_copies_them():
    rng = np.random.default_rng(0)
    x, other = rng.normal(size=(2, 40, 6))
    stopped = BellmanDiffusion(max_iter=1500, width=64, random_state=0).fit(x, validation=other)
    assert stopped.n_iter_ < 1500
    full = BellmanDiffusion(max_iter=1500, width=64, random_state=0).fit(x)
    fresh = rng.normal(size=(500, 6))

    def nearest(model):
        rows = model.sample(500, random_state=1, max_lost=1.0)
        return np.median(np.linalg.norm(rows[:, None] - x[None], axis=2).min(axis=1))

    real = np.median(np.linalg.norm(fresh[:, None] - x[None], axis=2).min(axis=1))
    # Rows of the same distribution are as far from the training rows as `real`; copies are not.
    assert nearest(full) < 0.6 * real
    assert nearest(stopped) > 0.75 * real
