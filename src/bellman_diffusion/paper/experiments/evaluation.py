"""Policy evaluation from transitions: learned return distributions against fresh Monte-Carlo returns."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from jaxtyping import Float
from sklearn.ensemble import HistGradientBoostingRegressor

from bellman_diffusion.environments import make_env
from bellman_diffusion.paper.cells import load_or_run
from bellman_diffusion.paper.evaluation_scores import (
    Score,
    coverage_of_intervals,
    equally_likely,
    mixture_of_starts,
    score,
)
from bellman_diffusion.paper.evaluation_tasks import (
    TASKS,
    Task,
    sampled,
    seen_returns,
    trained,
    true_returns,
)
from bellman_diffusion.paper.experiment import Experiment, SeededOptions, Summary, Workplace, option
from bellman_diffusion.planning.from_samples import learn_returns
from bellman_diffusion.planning.learning import LearnSettings
from bellman_diffusion.planning.planned_returns import PlannedReturns
from bellman_diffusion.planning.transitions import Transitions
from bellman_diffusion.render.figure import new_figure, save_figure
from bellman_diffusion.render.page import Picture, Section, Table
from bellman_diffusion.returns.atoms import AtomicReturn
from bellman_diffusion.returns.observations import ObservationEncoder

OURS, C51, QUANTILES = "ours", "C51", "quantiles"
REGRESSION, EPISODES, FQE = "regression on returns", "plain Monte Carlo", "FQE (mean only)"
METHODS = (OURS, C51, QUANTILES, REGRESSION, EPISODES, FQE)
_N_CALIBRATION = 1000
_N_LEVELS = 20


@dataclass(frozen=True)
class EvaluationOptions(SeededOptions):
    """Three seeds by default."""

    seeds: int = option(3, "How many sets of transitions, from --seed on.", min=1)
    tasks: str = option(",".join(TASKS), "Tasks, separated by commas.")
    transitions: int = option(100_000, "Transitions to learn from.", min=1000)
    returns: int = option(10_000, "Fresh returns to compare with.", min=100)
    max_iter: int = option(4000, "Training steps of a learned model.", min=1)


class SeedScores(msgspec.Struct, kw_only=True):
    """All methods on one set of transitions."""

    n_episodes: int
    scores: dict[str, Score]
    coverage: float
    """Of ours' conformal 90 % intervals, over 1,000 fresh episodes."""
    coverage_raw: float
    """Of ours' own 90 % intervals."""


class TrueReturns(msgspec.Struct, kw_only=True):
    """Fresh returns and where they start, in random order."""

    observation: list[list[float]]
    value: list[float]


class TaskScores(msgspec.Struct, kw_only=True):
    """One task: the true returns, and every set of transitions."""

    env_id: str
    gamma: float
    mean: float
    std: float
    range: tuple[float, float]
    per_seed: list[SeedScores]

    def mean_of(self, method: str, figure: str) -> float | None:
        """The mean over seeds of the size of an error."""
        found = [getattr(s.scores[method], figure) for s in self.per_seed]
        return None if None in found else float(np.mean(np.abs(found)))


class EvaluationSummary(Summary):
    """Every task."""

    seeds: list[int]
    n_transitions: int
    n_returns: int
    n_outputs: int
    tasks: dict[str, TaskScores]
    seconds: float

    def geometric_mean(self, method: str, tables: bool = True) -> float:
        """Of W1 over the tasks, with or without those that ours counts."""
        tasks = [t for name, t in self.tasks.items() if tables or not TASKS[name].is_table]
        values = [task.mean_of(method, "w1") for task in tasks]
        return float(np.exp(np.mean(np.log([v for v in values if v is not None]))))


