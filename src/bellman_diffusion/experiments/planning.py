"""Planning from sampled transitions: FrozenLake beside C51, and CartPole against held-out returns."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bellman_diffusion.bellman.learn import Mode
from bellman_diffusion.bellman.planning import PlanSettings, plan
from bellman_diffusion.experiments.cells import load_or_run
from bellman_diffusion.training import NoProgress, Progress
from bellman_diffusion.training.files import write_json

LAKE_FIGURES = ("w1_worst", "w1_mean", "mean_error_worst", "gradient_error_worst")
MODES: tuple[Mode, ...] = ("default", "c51", "paper")


@dataclass(frozen=True)
class PlanningSettings:
    """The sizes of the experiment."""

    lake_samples: int = 200_000
    lake_functions: int = 21
    cart_samples: int = 100_000
    cart_functions: int = 81
    random_share: float = 0.2
    max_iter: int = 10_000


def lean(observation: Any) -> int:
    """CartPole's imperfect controller: push to the side the pole leans to."""
    return int(observation[2] > 0)


def run_planning(
    out: Path,
    seeds: Sequence[int],
    settings: PlanningSettings | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Every seed and mode on FrozenLake, every seed on CartPole."""
    settings = settings or PlanningSettings()
    start = time.perf_counter()
    lake: dict[str, list[dict[str, Any]]] = {mode: [] for mode in MODES}
    cart: list[dict[str, Any]] = []
    total = len(seeds) * (len(MODES) + 1)
    with progress or NoProgress() as bar:
        for seed in seeds:
            for mode in MODES:
                case = asdict(settings) | {"mode": mode, "seed": seed}
                path = out / "cells" / f"frozenlake-{mode}-{seed}.json"
                lake[mode].append(load_or_run(path, case, partial(plan_lake, mode, seed, settings)))
                bar.update(sum(map(len, lake.values())) + len(cart), total, {})
            path, case = out / "cells" / f"cartpole-{seed}.json", asdict(settings) | {"seed": seed}
            cart.append(load_or_run(path, case, partial(_cart, seed, settings)))
            bar.update(sum(map(len, lake.values())) + len(cart), total, {})
    wins = [
        d["w1_worst"] < c["w1_worst"] for d, c in zip(lake["default"], lake["c51"], strict=True)
    ]
    summary = {
        "seeds": list(seeds),
        "frozenlake": {mode: _mean(runs) | {"per_seed": runs} for mode, runs in lake.items()},
        "cartpole": _mean(cart) | {"per_seed": cart},
        "seeds_better_than_c51": int(np.sum(wins)),
        "seconds": time.perf_counter() - start,
    }
    write_json(out / "planning.json", summary)
    return summary


def plan_lake(mode: Mode, seed: int, settings: PlanningSettings) -> dict[str, Any]:
    """FrozenLake's laws, learned from transitions of the optimal policy, against the exact ones."""
    planner = plan(
        PlanSettings(
            "FrozenLake-v1",
            mode=mode,
            functions=settings.lake_functions,
            sigma=0.05,
            support=(0.0, 1.0),
            samples=settings.lake_samples,
            max_iter=settings.max_iter,
            seed=seed,
        )
    )
    figures = planner.meta["figures"]
    return {k: figures[k] for k in (*LAKE_FIGURES, "seconds")}


def _cart(seed: int, settings: PlanningSettings) -> dict[str, Any]:
    planner = plan(
        PlanSettings(
            "CartPole-v1",
            epsilon=settings.random_share,
            functions=settings.cart_functions,
            samples=settings.cart_samples,
            max_iter=settings.max_iter,
            seed=seed,
        ),
        policy=lean,
    )
    names = (
        "mean_monte_carlo",
        "mean_predicted",
        "mean_error_relative",
        "mean_error_start",
        "coverage_90",
        "pit_distance",
        "w1_worst_group",
        "cvar_10_error_worst_group",
        "n_episodes",
        "seconds",
    )
    return {name: planner.meta["figures"].get(name) for name in names}


def _mean(runs: list[dict[str, Any]]) -> dict[str, float]:
    return {name: float(np.mean([run[name] for run in runs])) for name in runs[0]}
