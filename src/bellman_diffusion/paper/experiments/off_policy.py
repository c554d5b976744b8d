"""Off-policy evaluation: the return of a policy from a log in which other actions were taken as well."""

import time
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from bellman_diffusion.environments import make_env
from bellman_diffusion.paper.cells import load_or_run
from bellman_diffusion.paper.evaluation_tasks import (
    TASKS,
    Task,
    seen_returns,
    trained,
    true_returns,
)
from bellman_diffusion.paper.experiment import Experiment, SeededOptions, Summary, Workplace, option
from bellman_diffusion.planning.acting import ActingPolicy, acting
from bellman_diffusion.planning.logs import Log
from bellman_diffusion.planning.plan import PlanSettings, plan_log
from bellman_diffusion.planning.sampling import Sampler
from bellman_diffusion.render.page import Section, Table

NAMES = ("CartPole", "Pendulum")
_TINY = 1e-9


@dataclass(frozen=True)
class OffPolicyOptions(SeededOptions):
    """Three seeds by default."""

    seeds: int = option(3, "How many logs, from --seed on.", min=1)
    epsilon: float = option(0.3, "Share of random actions in the log.", min=0.0, max=1.0)
    transitions: int = option(100_000, "Rows of the log.", min=1000)
    returns: int = option(10_000, "Fresh returns of the policy to compare with.", min=100)
    max_iter: int = option(4000, "Training steps.", min=1)


class LogErrors(msgspec.Struct, frozen=True, kw_only=True):
    """One log: what was estimated of the policy, and what the log's own episodes returned."""

    mean: float
    cvar_10: float
    mean_of_log: float
    outside_log: float
    seconds: float


class OffPolicyRow(msgspec.Struct, kw_only=True):
    """One environment: the policy's fresh returns, and every log."""

    env_id: str
    gamma: float
    mean: float
    cvar_10: float
    range: tuple[float, float]
    per_seed: list[LogErrors]

    @property
    def mean_errors(self) -> list[float]:
        """As shares of the size of the mean."""
        return [abs(e.mean - self.mean) / abs(self.mean) for e in self.per_seed]

    @property
    def cvar_errors(self) -> list[float]:
        """As shares of the range of fresh returns."""
        width = max(self.range[1] - self.range[0], _TINY)
        return [abs(e.cvar_10 - self.cvar_10) / width for e in self.per_seed]


class OffPolicySummary(Summary):
    """Every environment."""

    seeds: list[int]
    epsilon: float
    n_transitions: int
    n_returns: int
    rows: dict[str, OffPolicyRow]
    seconds: float


def run(options: OffPolicyOptions, work: Workplace) -> OffPolicySummary:
    """Train the policies and play them; then evaluate them from every log."""
    start = time.perf_counter()
    tasks = {name: partial(_true_cell, work.cells, name, options) for name in NAMES}
    truth = work.run_parallel("policies and their returns", tasks)
    keys = [(name, seed) for seed in options.all_seeds for name in NAMES]
    found = work.run_parallel(
        "logs", {key: partial(_log_cell, work.cells, *key, options) for key in keys}
    )
    return OffPolicySummary(
        seeds=list(options.all_seeds),
        epsilon=options.epsilon,
        n_transitions=options.transitions,
        n_returns=options.returns,
        rows={n: _row(TASKS[n], truth[n], [found[n, s] for s in options.all_seeds]) for n in NAMES},
        seconds=time.perf_counter() - start,
    )


