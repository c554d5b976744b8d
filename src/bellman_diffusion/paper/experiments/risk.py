"""Policies that are best for CVaR: against stationary policies, against simulation, and the frontier."""

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from bellman_diffusion.environments import finite_mdp, make_env
from bellman_diffusion.environments.windy_cliff import WINDY_CLIFF
from bellman_diffusion.paper.cells import load_or_run
from bellman_diffusion.paper.experiment import Experiment, Options, Summary, Workplace, option
from bellman_diffusion.paper.risk_models import betting, inventory
from bellman_diffusion.planning.certify import certify
from bellman_diffusion.planning.monte_carlo import MonteCarlo, simulate
from bellman_diffusion.planning.risk_optimal import Objective, controlled_chain, risk_optimal_policy
from bellman_diffusion.render.figure import new_figure, save_figure
from bellman_diffusion.render.page import Picture, Section, Table
from bellman_diffusion.returns.certificate import Certificate
from bellman_diffusion.returns.mdp import FiniteMDP, Policy
from bellman_diffusion.returns.tabular_policies import optimal_policy

ALPHA = 0.1
WEIGHTS = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0)
# Cells of a stationary policy's first evaluation, and of those that may be better than ours.
_COARSE, _FINE = 66, 1026
_ACCURACY = 1e-3


class Problem(NamedTuple):
    """A model and its discount; all of its deterministic policies where they are few."""

    model: Callable[[], FiniteMDP]
    gamma: float
    all_policies: bool = False


PROBLEMS = {
    "windy cliff": Problem(lambda: finite_mdp(make_env(WINDY_CLIFF)), 0.95),
    "FrozenLake 8×8": Problem(lambda: finite_mdp(make_env("FrozenLake8x8-v1")), 0.95),
    "inventory": Problem(inventory, 0.9, all_policies=True),
    "betting": Problem(betting, 1.0, all_policies=True),
}


@dataclass(frozen=True)
class RiskOptions(Options):
    """How hard the search for better policies is."""

    policies: int = option(10_000, "Stationary policies to compare with.", min=1)
    episodes: int = option(1_000_000, "Simulated episodes of the optimal policy.", min=1000)


class Point(msgspec.Struct):
    """Mean and CVaR 10 % of a policy's return from the start; estimates."""

    mean: float
    cvar: float


class RiskRow(msgspec.Struct, kw_only=True):
    """One problem."""

    name: str
    n_states: int
    n_pairs: int
    """Pairs of state and stock that the optimal policy meets."""
    n_policies: int
    all_policies: bool
    cvar: tuple[float, float]
    """Certified, of the policy that is optimal for CVaR 10 %."""
    cvar_of_mean_optimal: tuple[float, float]
    best_stationary: tuple[float, float]
    """Certified CVaR of the best stationary policy found."""
    simulated: float
    simulated_error: float
    frontier: list[Point]
    """For the weights of CVaR in WEIGHTS."""
    stationary: list[Point]
    """Some of the stationary policies, for the figure."""
    seconds: float

    @property
    def deviations(self) -> float:
        """Standard errors between the simulation and the certified interval."""
        low, high = self.cvar
        gap = max(low - self.simulated, self.simulated - high, 0.0)
        return gap / max(self.simulated_error, 1e-12)


class RiskSummary(Summary):
    """A row for each problem."""

    rows: list[RiskRow]
    n_episodes: int
    seconds: float


def run(options: RiskOptions, work: Workplace) -> RiskSummary:
    """Every problem, in parallel."""
    start = time.perf_counter()
    tasks = {name: partial(_cell, work.cells, name, options) for name in PROBLEMS}
    found = work.run_parallel("problems", tasks)
    rows = [found[name] for name in PROBLEMS]
    _draw(work.figures / "frontier.png", rows)
    seconds = time.perf_counter() - start
    return RiskSummary(rows=rows, n_episodes=options.episodes, seconds=seconds)