def run(options: EvaluationOptions, work: Workplace) -> EvaluationSummary:
    """Train the policies and play the fresh episodes; then learn from every set of transitions."""
    start = time.perf_counter()
    names = options.chosen("tasks", TASKS)
    tasks = {name: partial(_true_cell, work.cells, name, options) for name in names}
    truth = work.run_parallel("policies and their returns", tasks)
    keys = [(name, seed) for seed in options.all_seeds for name in names]
    learning = {key: partial(_seed_cell, work.cells, *key, options) for key in keys}
    found = work.run_parallel("evaluations", learning)
    summary = EvaluationSummary(
        seeds=list(options.all_seeds),
        n_transitions=options.transitions,
        n_returns=options.returns,
        n_outputs=LearnSettings().n_basis,
        tasks={
            name: _task_scores(
                TASKS[name], truth[name], [found[name, s] for s in options.all_seeds]
            )
            for name in names
        },
        seconds=time.perf_counter() - start,
    )
    _draw(work.figures / "evaluation.png", summary)
    return summary


def _task_scores(task: Task, truth: TrueReturns, per_seed: list[SeedScores]) -> TaskScores:
    value = np.array(truth.value[_N_CALIBRATION:])
    return TaskScores(
        env_id=task.env_id,
        gamma=task.gamma,
        mean=float(value.mean()),
        std=float(value.std()),
        range=(float(value.min()), float(value.max())),
        per_seed=per_seed,
    )


def _policy(cells: Path, name: str, options: EvaluationOptions) -> Path:
    return cells / f"{name.replace(' ', '-')}-{options.seed}.zip"


def _true_cell(cells: Path, name: str, options: EvaluationOptions) -> TrueReturns:
    case = {"task": TASKS[name]._asdict(), "seed": options.seed, "returns": options.returns}
    path = cells / f"{name.replace(' ', '-')}-returns.json"
    return load_or_run(path, case, TrueReturns, partial(_play, cells, name, options))


def _play(cells: Path, name: str, options: EvaluationOptions) -> TrueReturns:
    task, policy = TASKS[name], _policy(cells, name, options)
    trained(task, policy, options.seed)
    n = options.returns + _N_CALIBRATION
    found = true_returns(task, policy, n, options.seed + 1_000_003)
    return TrueReturns(observation=found.observation.tolist(), value=found.value.tolist())


def _seed_cell(cells: Path, name: str, seed: int, options: EvaluationOptions) -> SeedScores:
    case = {
        "task": TASKS[name]._asdict(), "policy": options.seed, "seed": seed,
        "transitions": options.transitions, "returns": options.returns, "max_iter": options.max_iter,
    }  # fmt: skip
    path = cells / f"{name.replace(' ', '-')}-{seed}.json"
    return load_or_run(path, case, SeedScores, partial(_evaluate, cells, name, seed, options))


class _Case(NamedTuple):
    """What all methods learn from, and what they are compared with."""

    task: Task
    transitions: Transitions
    encoder: ObservationEncoder
    starts: Float[np.ndarray, "n *shape"]
    truth: AtomicReturn
    max_iter: int
    seed: int


def _evaluate(cells: Path, name: str, seed: int, options: EvaluationOptions) -> SeedScores:
    task, true = TASKS[name], _true_cell(cells, name, options)
    observation, value = np.array(true.observation, np.float32), np.array(true.value)
    space, policy = make_env(task.env_id).observation_space, _policy(cells, name, options)
    trained(task, policy, options.seed)
    transitions = sampled(task, policy, options.transitions, seed)
    case = _Case(
        task, transitions, ObservationEncoder.for_space(space, task.env_id),
        observation[_N_CALIBRATION:], equally_likely(value[_N_CALIBRATION:]), options.max_iter, seed,
    )  # fmt: skip
    start = time.perf_counter()
    ours = _learned(case, LearnSettings())
    seconds = time.perf_counter() - start
    own = score(mixture_of_starts(ours, case.starts), case.truth)
    scores = {OURS: msgspec.structs.replace(own, seconds=seconds)}
    scores |= {method: _timed(case, learn) for method, learn in OTHERS.items()}
    # Of a mean alone the rest says nothing.
    scores[FQE] = Score(w1=None, mean=scores[FQE].mean, seconds=scores[FQE].seconds)
    raw, coverage = coverage_of_intervals(ours, observation, value, _N_CALIBRATION)
    return SeedScores(
        n_episodes=int(transitions.ended.sum()), scores=scores, coverage=coverage, coverage_raw=raw
    )


