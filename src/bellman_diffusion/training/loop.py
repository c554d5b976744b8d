"""Run a jitted chunk of steps again and again; everything that trains uses this.

A chunk's randomness depends on the step number and the seed alone, and a checkpoint holds the whole
state, so a run that was stopped and resumed ends bit for bit like one that was not.
"""

import time
from collections.abc import Callable
from typing import TypeVar

import jax
import numpy as np
from jaxtyping import Array, Float

from bellman_diffusion.errors import TrainingDivergedError
from bellman_diffusion.training.interrupt import stop_between_chunks
from bellman_diffusion.training.progress import NoProgress, Progress
from bellman_diffusion.training.run import RunFolder

State = TypeVar("State")
# (state, first step, last step) → state and, per step of the chunk, figures that include "loss".
# Steps at or past `last step` change nothing and report NaN.
Program = Callable[[State, int, int], tuple[State, dict[str, Float[Array, " chunk"]]]]


def train(
    program: Program[State],
    state: State,
    n_steps: int,
    chunk_steps: int,
    *,
    run: RunFolder | None = None,
    progress: Progress | None = None,
    checkpoint_seconds: float = 10.0,
    advice: str = "Lower the learning rate.",
    enough: Callable[[State], bool] = lambda _: False,
) -> tuple[State, dict[str, float]]:
    """Train from `state`, or from the run's checkpoint, up to `n_steps` or until it is `enough`.

    Returns the state and the last chunk's mean figures. A loss that is not finite stops the run with
    the last good checkpoint kept.
    """
    step: int = 0
    figures: dict[str, float] = {}
    if run is not None:
        state, step = run.restore(state)
        figures = run.open(step)
    last_save = time.monotonic()
    try:
        with progress or NoProgress() as bar, stop_between_chunks() as stop:
            while step < n_steps and not enough(state):
                new_state, history = program(state, step, n_steps)
                done = min(step + chunk_steps, n_steps)
                history = {k: np.asarray(v)[: done - step] for k, v in history.items()}
                _check_finite(history["loss"], step, run, advice)
                figures = {name: float(np.mean(values)) for name, values in history.items()}
                if run is not None:
                    # Logged first: a row beyond the saved step is dropped at a resume, one that is
                    # missing would stay so.
                    run.log(done, figures)
                # From here on `state` is good up to `step`, and what an interrupt saves.
                state, step = new_state, done
                bar.update(step, n_steps, figures)
                stop.check()
                if run is not None and time.monotonic() - last_save >= checkpoint_seconds:
                    run.save(step, state)
                    last_save = time.monotonic()
    finally:
        # Also on Ctrl-C and on divergence: the last good state is what a resume goes on from.
        if run is not None:
            run.close()
            run.save(step, state)
    return jax.block_until_ready(state), figures


def _check_finite(
    loss: Float[np.ndarray, " steps"], step: int, run: RunFolder | None, advice: str
) -> None:
    bad = np.flatnonzero(~np.isfinite(loss))
    if not bad.size:
        return
    kept = "" if run is None else f" The last good state is kept in {run.checkpoint_path}."
    raise TrainingDivergedError(
        f"the loss is not finite at step {step + int(bad[0]) + 1}.{kept} {advice}"
    )