def _cell(cells: Path, name: str, options: RiskOptions) -> RiskRow:
    path = cells / f"{name.replace(' ', '-')}.json"
    case = asdict(options) | {"gamma": PROBLEMS[name].gamma}
    return load_or_run(path, case, RiskRow, partial(_solve, name, options))


def _solve(name: str, options: RiskOptions) -> RiskRow:
    start = time.perf_counter()
    problem = PROBLEMS[name]
    mdp, gamma = problem.model(), problem.gamma
    policy = risk_optimal_policy(mdp, gamma, Objective("cvar", ALPHA))
    controlled = controlled_chain(mdp, policy)
    first = np.flatnonzero(mdp.start > 0)
    assert len(first) == 1, "one start"
    ours = _certify(controlled.chain, gamma, 0, accuracy=_ACCURACY)
    returns = simulate(controlled.chain, gamma, 0, options.episodes, options.seed)[:, 0]
    seen = MonteCarlo.of(returns)
    best, n_policies, points = _search(mdp, problem, options, _interval(ours)[0])
    usual = _certify(mdp.under(optimal_policy(mdp, gamma)), gamma, int(first[0]), n_cells=_FINE)
    return RiskRow(
        name=name,
        n_states=mdp.n_states,
        n_pairs=len(controlled.state),
        n_policies=n_policies,
        all_policies=problem.all_policies,
        cvar=_interval(ours),
        cvar_of_mean_optimal=_interval(usual),
        best_stationary=best,
        simulated=seen.cvar_10.value,
        simulated_error=seen.cvar_10.error,
        frontier=[_frontier_point(mdp, gamma, weight) for weight in WEIGHTS],
        stationary=points,
        seconds=time.perf_counter() - start,
    )


def _certify(chain, gamma: float, state: int, **options) -> Certificate:
    with warnings.catch_warnings():
        # Where memory is short the interval is wider; it is what is reported.
        warnings.simplefilter("ignore", RuntimeWarning)
        return certify(chain, gamma, **options).certificate(np.array([state]))


def _interval(found: Certificate) -> tuple[float, float]:
    low, high = found.cvar(ALPHA)
    return float(low[0]), float(high[0])