def _row(task: Task, returns: list[float], per_seed: list[LogErrors]) -> OffPolicyRow:
    value = np.sort(returns)
    return OffPolicyRow(
        env_id=task.env_id,
        gamma=task.gamma,
        mean=float(value.mean()),
        cvar_10=float(value[: len(value) // 10].mean()),
        range=(float(value[0]), float(value[-1])),
        per_seed=per_seed,
    )


def _case(name: str, options: OffPolicyOptions, **more: Any) -> dict[str, Any]:
    kept = {k: v for k, v in asdict(options).items() if k != "seeds"}
    return {"task": TASKS[name]._asdict(), **kept, **more}


def _policy(cells: Path, name: str, options: OffPolicyOptions) -> Path:
    return cells / f"{name}-{options.seed}.zip"


def _true_cell(cells: Path, name: str, options: OffPolicyOptions) -> list[float]:
    def play() -> list[float]:
        task, policy = TASKS[name], _policy(cells, name, options)
        trained(task, policy, options.seed)
        return true_returns(task, policy, options.returns, options.seed + 1_000_003).value.tolist()

    return load_or_run(cells / f"{name}-returns.json", _case(name, options), list[float], play)


def _log_cell(cells: Path, name: str, seed: int, options: OffPolicyOptions) -> LogErrors:
    path = cells / f"{name}-{seed}.json"
    return load_or_run(
        path, _case(name, options, log=seed), LogErrors,
        lambda: _evaluate(TASKS[name], _policy(cells, name, options), seed, options),
    )  # fmt: skip


def _evaluate(task: Task, policy: Path, seed: int, options: OffPolicyOptions) -> LogErrors:
    trained(task, policy, options.seed)
    log = logged(task, policy, options.transitions, seed, options.epsilon)
    start = time.perf_counter()
    settings = PlanSettings(
        "log", policy=str(policy), gamma=task.gamma, max_iter=options.max_iter, seed=seed
    )
    planner = plan_log(settings, log)
    seconds = time.perf_counter() - start
    episode = planner.start_distribution()
    value, _, first = seen_returns(log.transitions, task.gamma)
    return LogErrors(
        mean=float(episode.mean()),
        cvar_10=float(episode.cvar(0.1)),
        mean_of_log=float(np.mean(value[first])),
        outside_log=planner.figures.outside_log or 0.0,
        seconds=seconds,
    )


class _Recorded(ActingPolicy):
    """A policy that keeps what it did."""

    def __init__(self, policy: ActingPolicy) -> None:
        self.policy = policy
        self.steps: list[list[Any]] = []

    def actions(self, observations: Any, fresh: np.ndarray) -> list[Any]:
        """Of the policy."""
        self.steps.append(self.policy.actions(observations, fresh))
        return self.steps[-1]


def logged(task: Task, policy: Path, n: int, seed: int, epsilon: float) -> Log:
    """Episodes of the policy with a share of random actions."""
    make = partial(make_env, task.env_id)
    recorded = _Recorded(acting(str(policy), make(), seed, epsilon, stochastic=task.stochastic))
    rows = Sampler(make, recorded).transitions(n, seed)
    # Rows stand environment by environment, steps were made in all of them at once.
    n_envs = len(recorded.steps[0])
    counts = [len(range(i, n, n_envs)) for i in range(n_envs)]
    action = [np.asarray(recorded.steps[t][i]) for i in range(n_envs) for t in range(counts[i])]
    return Log.of(
        rows.observation, rows.reward, rows.next_observation, rows.terminated,
        truncated=rows.ended, action=np.stack(action), name="the log",
    )  # fmt: skip


def sections(summary: OffPolicySummary, figures: Path) -> list[Section]:
    """A row for each environment."""
    del figures
    text = (
        f"Logs of {summary.n_transitions:,} transitions in which {summary.epsilon:.0%} of the actions "
        "are random; the policy without them is evaluated from the log alone, next to "
        f"{summary.n_returns:,} fresh returns of it. Errors of the mean are relative to the mean, those "
        "of CVaR 10 % to the range of the fresh returns; each of "
        f"{len(summary.seeds)} logs."
    )
    rows = [
        (
            name, f"{r.gamma:g}", f"{r.mean:.1f}", f"{np.mean([e.mean_of_log for e in r.per_seed]):.1f}",
            _shares(r.mean_errors), f"{r.cvar_10:.1f}", _shares(r.cvar_errors),
        )
        for name, r in summary.rows.items()
    ]  # fmt: skip
    header = (
        "task", "γ", "mean of the policy", "mean of the log", "errors of the mean", "CVaR 10 %",
        "errors of CVaR 10 %",
    )  # fmt: skip
    return [Section("From a log with random actions", text, Table(header, rows))]


def _shares(values: list[float]) -> str:
    return ", ".join(f"{100 * v:.1f} %" for v in values)


EXPERIMENT = Experiment(
    name="off-policy",
    title="Off-policy evaluation of a log",
    about="The return distribution of a policy from logs with random actions, against fresh episodes.",
    options=OffPolicyOptions,
    summary=OffPolicySummary,
    run=run,
    sections=sections,
    order=113,
    page="evaluation",
    published={"seed": 500, "seeds": 3},
)
