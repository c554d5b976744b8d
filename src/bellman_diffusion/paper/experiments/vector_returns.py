"""Vector rewards learned from transitions: MO-Gymnasium's tasks, each component and their correlation."""

import time
from dataclasses import asdict, dataclass
from functools import partial
from itertools import combinations
from pathlib import Path

import jax
import msgspec
import numpy as np
from scipy.stats import wasserstein_distance

from bellman_diffusion.environments import make_env
from bellman_diffusion.paper.cells import load_or_run
from bellman_diffusion.paper.experiment import Experiment, SeededOptions, Summary, Workplace, option
from bellman_diffusion.planning.acting import acting
from bellman_diffusion.planning.job import Job
from bellman_diffusion.planning.plan import PlanSettings, plan
from bellman_diffusion.planning.sampling import Sampler
from bellman_diffusion.planning.transitions import NEGLIGIBLE
from bellman_diffusion.render.figure import COLOURS, new_figure, save_figure
from bellman_diffusion.render.page import Picture, Section, Table
from bellman_diffusion.returns.joint import JointReturn

# The components of their rewards, as MO-Gymnasium's documentation names them.
TASKS = {
    "mo_gymnasium:deep-sea-treasure-v0": ("treasure", "time"),
    "mo_gymnasium:minecart-v0": ("first ore", "second ore", "fuel"),
    "mo_gymnasium:mo-lunar-lander-v3": ("landing", "shaping", "main engine", "side engine"),
}
_GAMMA = 0.99
_N_DRAWN = 2000
# An error of a correlation that counts as near.
_NEAR = 0.05


@dataclass(frozen=True)
class VectorOptions(SeededOptions):
    """Three seeds by default."""

    seeds: int = option(3, "How many sets of transitions, from --seed on.", min=1)
    transitions: int = option(100_000, "Transitions that are learned from.", min=1000)
    returns: int = option(10_000, "Fresh returns to compare with.", min=100)
    max_iter: int = option(4000, "Training steps.", min=1)


class VectorErrors(msgspec.Struct, frozen=True, kw_only=True):
    """One set of transitions: errors against fresh returns; W1 as shares of each component's range."""

    w1: list[float]
    w1_sum: float
    """Of the sum of all components, each divided by its range: answered without new training."""
    correlation: list[list[float]]
    correlation_fresh: list[list[float]]
    coverage_90: list[float]
    seconds: float
    """Of planning, held-out episodes included."""
    drawn: list[list[float]]
    """Some returns of the first two components, for the picture."""
    fresh: list[list[float]]

    @property
    def correlation_error(self) -> float:
        """Of the worst pair."""
        return float(np.abs(np.subtract(self.correlation, self.correlation_fresh)).max())


class VectorSummary(Summary):
    """Every task and set of transitions."""

    seeds: list[int]
    n_transitions: int
    n_returns: int
    gamma: float
    tasks: dict[str, list[VectorErrors]]
    seconds: float


def run(options: VectorOptions, work: Workplace) -> VectorSummary:
    """Plan for the random policy of every task from every set of transitions."""
    start = time.perf_counter()
    keys = [(name, seed) for name in TASKS for seed in options.all_seeds]
    found = work.run_parallel(
        "tasks", {key: partial(_cell, work.cells, *key, options) for key in keys}
    )
    tasks = {name: [found[name, seed] for seed in options.all_seeds] for name in TASKS}
    _draw(work.figures / "vector-returns.png", {name: rows[0] for name, rows in tasks.items()})
    # The picture has the points; the summary needs no copy of them.
    tasks = {
        name: [msgspec.structs.replace(row, drawn=[], fresh=[]) for row in rows]
        for name, rows in tasks.items()
    }
    return VectorSummary(
        seeds=list(options.all_seeds),
        n_transitions=options.transitions,
        n_returns=options.returns,
        gamma=_GAMMA,
        tasks=tasks,
        seconds=time.perf_counter() - start,
    )


def _cell(cells: Path, env_id: str, seed: int, options: VectorOptions) -> VectorErrors:
    case = {"task": env_id, **asdict(options), "seed": seed, "seeds": 1}
    path = cells / f"{_short(env_id).replace('/', '-')}-{seed}.json"
    return load_or_run(path, case, VectorErrors, partial(_evaluate, env_id, seed, options))


def _short(env_id: str) -> str:
    """Without the module that it is registered by."""
    return env_id.rsplit(":", maxsplit=1)[-1]


def _evaluate(env_id: str, seed: int, options: VectorOptions) -> VectorErrors:
    start = time.perf_counter()
    settings = PlanSettings(
        env_id, policy="random", gamma=_GAMMA, samples=options.transitions, seed=seed,
        max_iter=options.max_iter,
    )  # fmt: skip
    planner = plan(settings)
    seconds = time.perf_counter() - start
    fresh = _fresh_returns(settings, options.returns, seed + 2_000_003)
    joint, width = planner.joint(), np.ptp(fresh, axis=0)
    return VectorErrors(
        w1=[_distance(joint, axis, fresh) / float(width @ axis) for axis in np.eye(len(width))],
        w1_sum=_distance(joint, 1 / width, fresh) / float(np.ptp(fresh @ (1 / width))),
        correlation=np.asarray(joint.correlation(), float).tolist(),
        correlation_fresh=np.corrcoef(fresh.T).tolist(),
        coverage_90=[
            found.held_out.coverage_90 for found in planner.figures.components if found.held_out
        ],
        seconds=seconds,
        drawn=np.asarray(joint.sample(jax.random.key(seed), _N_DRAWN), float)[:, :2].tolist(),
        fresh=fresh[:_N_DRAWN, :2].tolist(),
    )


