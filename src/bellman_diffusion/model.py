"""From a recipe and standardised data to fields, and from fields to samples."""

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from bellman_diffusion.dynamics import (
    AbstractDynamics,
    Annealed,
    Conditioned,
    EulerMaruyama,
    Langevin,
    Metropolis,
)
from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.fields import (
    AbstractField,
    AbstractNoiseField,
    ConservativeField,
    NetworkPair,
    NoiseConditionalPair,
)
from bellman_diffusion.matching import (
    AbstractKernel,
    AbstractObjective,
    DenoisingMatching,
    ExactTrace,
    FieldMatching,
    IsotropicKernel,
    SlicedKernel,
    SlicedTrace,
)
from bellman_diffusion.recipe import Recipe
from bellman_diffusion.training import Fitted, Progress, RunFolder, Trainer
from bellman_diffusion.training.checkpoint import Header
from bellman_diffusion.training.optimiser import Schedule

CHUNK_STEPS = 50
Field = AbstractField | AbstractNoiseField


def build_kernel(recipe: Recipe) -> AbstractKernel:
    """The kernel κ."""
    if recipe.kernel == "isotropic":
        return IsotropicKernel()
    return SlicedKernel(recipe.slice_distribution, recipe.unit_slices)


def build_objective(recipe: Recipe) -> AbstractObjective:
    """The loss."""
    if recipe.objective == "denoising":
        return _denoising(recipe)
    exact = recipe.objective == "exact-trace"
    trace = ExactTrace() if exact else SlicedTrace(recipe.slice_distribution)
    return FieldMatching(
        build_kernel(recipe), trace, recipe.epsilon, recipe.pairs, recipe.n_slices, recipe.jitter
    )


def build_field(recipe: Recipe, covariance: Float[Array, "dim dim"], key: Key[Array, ""]) -> Field:
    """Fields with random weights, for data of that covariance."""
    dim = covariance.shape[0]
    if recipe.field == "pair":
        return NetworkPair.create(key, dim, recipe.width, recipe.depth)
    if recipe.field == "conservative":
        return ConservativeField.create(key, dim, recipe.width, recipe.depth)
    return NoiseConditionalPair.create(
        key,
        covariance,
        _denoising(recipe).scale(dim),
        sigma_min=recipe.sigma_min,
        sigma_max=recipe.sigma_max,
        width=recipe.width,
        depth=recipe.depth,
        n_frequencies=recipe.n_frequencies,
        fourier_features=recipe.fourier_features,
    )


def build_dynamics(recipe: Recipe, field: Field) -> AbstractDynamics:
    """The sampler."""
    if isinstance(field, NoiseConditionalPair):
        return Annealed(field=field, scale=field.scale, **_levels(recipe))
    assert isinstance(field, AbstractField)
    kinds = {"euler": EulerMaruyama, "metropolis": Metropolis, "langevin": Langevin}
    kind = kinds[recipe.dynamics]
    return kind(field=field, step_size=recipe.step_size, n_steps=recipe.n_steps)


def build_conditioned(recipe: Recipe, field: Field) -> Conditioned:
    """The sampler of some columns given the others."""
    if not isinstance(field, NoiseConditionalPair):
        raise InvalidInputError(
            "rows are completed by annealed dynamics: use the 'default' preset, or draw samples and "
            "keep those that fit"
        )
    return Conditioned(field=field, **_levels(recipe))


def _levels(recipe: Recipe) -> dict[str, Any]:
    steps = {"n_steps": recipe.n_steps, "n_corrections": recipe.n_corrections}
    return steps | {"step_factor": recipe.step_size}


def scalar_is_density(recipe: Recipe, dim: int) -> bool:
    """Whether s is the data's density smoothed by the kernel."""
    if recipe.kernel == "isotropic":
        return True
    # In one dimension a direction of length 1 is ±1, and the projection is x itself.
    return dim == 1 and recipe.slice_distribution != "gaussian"


class ModelHeader(Header, frozen=True, kw_only=True):
    """A fitted model but for its fields."""

    recipe: Recipe
    random_state: int | None
    columns: int
    names: list[str] | None
    mean: list[float]
    scale: list[float]
    box: tuple[list[float], list[float]]
    covariance: list[list[float]]
    frame: bool
    """Whether it was fitted to a data frame."""
    loss: float
    steps: int

    def structure(self) -> Field:
        """Fields of the saved structure, to be filled with the saved arrays."""
        covariance = jnp.eye(self.columns)
        return eqx.filter_eval_shape(build_field, self.recipe, covariance, jax.random.key(0))


