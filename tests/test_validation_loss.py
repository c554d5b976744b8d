"""The loss on validation rows: of each point on its own, by the weights that are kept."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bellman_diffusion.matching.denoising import DenoisingMatching
from bellman_diffusion.matching.kernels import SlicedKernel
from bellman_diffusion.model import fit_field
from bellman_diffusion.recipe import Recipe
from bellman_diffusion.training.progress import NoProgress

RECIPE = Recipe(
    width=16, depth=1, max_iter=50, batch_size=64, group_size=64, n_references=64, sigma_min=0.1
)
ROWS, OTHERS = np.random.default_rng(0).normal(size=(2, 200, 2)).astype(np.float32)


def plain_denoising_loss(field, points, rows, group_size=1):
    """By draws of our own: 20,000 noisy points, each with its own noise alone as target."""
    c = RECIPE
    kernel = SlicedKernel(c.slice_distribution, c.unit_slices)
    loss = DenoisingMatching(
        kernel, c.epsilon, c.kernel_growth, c.sigma_min, c.sigma_max, group_size, c.n_slices
    )
    rng = np.random.default_rng(5)
    x1, x2 = points[rng.integers(0, len(points), 20_000)], rows[rng.integers(0, len(rows), 64)]
    losses = jax.jit(lambda key: loss(field, key, jnp.asarray(x1), jnp.asarray(x2)))(
        jax.random.key(9)
    )
    return float(losses.gradient + losses.scalar)


@pytest.mark.parametrize("n_points", [10, 200])
def test_validation_rows_are_judged_each_by_its_own_noise(n_points):
    """Within 8 %. With a group's clean points known, few rows would look easy."""
    points = OTHERS[:n_points]
    fitted = fit_field(RECIPE, ROWS, 0, validation=points)
    wanted = plain_denoising_loss(fitted.model, points, ROWS)
    assert fitted.figures["loss/validation"] == pytest.approx(wanted, rel=0.08)
    # The group's posterior would say something clearly else.
    other = plain_denoising_loss(fitted.model, points, ROWS, group_size=64)
    assert abs(other - wanted) > 0.2 * wanted


class Losses(NoProgress):
    """The validation loss after each chunk."""

    def __init__(self):
        self.found = {}

    def update(self, step, n_steps, metrics):
        self.found[step] = metrics["loss/validation"]


def test_the_field_that_is_kept_is_that_of_the_least_validation_loss():
    recipe = Recipe(**(vars(RECIPE) | {"max_iter": 300, "learning_rate": 0.02}))
    losses = Losses()
    fitted = fit_field(recipe, ROWS[:8], 0, validation=OTHERS, progress=losses)
    best = min(losses.found, key=losses.found.get)
    assert fitted.steps == best
    wanted = plain_denoising_loss(fitted.model, OTHERS, ROWS[:8])
    assert losses.found[best] == pytest.approx(wanted, rel=0.08)