def _search(
    mdp: FiniteMDP, problem: Problem, options: RiskOptions, ours: float
) -> tuple[tuple[float, float], int, list[Point]]:
    """The best CVaR of a stationary policy, how many were tried, and some of them.

    The upper bound of few cells is enough to see that most are worse than ours.
    """
    state = int(np.argmax(mdp.start))
    best, points, count = (-np.inf, -np.inf), [], 0
    for policy in _policies(mdp, problem, options):
        chain = mdp.under(policy)
        if problem.gamma == 1 and chain.endless_states().size:
            continue
        found = _certify(chain, problem.gamma, state, n_cells=_COARSE)
        low, high = _interval(found)
        if high > max(ours, best[1]):
            found = _certify(chain, problem.gamma, state, n_cells=_FINE)
            low, high = _interval(found)
        best = max(best, (low, high), key=lambda pair: pair[1])
        points.append(Point(float(found.mean()[0][0]), (low + high) / 2))
        count += 1
    kept = points[:: max(1, len(points) // 300)]
    return best, count, kept


def _policies(mdp: FiniteMDP, problem: Problem, options: RiskOptions) -> Iterator[Policy]:
    """All deterministic ones; else changes of the mean-optimal one, deterministic and stochastic."""
    available = mdp.available()
    if problem.all_policies:
        # States that end the episode at once and pay nothing have nothing to choose.
        moving = np.unique(mdp.state[~mdp.done | (mdp.reward[:, 0] != 0)])
        for choice in product(range(mdp.n_actions), repeat=len(moving)):
            actions = np.zeros(mdp.n_states, int)
            actions[moving] = choice
            yield np.eye(mdp.n_actions)[actions]
        return
    rng = np.random.default_rng(options.seed)
    usual = optimal_policy(mdp, problem.gamma)
    for i in range(options.policies):
        share = rng.uniform() ** 2
        changed = rng.uniform(size=mdp.n_states) < share
        if i % 2:
            other = np.eye(mdp.n_actions)[
                np.argmax(rng.uniform(size=available.shape) * available, 1)
            ]
        else:
            other = rng.dirichlet(np.full(mdp.n_actions, 0.5), mdp.n_states) * available
            other /= other.sum(axis=1, keepdims=True)
        yield np.where(changed[:, None], other, usual)


def _frontier_point(mdp: FiniteMDP, gamma: float, weight: float) -> Point:
    policy = risk_optimal_policy(mdp, gamma, Objective("cvar", ALPHA, weight))
    found = _certify(controlled_chain(mdp, policy).chain, gamma, 0, accuracy=5 * _ACCURACY)
    return Point(float(found.mean()[0][0]), float(np.mean(_interval(found))))


def _draw(path: Path, rows: list[RiskRow]) -> None:
    """Mean against CVaR of stationary policies, and the frontier of optimal ones."""
    figure = new_figure(9, 7.5)
    for axes, row in zip(figure.subplots(2, 2).flat, rows, strict=False):
        others = np.array([(p.cvar, p.mean) for p in row.stationary])
        ours = np.array([(p.cvar, p.mean) for p in row.frontier])
        axes.plot(*others.T, ".", color="0.7", markersize=4, label="stationary policies")
        axes.plot(*ours.T, "o-", color="#1f5f99", label="optimal for mean and CVaR")
        axes.plot(*ours[-1], "s", color="#c2571a", label="optimal for CVaR")
        axes.set(xlabel="CVaR 10 % of the return", ylabel="mean return", title=row.name)
        # Hopeless policies would squeeze the rest.
        near = others[:, 0] >= np.quantile(others[:, 0], 0.4)
        low = min(others[near, 0].min(), ours[:, 0].min())
        # Where every CVaR is the same, rounding is not worth a picture.
        room = max(0.05 * (ours[:, 0].max() - low), 1e-3)
        axes.set_xlim(low - room, ours[:, 0].max() + room)
        axes.locator_params(axis="x", nbins=6)
        axes.grid(visible=True, alpha=0.3)
    figure.axes[0].legend(fontsize=8)
    save_figure(figure, path)


def sections(summary: RiskSummary, figures: Path) -> list[Section]:
    """One table and the frontiers."""
    text = (
        "CVaR 10 % of the return from the start. The policy that is optimal for it looks at the state and "
        "at the return that is still needed. Intervals are certified. Stationary policies are all "
        "deterministic ones where they are few, else the mean-optimal policy with a random share of "
        "its states changed, half of them to random actions, half to random mixtures. The simulation "
        f"has {summary.n_episodes:,} episodes."
    )
    rows = [
        (
            r.name, f"{r.n_states}", f"{r.n_pairs:,}", _shown(r.cvar), _shown(r.best_stationary),
            f"{'all ' if r.all_policies else ''}{r.n_policies:,}", _shown(r.cvar_of_mean_optimal),
            f"{r.simulated:.4f} ± {r.simulated_error:.4f}", f"{r.deviations:.1f}",
        )
        for r in summary.rows
    ]  # fmt: skip
    header = ("problem", "states", "pairs", "optimal for CVaR", "best stationary policy", "of",
              "optimal for the mean", "simulated", "standard errors apart")  # fmt: skip
    picture = Picture(
        figures / "frontier.png",
        "Mean against CVaR 10 %: stationary policies, and policies over state and stock that are "
        "optimal for mixtures of the two.",
    )
    return [Section("Risk-optimal policies", text, Table(header, rows, n_names=1), [picture])]


def _shown(interval: tuple[float, float]) -> str:
    # Adding 0 makes 0 of −0.
    return f"[{interval[0] + 0.0:.4f}, {interval[1] + 0.0:.4f}]"


EXPERIMENT = Experiment(
    name="risk",
    title="Risk-optimal policies",
    about="Policies that are best for CVaR, next to stationary ones and to simulation; the frontier.",
    options=RiskOptions,
    summary=RiskSummary,
    run=run,
    sections=sections,
    order=107,
    page="risk",
    published={"seed": 80},
)
