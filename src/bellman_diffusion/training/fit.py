"""From a random model and its loss to a trained one: the compiled programs of one shape of model."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bellman_diffusion.training.early_stopping import train_until_best
from bellman_diffusion.training.loop import train
from bellman_diffusion.training.optimiser import Loss, Schedule, averaged, init_state, make_program

# Points that the loss on validation rows is a mean over, rows being used again.
_VALIDATION_POINTS = 4096


class Fitted(NamedTuple):
    """A model with averaged weights, the last figures, and the steps that led to it."""

    model: Any
    figures: dict[str, float]
    steps: int


class Trainer(NamedTuple):
    """Programs to keep: a second fit of the same shape compiles nothing."""

    init: Callable[..., Any]
    """(key, *arguments) → a model with random weights."""
    program: Callable[..., Any]
    """`make_program`'s chunk."""
    validate: Callable[..., Float[Array, ""]]
    """(averaged weights, validation points, data, n_rows) → their loss."""
    schedule: Schedule
    chunk_steps: int

    @classmethod
    def compile(
        cls,
        init: Callable[..., Any],
        loss: Loss,
        schedule: Schedule,
        chunk_steps: int,
        *arguments: Any,
        validation_loss: Callable[..., Array] | None = None,
    ) -> "Trainer":
        """With examples of `init`'s arguments; validation_loss(model, points, data, n_rows)."""
        template = eqx.filter_eval_shape(init, jax.random.key(0), *arguments)
        static = eqx.filter(template, eqx.is_inexact_array, inverse=True)

        @jax.jit
        def validate(params, points, data, n_rows):
            assert validation_loss is not None
            return validation_loss(eqx.combine(params, static), points, data, n_rows)

        program = make_program(template, loss, schedule, chunk_steps)
        return cls(eqx.filter_jit(init), program, validate, schedule, chunk_steps)

    def fit(
        self,
        seed: int,
        n_steps: int,
        data: Any,
        n_rows: int,
        *arguments: Any,
        validation: Float[np.ndarray, "n dim"] | None = None,
        **options: Any,
    ) -> Fitted:
        """Train from random weights; with validation rows, up to the step that suits them best.

        `arguments` are `init`'s, `options` those of `train`.
        """
        key_init, key_steps = jax.random.split(jax.random.key(seed))
        model = self.init(key_init, *arguments)

        def chunk(state, step, n_steps):
            return self.program(state, step, n_steps, key_steps, data, n_rows)

        state = init_state(model, self.schedule)
        if validation is None:
            state, figures = train(chunk, state, n_steps, self.chunk_steps, **options)
            return Fitted(averaged(model, state), figures, n_steps)
        rows = np.resize(validation, (_VALIDATION_POINTS, validation.shape[1]))
        points = jnp.asarray(rows, jnp.float32)
        state, figures, best = train_until_best(
            chunk,
            state,
            n_steps,
            self.chunk_steps,
            lambda params: self.validate(params, points, data, n_rows),
            **options,
        )
        return Fitted(averaged(model, state), figures, best)
