"""Train the agents of many seeds: as one pure function, or in chunks that log and resume."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import msgspec
import numpy as np
from jaxtyping import Array, Float

from bellman_diffusion.agents.config import AgentConfig
from bellman_diffusion.agents.devices import SeedGrid
from bellman_diffusion.agents.host_program import HostProgram
from bellman_diffusion.agents.jax_program import JaxProgram, evaluation_key
from bellman_diffusion.agents.learner import LearnerState
from bellman_diffusion.agents.make import make_jax_learner, make_learner
from bellman_diffusion.agents.replay import RandomKey
from bellman_diffusion.environments import EnvSpec
from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.training import Progress, RunFolder, train

# A checkpoint holds the replay, which may be large.
_CHECKPOINT_SECONDS = 60.0


class SeedSummary(msgspec.Struct, frozen=True):
    """How one seed did."""

    seed: int
    greedy_return: float
    first_solved_step: int | None


@dataclass(frozen=True)
class Training:
    """What a training gave."""

    config: AgentConfig
    spec: EnvSpec
    seeds: tuple[int, ...]
    state: LearnerState
    """Of every seed, along the first axis."""
    steps: np.ndarray
    """When the agents were evaluated."""
    returns: Float[np.ndarray, "times seeds"]
    """Mean returns of greedy episodes then."""
    steps_per_second: float
    """Environment steps of all seeds together, compilation apart, evaluations included."""
    compile_seconds: float

    def over(self, seeds: Sequence[int], returns: np.ndarray) -> "Training":
        """The same with the evaluations of other processes' seeds too."""
        return replace(self, seeds=tuple(seeds), returns=returns)

    def summary(self) -> list[SeedSummary]:
        """For each seed the last evaluation, and when it had first solved the environment."""
        threshold = self.spec.solved_at
        rows = []
        for i, seed in enumerate(self.seeds):
            values = self.returns[:, i]
            solved = np.flatnonzero(values >= threshold) if threshold is not None else []
            first = int(self.steps[solved[0]]) if len(solved) else None
            rows.append(SeedSummary(seed, float(values[-1]), first))
        return rows


def make_train(
    config: AgentConfig,
) -> Callable[[RandomKey], tuple[LearnerState, Float[Array, "times episodes"]]]:
    """train(key) → (the final state, the greedy returns of each evaluation): pure, for jit and vmap."""
    whole = make_jax_learner(config)

    def train_one(key: RandomKey) -> tuple[LearnerState, Array]:
        def one(state: LearnerState, chunk: Array) -> tuple[LearnerState, Array]:
            first = chunk * config.rounds_per_chunk
            state, _ = whole.chunk(key, state, first)
            return state, whole.evaluate(evaluation_key(key, first), state)

        chunks = jnp.arange(config.steps // config.eval_every)
        return jax.lax.scan(one, whole.init(key), chunks)

    return train_one


def train_agents(
    config: AgentConfig,
    seeds: Sequence[int],
    *,
    run: RunFolder | None = None,
    progress: Progress | None = None,
    devices: Sequence[Any] | None = None,
) -> Training:
    """Train one agent for each seed; with a run folder the training can be stopped and resumed."""
    if len(set(seeds)) < len(seeds) or not seeds:
        raise InvalidInputError(f"seeds {list(seeds)}: give different ones, at least one")
    _, environment = make_learner(config)
    if environment.jitted is not None:
        program = JaxProgram(config, SeedGrid(seeds, devices))
    else:
        program = HostProgram(config, tuple(seeds))
    history: list[np.ndarray] = []
    times: list[float] = []

    def chunk(state: LearnerState, step: int, n_steps: int) -> tuple[LearnerState, dict[str, Any]]:
        start = time.perf_counter()
        state, figures, returns = program.chunk(state, step)
        times.append(time.perf_counter() - start)
        history.append(returns)
        return state, _logged(figures, returns, seeds)

    state, compile_seconds = program.start()
    state, _ = train(
        chunk,
        state,
        config.steps,
        config.eval_every,
        run=run,
        progress=progress,
        checkpoint_seconds=_CHECKPOINT_SECONDS,
        advice="Lower learning_rate.",
    )
    program.close()
    if run is not None:
        # With those from before a resume.
        history = [np.array([row[f"return/seed {s}"] for s in seeds]) for row in run.rows()]
    returns = np.array(history)
    steps = config.eval_every * np.arange(1, len(history) + 1)
    done = sum(times)
    n_steps = len(times) * config.eval_every * len(seeds)
    return Training(
        config=config,
        spec=environment.spec,
        seeds=tuple(seeds),
        state=program.finish(state),
        steps=steps,
        returns=returns,
        steps_per_second=n_steps / done if done else 0.0,
        compile_seconds=compile_seconds,
    )


def _logged(
    figures: dict[str, np.ndarray], returns: np.ndarray, seeds: Sequence[int]
) -> dict[str, np.ndarray]:
    """Means over seeds, and each seed's return."""
    # Seeds that saw no episode end have no figure.
    logged = {
        name: np.array([np.nanmean(values)])
        for name, values in figures.items()
        if np.isfinite(values).any()
    }
    # A seed that diverged must not hide behind the others.
    logged["loss"] = np.array([np.mean(figures["loss"])])
    per_seed = {f"return/seed {s}": np.array([r]) for s, r in zip(seeds, returns, strict=True)}
    return logged | {"return": np.array([returns.mean()])} | per_seed
