"""Chunks of the jitted learner for all seeds, compiled once for a configuration."""

import time
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from bellman_diffusion.agents.config import AgentConfig
from bellman_diffusion.agents.devices import SeedGrid
from bellman_diffusion.agents.learner import LearnerState, Streams
from bellman_diffusion.agents.make import make_jax_learner
from bellman_diffusion.agents.replay import RandomKey


def evaluation_key(key: RandomKey, first_round: Array) -> RandomKey:
    """The randomness of the evaluation after the chunk that starts with this round."""
    return jax.random.fold_in(Streams.of(key).evaluation, first_round)


class JaxProgram:
    """The program of some seeds; another one of the same shape compiles nothing."""

    def __init__(self, config: AgentConfig, grid: SeedGrid) -> None:
        self._config, self._grid = config, grid
        self._keys = grid.keys()
        self._compiled: Any = None

    def start(self) -> tuple[LearnerState, float]:
        """The first state, and how long compiling took."""
        start = time.perf_counter()
        self._compiled = _compile(self._config, len(self._grid.seeds), tuple(self._grid.devices))
        state = self._grid.own(self._compiled[0](self._keys))
        return state, time.perf_counter() - start

    def chunk(
        self, state: LearnerState, step: int
    ) -> tuple[LearnerState, dict[str, np.ndarray], np.ndarray]:
        """The next state, figures of each seed, and each seed's mean greedy return."""
        first = jnp.asarray(step // self._config.steps_per_round, jnp.int32)
        _, chunk, evaluate = self._compiled
        # After a restore the arrays come from the host, and a checkpoint knows nothing of devices.
        state, figures = chunk(self._keys, self._grid.place(state), first)
        returns = evaluate(self._keys, state, first)
        results = self._grid.results
        figures = {k: results(v) for k, v in figures.items()}
        return self._grid.own(state), figures, results(returns).mean(axis=1)

    def finish(self, state: LearnerState) -> LearnerState:
        """On the host's own device."""
        return jax.tree.map(lambda a: jnp.asarray(np.asarray(a)), state)

    def close(self) -> None:
        """Nothing to close."""


@lru_cache(maxsize=8)
def _compile(config: AgentConfig, n_seeds: int, devices: tuple[Any, ...]) -> tuple[Any, Any, Any]:
    whole = make_jax_learner(config)
    grid = SeedGrid(range(n_seeds), devices)

    def evaluate(key: Array, state: LearnerState, first: Array) -> Array:
        return whole.evaluate(evaluation_key(key, first), state)

    keys, first = grid.keys(), jnp.zeros((), jnp.int32)
    init = grid.over_seeds(whole.init).lower(keys).compile()
    state = init(keys)
    chunk, evaluation = (
        grid.over_seeds(f, shared=1).lower(keys, state, first).compile()
        for f in (whole.chunk, evaluate)
    )
    return init, chunk, evaluation