def _timed(case: _Case, method: Callable[[_Case], AtomicReturn]) -> Score:
    start = time.perf_counter()
    predicted = method(case)
    seconds = time.perf_counter() - start
    return msgspec.structs.replace(score(predicted, case.truth), seconds=seconds)


def _learned(case: _Case, how: LearnSettings) -> PlannedReturns:
    how = replace(how, gamma=case.task.gamma, max_iter=case.max_iter)
    return learn_returns(case.transitions, case.encoder, how, case.seed)


def _by_network(how: LearnSettings, case: _Case) -> AtomicReturn:
    return mixture_of_starts(_learned(case, how), case.starts)


def _by_episodes(case: _Case) -> AtomicReturn:
    """The returns of the episodes that were learned from."""
    value, _, first = seen_returns(case.transitions, case.task.gamma)
    return equally_likely(value[first])


def _by_regression(case: _Case) -> AtomicReturn:
    """Trees for quantiles of the returns of all rows."""
    value, kept, _ = seen_returns(case.transitions, case.task.gamma)
    categories: Any = [0] if case.encoder.n_discrete else None
    rows, starts = (a.reshape(len(a), -1) for a in (case.transitions.observation, case.starts))
    levels = (np.arange(_N_LEVELS) + 0.5) / _N_LEVELS
    models = [
        HistGradientBoostingRegressor(
            loss="quantile", quantile=q, categorical_features=categories, random_state=case.seed
        ).fit(rows[kept], value[kept])
        for q in levels
    ]
    return equally_likely(np.concatenate([model.predict(starts) for model in models]))


# The others, in the order of METHODS.
OTHERS: dict[str, Callable[[_Case], AtomicReturn]] = {
    C51: partial(_by_network, LearnSettings(mode="c51")),
    QUANTILES: partial(_by_network, LearnSettings(mode="quantile")),
    REGRESSION: _by_regression,
    EPISODES: _by_episodes,
    FQE: partial(_by_network, LearnSettings(mode="expectation", trace=0.0)),
}


def _draw(path: Path, summary: EvaluationSummary) -> None:
    """W1 of every method on every task."""
    figure = new_figure(9, 4.2)
    axes = figure.subplots()
    places = np.arange(len(summary.tasks))
    shown = [m for m in METHODS if m != FQE]
    for i, method in enumerate(shown):
        values = [100 * (t.mean_of(method, "w1") or np.nan) for t in summary.tasks.values()]
        axes.plot(places + 0.12 * (i - (len(shown) - 1) / 2), values, "o", label=method)
    axes.set_xticks(places, list(summary.tasks), rotation=20, ha="right")
    axes.set(yscale="log", ylabel="W1, % of the range of returns")
    axes.legend(fontsize=8, ncols=len(shown), loc="upper center", bbox_to_anchor=(0.5, 1.14))
    save_figure(figure, path)


def sections(summary: EvaluationSummary, figures: Path) -> list[Section]:
    """Distances, then figures of risk and coverage."""
    return [_distance_section(summary, figures), _risk_section(summary)]


