"""From a recipe and standardised data to fields, and from fields to samples."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from bellman_diffusion.dynamics import (
    AbstractDynamics,
    Annealed,
    EulerMaruyama,
    Langevin,
    Metropolis,
)
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
from bellman_diffusion.training import (
    Progress,
    RunFolder,
    averaged,
    init_state,
    make_program,
    train,
)
from bellman_diffusion.training.optimiser import Schedule

CHUNK_STEPS = 200
Field = AbstractField | AbstractNoiseField


def build_kernel(recipe: Recipe) -> AbstractKernel:
    """The kernel κ."""
    if recipe.kernel == "isotropic":
        return IsotropicKernel()
    return SlicedKernel(recipe.slice_law, recipe.unit_slices)


def build_objective(recipe: Recipe) -> AbstractObjective:
    """The loss."""
    if recipe.objective == "denoising":
        return _denoising(recipe)
    trace = ExactTrace() if recipe.objective == "exact-trace" else SlicedTrace(recipe.slice_law)
    return FieldMatching(build_kernel(recipe), trace, recipe.epsilon, recipe.pairs, recipe.n_slices)


def build_field(recipe: Recipe, dim: int, key: Key[Array, ""]) -> Field:
    """Fields with random weights."""
    if recipe.field == "pair":
        return NetworkPair.create(key, dim, recipe.width, recipe.depth)
    if recipe.field == "conservative":
        return ConservativeField.create(key, dim, recipe.width, recipe.depth)
    return NoiseConditionalPair.create(
        key,
        dim,
        _denoising(recipe).scale(dim),
        sigma_min=recipe.sigma_min,
        sigma_max=recipe.sigma_max,
        width=recipe.width,
        depth=recipe.depth,
        n_frequencies=recipe.n_frequencies,
    )


def build_dynamics(recipe: Recipe, field: Field) -> AbstractDynamics:
    """The sampler."""
    if isinstance(field, NoiseConditionalPair):
        return Annealed(
            field=field,
            scale=field.scale,
            n_steps=recipe.n_steps,
            n_corrections=recipe.n_corrections,
            step_factor=recipe.step_size,
        )
    assert isinstance(field, AbstractField)
    kinds = {"euler": EulerMaruyama, "metropolis": Metropolis, "langevin": Langevin}
    kind = kinds[recipe.dynamics]
    return kind(field=field, step_size=recipe.step_size, n_steps=recipe.n_steps)


def scalar_is_density(recipe: Recipe, dim: int) -> bool:
    """Whether s is the data's density smoothed by the kernel."""
    if recipe.kernel == "isotropic":
        return True
    # In one dimension a direction of length 1 is ±1, and the projection is x itself.
    return dim == 1 and recipe.slice_law != "gaussian"


def fit_field(
    recipe: Recipe,
    data: Float[np.ndarray, "rows dim"],
    seed: int,
    *,
    run: RunFolder | None = None,
    progress: Progress | None = None,
) -> tuple[Field, dict[str, float]]:
    """Train fields on standardised rows; the fields with averaged weights, and the last figures."""
    compiled = _compile(_shape_of(recipe), data.shape[1])
    key_init, key_steps = jax.random.split(jax.random.key(seed))
    field = compiled.init(key_init)
    padded, n_rows = _pad(data)

    def program(state, step, n_steps):
        return compiled.program(state, step, n_steps, key_steps, padded, n_rows)

    state, figures = train(
        program,
        init_state(field, _schedule(recipe)),
        recipe.max_iter,
        CHUNK_STEPS,
        run=run,
        progress=progress,
        advice=_advice(recipe),
    )
    return averaged(field, state), figures


class _Compiled(NamedTuple):
    init: Callable[[Key[Array, ""]], Field]
    program: Callable[..., Any]


@lru_cache(maxsize=64)
def _compile(recipe: Recipe, dim: int) -> _Compiled:
    """The programs of one shape of model, kept so that a second fit compiles nothing."""
    init = eqx.filter_jit(lambda key: build_field(recipe, dim, key))
    objective = build_objective(recipe)
    n_second = recipe.batch_size if recipe.pairs == "matched" else recipe.n_references

    def loss(field, _average, key, data, n_rows):
        key_1, key_2, key_loss = jax.random.split(key, 3)
        x1 = data[jax.random.randint(key_1, (recipe.batch_size,), 0, n_rows)]
        x2 = data[jax.random.randint(key_2, (n_second,), 0, n_rows)]
        losses = objective(field, key_loss, x1, x2)
        figures = {"loss/gradient": losses.gradient, "loss/scalar": losses.scalar}
        return losses.gradient + losses.scalar, figures

    template = eqx.filter_eval_shape(init, jax.random.key(0))
    return _Compiled(init, make_program(template, loss, _schedule(recipe), CHUNK_STEPS))


def _shape_of(recipe: Recipe) -> Recipe:
    """The recipe with everything that the training program does not depend on set to one value."""
    return replace(recipe, max_iter=1, dynamics="euler", n_steps=1, step_size=1.0, n_corrections=1)


def _denoising(recipe: Recipe) -> DenoisingMatching:
    return DenoisingMatching(
        build_kernel(recipe),
        recipe.epsilon,
        recipe.kernel_growth,
        recipe.sigma_min,
        recipe.sigma_max,
        recipe.group_size,
    )


def _schedule(recipe: Recipe) -> Schedule:
    return Schedule(recipe.learning_rate, recipe.constant_rate, average_decay=recipe.average_decay)


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
            f", raise epsilon (now {recipe.epsilon:g}), or use the 'default' preset, "
            "whose loss is bounded below"
        )
    return advice + "."
