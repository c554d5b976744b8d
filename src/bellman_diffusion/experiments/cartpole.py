"""Section 5.3, cart-pole: is Bellman Diffusion faster and steadier than C51?

Two comparisons of the same algorithms on the same learner:

- `plain`: one-step targets, a hard target, a small replay, one update in ten steps (CleanRL's C51
  settings for a run of 100,000 steps); only what belongs to the return model differs.
- `best`: each algorithm with the settings that were best on other seeds.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from bellman_diffusion.agents.config import AgentConfig
from bellman_diffusion.agents.environments import JaxEnvironment
from bellman_diffusion.agents.judge import Judged, judge_laws, judge_states
from bellman_diffusion.agents.learner import JaxLearner
from bellman_diffusion.agents.make import make_learner
from bellman_diffusion.agents.train import Training, train_agents
from bellman_diffusion.experiments.cells import load_or_run, training_run
from bellman_diffusion.metrics.aggregate import iqm, iqm_interval
from bellman_diffusion.training import NoProgress, Progress, RunFolder, training_bar
from bellman_diffusion.training.files import write_json

ALGORITHMS = ("bellman", "bellman-paper", "c51", "qr-dqn")
SETTINGS = ("plain", "best")
SOLVED = 475.0
IN_A_ROW = 5
"""Evaluations that must reach it one after the other: a single one may be luck."""
_RANGE = 100.0
"""Returns of CartPole at γ = 0.99 lie between 0 and 100."""
FIELD_WIDTH = 0.05
"""√ξ of the paper's model in shares of that range: fields are compared under this smoothing."""

_COMMON: dict[str, Any] = {"env_id": "CartPole-v1", "support": (0.0, _RANGE), "eval_every": 1_000}
_PLAIN: dict[str, Any] = {
    "hidden": (120, 84),
    "normalise": False,
    "learning_rate": 2.5e-4,
    "learning_rate_end": 1.0,
    "n_step": 1,
    "target_every": 50,
    "replay": 10_000,
    "updates_per_round": 1,
    "epsilon_end": 0.05,
    "epsilon_steps": 10_000,
}
# What belongs to the return model: chosen for each on other seeds.
_PLAIN_MODEL: dict[str, dict[str, Any]] = {
    "bellman": {"n_outputs": 27, "sigma": 3.0},
    "bellman-paper": {"n_outputs": 31, "sigma": 1.5},
    "c51": {"n_outputs": 31},
    "qr-dqn": {"n_outputs": 31},
}
_BEST: dict[str, Any] = {
    "hidden": (64, 64),
    "n_outputs": 31,
    "learning_rate": 5e-4,
    "n_step": 3,
    "updates_per_round": 8,
    "epsilon_end": 0.05,
    "average": 0.995,
}
_BEST_MODEL: dict[str, dict[str, Any]] = {
    "bellman": {},
    # More updates and more steps cost much and do not help it; a rate that falls and a full replay do.
    "bellman-paper": _PLAIN
    | _PLAIN_MODEL["bellman-paper"]
    | {"normalise": True, "learning_rate_end": 0.0, "replay": 100_000, "average": 0.995},
    "c51": {},
    "qr-dqn": {"learning_rate": 1e-3},
}


def cartpole_config(setting: str, algo: str, steps: int) -> AgentConfig:
    """The settings of one cell of the comparison."""
    base = _PLAIN | _PLAIN_MODEL[algo] if setting == "plain" else _BEST | _BEST_MODEL[algo]
    return AgentConfig(**(_COMMON | base | {"algo": algo, "steps": steps}))


def run_cartpole(
    out: Path,
    seeds: Sequence[int],
    steps: int = 100_000,
    algorithms: Sequence[str] = ALGORITHMS,
    quiet: bool = True,
) -> dict[str, Any]:
    """Train what is missing, write `cartpole.json`, and return it."""
    cells: dict[str, dict[str, Any]] = {}
    for setting in SETTINGS:
        cells[setting] = {}
        for algo in algorithms:
            config = cartpole_config(setting, algo, steps)
            key = config.to_json() | {"seeds": list(seeds)}
            path = out / "cells" / f"{setting}-{algo}.json"
            bar = NoProgress() if quiet else training_bar(f"{setting} {algo}")
            run = partial(training_run, path.with_suffix(""), key)
            cells[setting][algo] = load_or_run(path, key, partial(_cell, config, seeds, run, bar))
    summary: dict[str, Any] = {
        setting: {algo: _figures(cell) for algo, cell in row.items()}
        for setting, row in cells.items()
    }
    summary |= {"seeds": list(seeds), "steps": steps}
    write_json(out / "cartpole.json", summary)
    return summary | {"cells": cells}


