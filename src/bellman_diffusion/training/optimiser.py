"""One step of Adam on any loss of (model, key, batch), with a schedule and a running average.

`make_program` turns such a loss into the jitted chunk that `train` runs. The number of steps and of
rows are arguments of the compiled program, not part of it: a second run of the same shape compiles
nothing.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, Key, PyTree

# loss(model, average, key, data, n_rows) → the loss to minimise and figures to log. `average` is the
# running average of the model: slow enough to give targets for a model that learns from itself.
Loss = Callable[[Any, Any, Key[Array, ""], Any, Array], tuple[Array, dict[str, Array]]]


class TrainState(NamedTuple):
    """The trained arrays, their running average, and Adam's moments."""

    params: PyTree
    average: PyTree
    moments: PyTree


class Schedule(NamedTuple):
    """How the learning rate and the average move over a run."""

    learning_rate: float
    constant: bool = False
    warm_up: float = 0.05
    ema_decay: float = 0.998
    adam_b2: float = 0.99

    def rate(self, step: Int[Array, ""], n_steps: Int[Array, ""]) -> Float[Array, ""]:
        """Linear rise over the first `warm_up` of the run, then half a cosine to zero.

        With `constant` the same rate throughout.
        """
        if self.constant:
            return jnp.asarray(self.learning_rate)
        done = (step + 1) / n_steps
        falling = 0.5 * (1 + jnp.cos(jnp.pi * (done - self.warm_up) / (1 - self.warm_up)))
        return self.learning_rate * jnp.where(done < self.warm_up, done / self.warm_up, falling)

    def decay(self, step: Int[Array, ""]) -> Float[Array, ""]:
        """The average's memory, short at first so that it forgets the random start."""
        return jnp.minimum(self.ema_decay, (1 + step) / (10 + step))

    def transform(self) -> optax.GradientTransformation:
        """Adam without its rate, which depends on the length of the run."""
        return optax.scale_by_adam(b2=self.adam_b2)


def averaged(model: PyTree, state: TrainState) -> Any:
    """The model with the running average of its weights."""
    return eqx.combine(state.average, eqx.filter(model, eqx.is_inexact_array, inverse=True))


def init_state(model: PyTree, schedule: Schedule) -> TrainState:
    """The state before the first step."""
    params = eqx.filter(model, eqx.is_inexact_array)
    return TrainState(params, params, schedule.transform().init(params))


def make_program(
    model: PyTree, loss: Loss, schedule: Schedule, chunk_steps: int
) -> Callable[..., tuple[TrainState, dict[str, Array]]]:
    """A jitted chunk: program(state, step, n_steps, seed_key, data, n_rows).

    `model` gives the structure (activations, static settings); its arrays are taken from the state.
    """
    static = eqx.filter(model, eqx.is_inexact_array, inverse=True)
    transform = schedule.transform()

    def one_step(state: TrainState, step, n_steps, key, data, n_rows):
        def objective(params):
            model, average = (eqx.combine(p, static) for p in (params, state.average))
            return loss(model, average, jax.random.fold_in(key, step), data, n_rows)

        (value, figures), gradient = jax.value_and_grad(objective, has_aux=True)(state.params)
        updates, moments = transform.update(gradient, state.moments)
        rate = schedule.rate(step, n_steps)
        params = jax.tree.map(lambda p, u: p - rate * u, state.params, updates)
        average = optax.incremental_update(params, state.average, 1 - schedule.decay(step))
        return TrainState(params, average, moments), {"loss": value, **figures}

    # `state` is not donated: where a chunk diverges the caller still holds the last good one.
    @jax.jit
    def program(state: TrainState, step, n_steps, key, data, n_rows):
        def body(state, i):
            def go(state):
                return one_step(state, i, n_steps, key, data, n_rows)

            shapes = jax.eval_shape(go, state)[1]
            nothing = jax.tree.map(lambda a: jnp.full(a.shape, jnp.nan, a.dtype), shapes)
            return jax.lax.cond(i < n_steps, go, lambda state: (state, nothing), state)

        return jax.lax.scan(body, state, step + jnp.arange(chunk_steps))

    return program