def _distance_section(summary: EvaluationSummary, figures: Path) -> Section:
    means = {m: summary.geometric_mean(m) for m in METHODS if m != FQE}
    ratios = ", ".join(f"{m} {means[m] / means[OURS]:.2f} ×" for m in means if m != OURS)
    nearest = [
        min(means, key=lambda m: task.mean_of(m, "w1") or 0.0) for task in summary.tasks.values()
    ]
    wins = ", ".join(f"{m} on {nearest.count(m)}" for m in means if m in nearest)
    networks = ""
    if any(not TASKS[name].is_table for name in summary.tasks):
        learned = {m: summary.geometric_mean(m, tables=False) for m in (OURS, C51, QUANTILES)}
        each = ", ".join(f"{m} {learned[m] / learned[OURS]:.2f} ×" for m in (C51, QUANTILES))
        networks = f"Without the table, whose transitions ours counts: {each}. "
    text = (
        f"Geometric mean of W1 over the tasks, relative to ours ({100 * means[OURS]:.2f} %): {ratios}. "
        f"{networks}Nearest to the fresh returns: {wins} of {len(nearest)} tasks. "
        "The policies are Stable-Baselines3's after a short training, evaluated from "
        f"{summary.n_transitions:,} transitions; {len(summary.seeds)} sets of them. W1 is between the "
        f"predicted return from the start distribution and {summary.n_returns:,} fresh Monte-Carlo "
        "returns, as a share of the range of these; means over the sets. Networks have "
        f"{summary.n_outputs} outputs, the same size, the same number of steps and the same mixtures of "
        "n-step targets. Ours is the default of `bellman plan`. "
        "`regression on returns` are gradient-boosted trees for 20 quantiles of the returns of all rows, "
        "`plain Monte Carlo` the returns of the episodes themselves; both take what a time limit cut off "
        "as going on in proportion."
    )
    rows = []
    for name, task in summary.tasks.items():
        shown = [_percent(task.mean_of(m, "w1")) for m in means]
        episodes = round(np.mean([s.n_episodes for s in task.per_seed]))
        seconds = np.mean([s.scores[OURS].seconds for s in task.per_seed])
        rows.append((name, f"{task.gamma:g}", f"{episodes:,}", *shown, f"{seconds:.0f} s"))
    header = ("task", "γ", "episodes", *means, "time of ours")
    picture = Picture(figures / "evaluation.png", "W1 to fresh Monte-Carlo returns, by task.")
    return Section("Distance to fresh returns", text, Table(header, rows), [picture])


def _risk_section(summary: EvaluationSummary) -> Section:
    text = (
        "Sizes of errors as shares of the range of returns, means over the sets of transitions. Coverage "
        f"is that of 90 % intervals over 1,000 fresh episodes: the model's own, and conformal ones, "
        f"calibrated on {_N_CALIBRATION:,} other episodes; the least and the greatest over the sets. "
        "FQE is fitted-Q evaluation of the mean with one-step targets and the target network of the "
        "others, which averages over 50 steps. That is too slow for one-step targets: FQE has not "
        "converged here, and its errors do not say how good it can become."
    )
    methods = (OURS, C51, QUANTILES)
    rows = []
    for name, task in summary.tasks.items():
        mean = [_percent(task.mean_of(m, "mean")) for m in (*methods, FQE)]
        cvar = [_percent(task.mean_of(m, "cvar_10")) for m in methods]
        covered = [[getattr(s, k) for s in task.per_seed] for k in ("coverage_raw", "coverage")]
        rows.append((name, *mean, *cvar, *(f"{min(c):.3f}–{max(c):.3f}" for c in covered)))
    header = (
        "task", *(f"mean, {m}" for m in (*methods, "FQE")), *(f"CVaR 10 %, {m}" for m in methods),
        "own coverage", "conformal coverage",
    )  # fmt: skip
    return Section("Risk figures and coverage", text, Table(header, rows))


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.2f} %"


EXPERIMENT = Experiment(
    name="evaluation",
    title="Policy evaluation from transitions",
    about="Return distributions of trained policies from transitions, against fresh episodes.",
    options=EvaluationOptions,
    summary=EvaluationSummary,
    run=run,
    sections=sections,
    order=112,
    page="evaluation",
    published={"seed": 400, "seeds": 3},
)