def _cell(
    config: AgentConfig,
    seeds: Sequence[int],
    open_run: Callable[[], RunFolder],
    progress: Progress,
) -> dict[str, Any]:
    training = train_agents(config, seeds, run=open_run(), progress=progress)
    learner, environment = make_learner(config)
    assert isinstance(environment, JaxEnvironment)
    whole = JaxLearner(learner, environment)
    key = jax.random.key(10_000 + seeds[0])
    judged = [
        judge_laws(whole, jax.random.fold_in(key, i), *_acting(training, i))
        for i in range(len(seeds))
    ]
    errors = [[e.mean() for e in j.field_errors(FIELD_WIDTH * _RANGE)] for j in judged]
    steps = len(training.steps) * config.eval_every * len(seeds)
    rate = training.steps_per_second
    return {
        "steps": training.steps.tolist(),
        "returns": training.returns.T.round(2).tolist(),
        # There is no rate where the training was over before it was stopped.
        "seconds": steps / rate if rate else None,
        "law_w1": [float(j.w1().mean()) / _RANGE for j in judged],
        "scalar_error": [float(scalar) for scalar, _ in errors],
        "gradient_error": [float(gradient) for _, gradient in errors],
        "fields": _fields(judge_states(whole, key, *_acting(training, 0), _first_and_last(whole))),
    }


def _acting(training: Training, seed: int) -> tuple[Any, Any]:
    state = training.state
    return jax.tree.map(lambda a: a[seed], (state.average, state.frame))


def _first_and_last(whole: JaxLearner) -> tuple[Any, jax.Array]:
    """A start, and the last state before the pole falls to a cart that is always pushed right."""
    state, seen = whole.environment.reset(jax.random.key(0))
    first, last = (state, seen), (state, seen)
    for t in range(100):
        now, step = whole.environment.step(jax.random.key(t), state, jnp.asarray(1))
        if bool(step.terminated):
            break
        state, last = now, (now, step.observation)
    return jax.tree.map(lambda *a: jnp.stack(a), first, last)


def _fields(judged: Judged) -> list[dict[str, Any]]:
    """Both fields of each state's law on a grid, and the return that follows."""
    x = np.linspace(-15, 115, 521).astype(np.float32)
    density = np.asarray(judged.laws.pdf(jnp.asarray(x)))
    slope = np.asarray(judged.laws.gradient(jnp.asarray(x)))
    return [
        {
            "x": x.tolist(),
            "density": _short(density[i]),
            "slope": _short(slope[i]),
            "return": float(judged.returns[i].mean()),
        }
        for i in range(len(density))
    ]


def _short(values: Float[np.ndarray, " n"]) -> list[float]:
    """Four digits that count: some fields are tiny."""
    return [float(f"{value:.4g}") for value in values]


def _figures(cell: dict[str, Any]) -> dict[str, Any]:
    steps, returns = np.array(cell["steps"]), np.array(cell["returns"])
    firsts = [first_reached(steps, row, IN_A_ROW) for row in returns]
    single = [first_reached(steps, row) for row in returns]
    relapses = [relapse_share(row) for row in returns]
    reached = [share for share in relapses if share is not None]
    last = returns[:, -10:].mean(axis=1)
    laws = {name: cell[name] for name in ("law_w1", "scalar_error", "gradient_error")}
    return {
        "median_steps": _finite(float(np.median(firsts))),
        "worst_steps": _finite(float(np.max(firsts))),
        "relapses": float(np.mean(reached)) if reached else None,
        "iqm": float(iqm(last)),
        "iqm_interval": [float(end) for end in iqm_interval(last)],
        "seconds": cell["seconds"],
        **{name: float(np.mean(values)) for name, values in laws.items()},
        "first_solved": [_finite(float(f)) for f in firsts],
        "first_reached": [_finite(float(f)) for f in single],
        "per_seed": {"relapses": relapses, **laws},
    }


def first_reached(
    steps: Int[np.ndarray, " n"], returns: Float[np.ndarray, " n"], in_a_row: int = 1
) -> float:
    """The step of the first of some evaluations in a row at the bar; infinite if there are none."""
    reached = returns >= SOLVED
    if len(reached) < in_a_row:
        return np.inf
    rows = np.lib.stride_tricks.sliding_window_view(reached, in_a_row).all(axis=1)
    return float(steps[np.argmax(rows)]) if rows.any() else np.inf


def relapse_share(returns: Float[np.ndarray, " n"]) -> float | None:
    """How many evaluations are below the bar after the first at it; None where none come after.

    Steadiness and not speed: the time that it took to learn does not count.
    """
    reached = returns >= SOLVED
    later = reached[np.argmax(reached) + 1 :] if reached.any() else reached[:0]
    return float(np.mean(~later)) if later.size else None


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