def covariance_of(data: Float[np.ndarray, "rows dim"]) -> Float[np.ndarray, "dim dim"]:
    """Of the columns."""
    return np.atleast_2d(np.cov(data, rowvar=False, bias=True)).astype(np.float32)


def fit_field(
    recipe: Recipe,
    data: Float[np.ndarray, "rows dim"],
    seed: int,
    *,
    validation: Float[np.ndarray, "others dim"] | None = None,
    run: RunFolder | None = None,
    progress: Progress | None = None,
) -> Fitted:
    """Train fields on standardised rows; with validation rows, up to the step that suits them best."""
    padded, n_rows = _pad(data)
    return _compile(_shape_of(recipe), data.shape[1]).fit(
        seed,
        recipe.max_iter,
        padded,
        n_rows,
        jnp.asarray(covariance_of(data)),
        validation=validation,
        run=run,
        progress=progress,
        advice=_advice(recipe),
    )


@lru_cache(maxsize=64)
def _compile(recipe: Recipe, dim: int) -> Trainer:
    """The programs of one shape of model, kept so that a second fit compiles nothing."""
    objective = build_objective(recipe)
    n_second = _second(recipe, recipe.batch_size)
    # Clean points beyond the batch are only looked up.
    n_clean = recipe.group_size if recipe.objective == "denoising" else 1
    n_first = max(recipe.batch_size, n_clean)

    def loss(field, _average, key, data, n_rows):
        key_1, key_2, key_loss = jax.random.split(key, 3)
        x1 = data[jax.random.randint(key_1, (n_first,), 0, n_rows)]
        x2 = data[jax.random.randint(key_2, (n_second,), 0, n_rows)]
        losses = objective(field, key_loss, x1, x2)
        figures = {"loss/gradient": losses.gradient, "loss/scalar": losses.scalar}
        return losses.gradient + losses.scalar, figures

    # Each point on its own: with a group's clean points known, few rows would look easy.
    alone = build_objective(replace(recipe, group_size=1))

    def validation_loss(field, points, data, n_rows):
        # The same key each time, so that differences are those of the weights.
        key_2, key_loss = jax.random.split(jax.random.key(0))
        x2 = data[jax.random.randint(key_2, (_second(recipe, len(points)),), 0, n_rows)]
        losses = alone(field, key_loss, points, x2)
        return losses.gradient + losses.scalar

    return Trainer.compile(
        lambda key, covariance: build_field(recipe, covariance, key),
        loss,
        _schedule(recipe),
        CHUNK_STEPS,
        jnp.eye(dim),
        validation_loss=validation_loss,
    )


def _second(recipe: Recipe, n_first: int) -> int:
    """How many second points there are to so many first ones."""
    return n_first if recipe.pairs == "matched" else recipe.n_references


def _shape_of(recipe: Recipe) -> Recipe:
    """The recipe with everything that the training program does not depend on set to one value."""
    dynamics = "annealed" if recipe.field == "noise-conditional" else "euler"
    sampler = {"dynamics": dynamics, "n_steps": 1, "step_size": 1.0, "n_corrections": 1}
    return replace(recipe, max_iter=1, **sampler)


def _denoising(recipe: Recipe) -> DenoisingMatching:
    return DenoisingMatching(
        build_kernel(recipe),
        recipe.epsilon,
        recipe.kernel_growth,
        recipe.sigma_min,
        recipe.sigma_max,
        recipe.group_size,
        recipe.n_slices,
        recipe.batch_size if recipe.group_size > recipe.batch_size else None,
    )


def _schedule(recipe: Recipe) -> Schedule:
    return Schedule(recipe.learning_rate, recipe.constant_rate, ema_decay=recipe.ema_decay)


def _pad(data: Float[np.ndarray, "rows dim"]) -> tuple[Float[Array, "capacity dim"], int]:
    """Rows up to the next power of two, so that tables of about one size share a program."""
    rows = len(data)
    capacity = max(256, 2 ** math.ceil(math.log2(rows)))
    padded = np.zeros((capacity, data.shape[1]), np.float32)
    padded[:rows] = data
    return jnp.asarray(padded), rows


def _advice(recipe: Recipe) -> str:
    advice = f"Lower learning_rate (now {recipe.learning_rate:g})"
    if recipe.objective != "denoising":
        advice += (
            f", raise epsilon (now {recipe.epsilon:g}) or jitter (now {recipe.jitter:g}), or use the "
            "'default' preset, whose loss is bounded below"
        )
    return advice + "."
