"""Planning from sampled transitions: FrozenLake next to C51, and CartPole against held-out returns."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from bellman_diffusion.paper.cells import load_or_run
from bellman_diffusion.paper.experiment import Experiment, SeededOptions, Summary, Workplace, option
from bellman_diffusion.planning import PlanSettings, plan
from bellman_diffusion.render.page import Section, Table

MODES = ("default", "c51", "paper")


@dataclass(frozen=True)
class PlanningOptions(SeededOptions):
    """Five seeds by default."""

    seeds: int = option(5, "How many seeds, from --seed on.", min=1)


@dataclass(frozen=True)
class PlanningSettings:
    """The sizes of the experiment."""

    lake_samples: int = 200_000
    lake_basis: int = 21
    cart_samples: int = 100_000
    cart_basis: int = 101
    random_share: float = 0.2
    max_iter: int = 10_000
    cart_iter: int = 4000


class LakeErrors(msgspec.Struct, kw_only=True):
    """Errors over all states of FrozenLake against the exact distributions."""

    w1_worst: float
    w1_mean: float
    mean_error_worst: float
    gradient_error_worst: float
    seconds: float | None = None


class LakeRow(LakeErrors, kw_only=True):
    """The mean over seeds."""

    per_seed: list[LakeErrors]


class CartErrors(msgspec.Struct, kw_only=True):
    """Calibration on CartPole against held-out returns."""

    mean_monte_carlo: float
    mean_predicted: float
    mean_error_relative: float
    mean_error_start: float | None
    coverage_90: float
    pit_distance: float
    w1_worst_group: float
    cvar_10_error_worst_group: float
    n_episodes: float
    seconds: float


class CartRow(CartErrors, kw_only=True):
    """The mean over seeds."""

    per_seed: list[CartErrors]


class PlanningSummary(Summary):
    """FrozenLake by mode, and CartPole."""

    seeds: list[int]
    frozenlake: dict[str, LakeRow]
    cartpole: CartRow
    seeds_better_than_c51: int
    seconds: float
    reference: str = "the exact distribution, both smoothed by σ = 0.05"
    """What W1 on FrozenLake is to; runs of release 0.1 did not say it."""


def lean(observation: Any) -> int:
    """CartPole's imperfect controller: push to the side the pole leans to."""
    return int(observation[2] > 0)


def run(
    options: SeededOptions, work: Workplace, settings: PlanningSettings | None = None
) -> PlanningSummary:
    """Every seed and mode on FrozenLake, every seed on CartPole."""
    settings, seeds = settings or PlanningSettings(), options.all_seeds
    lake: dict[str, list[LakeErrors]] = {mode: [] for mode in MODES}
    cart: list[CartErrors] = []
    total = len(seeds) * (len(MODES) + 1)
    with work.bar("plans", ()) as bar:
        for seed in seeds:
            for mode in MODES:
                lake[mode].append(
                    lake_errors(work.cells, f"frozenlake-{mode}", mode, seed, settings)
                )
                bar.update(sum(map(len, lake.values())) + len(cart), total, {})
            path, case = work.cells / f"cartpole-{seed}.json", asdict(settings) | {"seed": seed}
            cart.append(load_or_run(path, case, CartErrors, partial(_cart, seed, settings)))
            bar.update(sum(map(len, lake.values())) + len(cart), total, {})
    wins = [d.w1_worst < c.w1_worst for d, c in zip(lake["default"], lake["c51"], strict=True)]
    return PlanningSummary(
        seeds=list(seeds),
        frozenlake={mode: mean_lake(runs) for mode, runs in lake.items()},
        cartpole=CartRow(**_means(cart), per_seed=cart),
        seeds_better_than_c51=int(np.sum(wins)),
        # Also of what an earlier, interrupted run has done.
        seconds=sum(r.seconds or 0.0 for r in chain(cart, *lake.values())),
        reference="the return's own distribution",
    )


def lake_errors(
    cells: Path, name: str, mode: str, seed: int, settings: PlanningSettings
) -> LakeErrors:
    """FrozenLake's distributions, learned from transitions of the optimal policy: kept as a cell."""
    case = asdict(settings) | {"mode": mode, "seed": seed}
    path = cells / f"{name}-{seed}.json"
    return load_or_run(path, case, LakeErrors, partial(_lake, mode, seed, settings))


def mean_lake(runs: list[LakeErrors]) -> LakeRow:
    """Over seeds."""
    return LakeRow(**_means(runs), per_seed=runs)


def _lake(mode: str, seed: int, settings: PlanningSettings) -> LakeErrors:
    figures = plan(
        PlanSettings(
            "FrozenLake-v1",
            mode=mode,
            n_basis=settings.lake_basis,
            sigma=0.05,
            support=(0.0, 1.0),
            samples=settings.lake_samples,
            max_iter=settings.max_iter,
            seed=seed,
        )
    ).figures
    return msgspec.convert(figures.to_json(), LakeErrors)


def _cart(seed: int, settings: PlanningSettings) -> CartErrors:
    figures = plan(
        PlanSettings(
            "CartPole-v1",
            epsilon=settings.random_share,
            n_basis=settings.cart_basis,
            samples=settings.cart_samples,
            max_iter=settings.cart_iter,
            seed=seed,
        ),
        policy=lean,
    ).figures
    return msgspec.convert(figures.to_json(), CartErrors)


def _means(runs: Sequence[msgspec.Struct]) -> dict[str, float]:
    names = runs[0].__struct_fields__
    return {name: float(np.mean([getattr(run, name) for run in runs])) for name in names}


def sections(summary: PlanningSummary, figures: Path) -> list[Section]:
    """Sampled FrozenLake by mode, then CartPole."""
    del figures
    n = len(summary.seeds)
    text = (
        f"{n} seeds. FrozenLake: 200,000 one-step transitions, 21 cells, atoms or basis functions. The "
        "default counts the transitions and solves the counted chain; C51 and the paper train a network "
        f"of the state. W1 over all states to {summary.reference}. "
        f"The default is better than C51 on {summary.seeds_better_than_c51} of {n}. CartPole: 100,000 "
        "transitions of a controller that pushes to the side the pole leans to, with 20 % random "
        "actions, against returns of held-out episodes."
    )
    rows = []
    for mode, row in summary.frozenlake.items():
        numbers = (f"{max(r.w1_worst for r in row.per_seed):.4f}", f"{row.w1_mean:.4f}")
        rows.append(("FrozenLake", mode, f"{row.w1_worst:.4f}", *numbers, "", ""))
    cart = summary.cartpole.per_seed
    error = max(r.mean_error_relative for r in cart)
    covered = [r.coverage_90 for r in cart]
    share = f"{min(covered):.3f}–{max(covered):.3f}"
    rows.append(("CartPole", "default", "", "", "", f"{error:.1%}", share))
    header = ("environment", "mode", "worst W1", "of the worst seed", "mean W1",
              "worst error of the mean", "coverage of 90 % intervals")  # fmt: skip
    return [Section("Planning from transitions", text, Table(header, rows))]


EXPERIMENT = Experiment(
    name="planning",
    title="Planning from transitions",
    about="Planning from sampled transitions: FrozenLake next to C51, CartPole against returns.",
    options=PlanningOptions,
    summary=PlanningSummary,
    run=run,
    sections=sections,
    order=110,
    page="planning",
    published={"seed": 30, "seeds": 5},
)
