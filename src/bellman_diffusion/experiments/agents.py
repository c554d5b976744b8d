"""Agents beyond the paper's cart-pole: each environment with its registered settings."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from bellman_diffusion.agents.config import AgentConfig
from bellman_diffusion.agents.environments import WINDY_CLIFF, JaxEnvironment
from bellman_diffusion.agents.learner import JaxLearner
from bellman_diffusion.agents.make import make_learner
from bellman_diffusion.agents.registry import default_config
from bellman_diffusion.agents.train import Training, train_agents
from bellman_diffusion.experiments.cells import load_or_run, training_run
from bellman_diffusion.training import NoProgress, Progress, RunFolder, training_bar
from bellman_diffusion.training.files import write_json

WORST = 0.1
"""The share of worst returns that the careful agent on the windy cliff minds."""
_CLIFF_EPISODES = 4000


class Case(NamedTuple):
    """An environment, what runs on it, and the return that was set as a bar."""

    env_id: str
    bar: float | None
    algorithms: tuple[str, ...] = ("bellman",)
    risks: tuple[str, ...] = ("mean",)


CASES: dict[str, Case] = {
    "acrobot": Case("Acrobot-v1", -90.0),
    "frozenlake": Case("FrozenLake-v1", 0.70),
    "lunarlander": Case("LunarLander-v3", 200.0),
    "breakout": Case("Breakout-MinAtar", None, algorithms=("bellman", "c51")),
    "windycliff": Case(WINDY_CLIFF, None, risks=("mean", f"cvar:{WORST}")),
}


def run_agents(
    out: Path,
    seeds: Sequence[int],
    cases: Sequence[str] = tuple(CASES),
    steps: int | None = None,
    quiet: bool = True,
) -> dict[str, Any]:
    """Train what is missing, write `agents.json`, and return it."""
    wanted = [
        (name, algo, risk)
        for name in cases
        for algo in CASES[name].algorithms
        for risk in CASES[name].risks
    ]
    cells: dict[str, dict[str, Any]] = {name: {} for name in cases}
    for name, algo, risk in wanted:
        changes: dict[str, Any] = {} if steps is None else {"steps": steps}
        config = default_config(CASES[name].env_id, algo=algo, risk=risk, **changes)
        label = algo if risk == "mean" else f"{algo} by {risk}"
        path = out / "cells" / f"{name}-{label.replace(' ', '-').replace(':', '-')}.json"
        key = config.to_json() | {"seeds": list(seeds)}
        bar = NoProgress() if quiet else training_bar(f"{config.env_id} {label}")
        run = partial(training_run, path.with_suffix(""), key)
        cells[name][label] = load_or_run(path, key, partial(_cell, config, seeds, run, bar))
    summary: dict[str, Any] = {
        name: {label: _figures(cell, CASES[name].bar) for label, cell in row.items()}
        for name, row in cells.items()
    }
    summary["seeds"] = list(seeds)
    write_json(out / "agents.json", summary)
    return summary | {"cells": cells}


def _cell(
    config: AgentConfig,
    seeds: Sequence[int],
    open_run: Callable[[], RunFolder],
    progress: Progress,
) -> dict[str, Any]:
    training = train_agents(config, seeds, run=open_run(), progress=progress)
    cell: dict[str, Any] = {
        "steps": training.steps.tolist(),
        "returns": training.returns.T.round(3).tolist(),
        "steps_per_second": training.steps_per_second,
    }
    if config.env_id == WINDY_CLIFF:
        cell["cliff"] = [_on_the_cliff(training, i) for i in range(len(seeds))]
    return cell


def _on_the_cliff(training: Training, seed: int) -> dict[str, float]:
    """The mean of many greedy episodes, and the mean of their worst tenth."""
    learner, environment = make_learner(training.config)
    assert isinstance(environment, JaxEnvironment)
    whole = JaxLearner(learner, environment)
    network, frame = jax.tree.map(lambda a: a[seed], (training.state.average, training.state.frame))
    start_key, key = jax.random.split(jax.random.key(training.seeds[seed]))
    start = jax.vmap(environment.reset)(jax.random.split(start_key, _CLIFF_EPISODES))
    returns = np.sort(np.asarray(whole.follow(key, network, frame, start, gamma=1.0)))
    worst = returns[: int(WORST * len(returns))]
    return {"mean": float(returns.mean()), "worst": float(worst.mean())}


def _figures(cell: dict[str, Any], bar: float | None) -> dict[str, Any]:
    last = np.array(cell["returns"])[:, -1]
    figures: dict[str, Any] = {
        "steps": cell["steps"][-1],
        "returns": last.tolist(),
        "mean": float(last.mean()),
        "steps_per_second": cell["steps_per_second"],
    }
    if bar is not None:
        figures |= {"bar": bar, "at_bar": int((last >= bar).sum())}
    if "cliff" in cell:
        figures["cliff"] = cell["cliff"]
    return figures
