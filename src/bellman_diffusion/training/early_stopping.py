"""Stopping by validation rows: training that ends with the weights that did best on them.

The averaged weights are evaluated after each chunk; the best so far are part of the state, so a
run that was stopped and resumed ends the same.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from bellman_diffusion.training.loop import train
from bellman_diffusion.training.optimiser import TrainState

# Without a better loss training goes on for as long again as the best took, between these shares of the
# planned steps.
_LEAST_PATIENCE, _MOST_PATIENCE = 0.1, 0.25


class WatchedState(NamedTuple):
    """A training state, and the averaged weights that did best on the validation rows."""

    state: TrainState
    best: PyTree
    loss: Float[Array, ""]
    """Of the best weights, on the validation rows."""
    best_step: Int[Array, ""]
    """When they were found."""
    step: Int[Array, ""]
    """How far training is."""


def train_until_best(
    program: Callable[[TrainState, int, int], tuple[TrainState, dict[str, Array]]],
    state: TrainState,
    n_steps: int,
    chunk_steps: int,
    validation_loss: Callable[[PyTree], Float[Array, ""]],
    **options: Any,
) -> tuple[TrainState, dict[str, float], int]:
    """As `train`, with the best weights as the state's average, and the step they are of."""

    def watched(before: WatchedState, step: int, n_steps: int):
        new, figures = program(before.state, step, n_steps)
        loss = validation_loss(new.average)
        done = jnp.asarray(min(step + chunk_steps, n_steps))
        better = loss < before.loss
        best, best_loss, best_step = jax.tree.map(
            lambda new, old: jnp.where(better, new, old),
            (new.average, loss, done),
            (before.best, before.loss, before.best_step),
        )
        figures = figures | {"loss/validation": jnp.broadcast_to(loss, figures["loss"].shape)}
        return WatchedState(new, best, best_loss, best_step, done), figures

    zero = jnp.asarray(0)
    last, figures = train(
        watched,
        WatchedState(state, state.average, jnp.asarray(jnp.inf), zero, zero),
        n_steps,
        chunk_steps,
        enough=lambda s: int(s.step) - int(s.best_step) >= _patience(s, n_steps, chunk_steps),
        **options,
    )
    return last.state._replace(average=last.best), figures, int(last.best_step)


def _patience(state: WatchedState, n_steps: int, chunk_steps: int) -> float:
    share = np.clip(int(state.best_step) / n_steps, _LEAST_PATIENCE, _MOST_PATIENCE)
    return max(chunk_steps, share * n_steps)