def _fresh_returns(settings: PlanSettings, n: int, seed: int) -> np.ndarray:
    """Of n episodes, played on beyond the time limit until nothing is left."""
    env = make_env(settings.env_id)
    job = Job(settings, env)
    enough = int(np.ceil(np.log(NEGLIGIBLE) / np.log(settings.gamma)))
    sampler = Sampler(lambda: job.make_with_limit(enough), acting("random", env, seed))
    return sampler.returns_of_starts(n, job.discount, seed).value


def _distance(joint: JointReturn, weights: np.ndarray, fresh: np.ndarray) -> float:
    found = joint.along(weights)
    mass, atoms = (np.asarray(a, float) for a in (found.mass, found.atoms))
    return float(wasserstein_distance(atoms, fresh @ weights, mass))


def _draw(path: Path, tasks: dict[str, VectorErrors]) -> None:
    """Fresh and predicted returns of the first two components."""
    figure = new_figure(4.4 * len(tasks), 7.0)
    panels = figure.subplots(2, len(tasks), squeeze=False, sharex="col", sharey="col")
    for column, (name, found) in zip(panels.T, tasks.items(), strict=True):
        parts = TASKS[name]
        for axes, points, title in zip(
            column, (found.fresh, found.drawn), ("fresh episodes", "predicted"), strict=True
        ):
            axes.plot(*np.transpose(points), ".", color=COLOURS[0], alpha=0.15, markersize=5)
            axes.set(title=f"{_short(name)}: {title}", ylabel=f"return: {parts[1]}")
        column[1].set_xlabel(f"return: {parts[0]}")
    save_figure(figure, path)


def sections(summary: VectorSummary, figures: Path) -> list[Section]:
    """A row for each component, then the correlations."""
    text = (
        f"Random actions in tasks of MO-Gymnasium, γ = {summary.gamma:g}: {summary.n_transitions:,} "
        f"transitions, compared with {summary.n_returns:,} fresh episodes from the start, for each of "
        f"{len(summary.seeds)} seeds. W1 is in shares of the component's range. The sum of all "
        "components, each divided by its range, is answered by the same model without new training."
    )
    rows, pairs = [], []
    for name, found in summary.tasks.items():
        for d, part in enumerate(TASKS[name]):
            covered = np.mean([e.coverage_90[d] for e in found])
            rows.append((_short(name), part, *_spread([e.w1[d] for e in found]), f"{covered:.1%}"))
        rows.append((_short(name), "sum", *_spread([e.w1_sum for e in found]), ""))
        for i, j in combinations(range(len(TASKS[name])), 2):
            said, true = (
                [c[i][j] for c in each]
                for each in zip(*((e.correlation, e.correlation_fresh) for e in found), strict=True)
            )
            apart = np.abs(np.subtract(said, true))
            words = f"{TASKS[name][i]}, {TASKS[name][j]}"
            numbers = (np.mean(said), np.mean(true), apart.mean(), apart.max())
            pairs.append((_short(name), words, *(f"{v:.3f}" for v in numbers)))
    seconds = [e.seconds for found in summary.tasks.values() for e in found]
    worst = {name: max(e.correlation_error for e in found) for name, found in summary.tasks.items()}
    within = [name for name, error in worst.items() if error <= _NEAR]
    far = ", ".join(f"{_short(name)} ({e:.2f})" for name, e in worst.items() if e > _NEAR)
    more = (
        f"Every correlation is within {_NEAR} of that of the fresh episodes on {len(within)} of "
        f"{len(worst)} tasks, for every seed{f'; the largest error elsewhere: {far}' if far else ''}. "
        f"Planning took {min(seconds):.0f} to {max(seconds):.0f} s a seed, held-out episodes included."
    )
    picture = Picture(
        figures / "vector-returns.png", "Fresh and predicted returns, first two components."
    )
    header = ("task", "component", "W1, mean", "W1, worst seed", "coverage of 90 % intervals")
    names = ("task", "components", "correlation", "in fresh episodes", "error, mean", "worst seed")
    return [
        Section("Vector returns from transitions", text, Table(header, rows), [picture]),
        Section("Correlations of vector returns", more, Table(names, pairs)),
    ]


def _spread(values: list[float]) -> tuple[str, str]:
    return f"{np.mean(values):.4f}", f"{max(values):.4f}"


EXPERIMENT = Experiment(
    name="vector-returns",
    title="Vector returns from transitions",
    about="Vector rewards of MO-Gymnasium, learned from transitions: components and correlations.",
    options=VectorOptions,
    summary=VectorSummary,
    run=run,
    sections=sections,
    order=125,
    page="evaluation",
    published={"seed": 600, "seeds": 3},
)
