"""Agents beyond the paper's cart-pole: each environment with its registered settings."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import jax
import msgspec
import numpy as np

from bellman_diffusion.agents.make import make_jax_learner
from bellman_diffusion.agents.registry import default_config
from bellman_diffusion.agents.train import Training
from bellman_diffusion.environments import WINDY_CLIFF
from bellman_diffusion.paper.agent_cells import LearningCurve, acting, load_or_train
from bellman_diffusion.paper.experiment import Experiment, SeededOptions, Summary, Workplace, option
from bellman_diffusion.render.curves import draw_curves
from bellman_diffusion.render.page import Picture, Section, Table

ALPHA = 0.1
"""The level of CVaR that the risk-averse agent on the windy cliff maximises."""
_CLIFF_EPISODES = 4000
# Names of agents have signs that names of files may not have.
_IN_FILES = str.maketrans(" :", "--")


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
    "windycliff": Case(WINDY_CLIFF, None, risks=("mean", f"cvar:{ALPHA}")),
}


@dataclass(frozen=True)
class AgentsOptions(SeededOptions):
    """Environments and steps."""

    seeds: int = option(5, "How many seeds, from --seed on.", min=1)
    steps: int | None = option(None, "Steps of each seed; the registered ones by default.", min=1)
    envs: str = option(",".join(CASES), "Which environments, separated by commas.")


class CliffReturns(msgspec.Struct, kw_only=True):
    """Many greedy episodes on the windy cliff."""

    mean: float
    cvar_10: float


class AgentCell(LearningCurve, kw_only=True, omit_defaults=True):
    """The training of one agent."""

    steps_per_second: float
    cliff: list[CliffReturns] | None = None


class AgentRow(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Greedy returns at the end of training."""

    steps: int
    returns: list[float]
    mean: float
    steps_per_second: float
    bar: float | None = None
    at_bar: int | None = None
    cliff: list[CliffReturns] | None = None


class AgentsSummary(Summary):
    """Rows by environment and agent."""

    flat: ClassVar[str | None] = "environments"
    seeds: list[int]
    environments: dict[str, dict[str, AgentRow]]


def run(options: AgentsOptions, work: Workplace) -> AgentsSummary:
    """Train what is missing."""
    seeds = list(options.all_seeds)
    found: dict[str, dict[str, AgentRow]] = {}
    changes: dict[str, Any] = {} if options.steps is None else {"steps": options.steps}
    for name in options.chosen("envs", CASES):
        case = CASES[name]
        cells: dict[str, AgentCell] = {}
        for algo, risk in [(a, r) for a in case.algorithms for r in case.risks]:
            config = default_config(case.env_id, algo=algo, risk=risk, **changes)
            label = algo if risk == "mean" else f"{algo} by {risk}"
            path, title = f"{name}-{label.translate(_IN_FILES)}", f"{case.env_id} {label}"
            cells[label] = load_or_train(work, path, title, config, seeds, AgentCell, _evaluate)
        found[name] = {label: _row(cell, case.bar) for label, cell in cells.items()}
        curves = {label: cell.curve() for label, cell in cells.items()}
        draw_curves(work.figures / f"learning-{name}.png", {case.env_id: curves}, case.bar)
    return AgentsSummary(seeds=seeds, environments=found)


def _evaluate(training: Training) -> AgentCell:
    on_the_cliff = training.config.env_id == WINDY_CLIFF
    n_seeds = len(training.seeds)
    return AgentCell(
        steps=training.steps.tolist(),
        returns=training.returns.T.round(3).tolist(),
        steps_per_second=training.steps_per_second,
        cliff=[_on_the_cliff(training, i) for i in range(n_seeds)] if on_the_cliff else None,
    )


def _on_the_cliff(training: Training, seed: int) -> CliffReturns:
    """The mean of many greedy episodes, and their CVaR."""
    whole = make_jax_learner(training.config)
    follow = jax.jit(partial(whole.greedy_returns, n=_CLIFF_EPISODES))
    key = jax.random.key(training.seeds[seed])
    returns = np.sort(np.asarray(follow(key, *acting(training, seed))))
    worst = returns[: int(ALPHA * len(returns))]
    return CliffReturns(mean=float(returns.mean()), cvar_10=float(worst.mean()))


def _row(cell: AgentCell, bar: float | None) -> AgentRow:
    last = np.array(cell.returns)[:, -1]
    return AgentRow(
        steps=cell.steps[-1],
        returns=last.tolist(),
        mean=float(last.mean()),
        steps_per_second=cell.steps_per_second,
        bar=bar,
        at_bar=None if bar is None else int((last >= bar).sum()),
        cliff=cell.cliff,
    )


def sections(summary: AgentsSummary, figures: Path) -> list[Section]:
    """Returns of every agent, the windy cliff, learning curves."""
    text = (
        f"{len(summary.seeds)} held-out seeds (no setting was tuned on them) with the registered "
        "settings; the returns are those of greedy episodes at the end of training."
    )
    found = [Section("Greedy returns", text, _table(summary))]
    if "windycliff" in summary.environments:
        text = (
            "On the windy cliff the short way has the better mean and the long way the better "
            f"CVaR 10 %. {_CLIFF_EPISODES:,} greedy episodes of each seed."
        )
        rows = [
            (label, str(seed), f"{one.mean:.2f}", f"{one.cvar_10:.2f}")
            for label, row in summary.environments["windycliff"].items()
            for seed, one in zip(summary.seeds, row.cliff or [], strict=True)
        ]
        table = Table(("agent", "seed", "mean return", "CVaR 10 %"), rows)
        found.append(Section("A risk-averse agent", text, table))
    caption = (
        "Greedy return over steps. Thin lines are seeds, thick ones the interquartile mean with "
        "its 95 % interval."
    )
    for name in summary.environments:
        picture = Picture(figures / f"learning-{name}.png", caption)
        found.append(Section(CASES[name].env_id, pictures=[picture]))
    return found


def _table(summary: AgentsSummary) -> Table:
    header = ("environment", "agent", "steps", "mean return", "each seed", "bar",
              "seeds at the bar")  # fmt: skip
    rows = []
    for name, agents in summary.environments.items():
        for label, row in agents.items():
            at_bar = "–" if row.at_bar is None else f"{row.at_bar} of {len(row.returns)}"
            bar = "–" if row.bar is None else f"{row.bar:g}"
            each = ", ".join(f"{value:.3g}" for value in row.returns)
            env_id, mean = CASES[name].env_id, f"{row.mean:.4g}"
            rows.append((env_id, label, f"{row.steps:,}", mean, each, bar, at_bar))
    return Table(header, rows)


EXPERIMENT = Experiment(
    name="agents",
    title="Agents on other environments",
    about="Agents on other environments: Acrobot, FrozenLake, LunarLander, Breakout, a windy cliff.",
    options=AgentsOptions,
    summary=AgentsSummary,
    run=run,
    sections=sections,
    order=130,
    page="agents",
    published={"seed": 4200, "seeds": 5},
)
