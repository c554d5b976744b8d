"""The report of a plan: the laws from where episodes start, their risk, and how right they are."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bellman_diffusion.bellman.environments import make_env
from bellman_diffusion.bellman.judge import Exact, exact_cdf, exact_fields
from bellman_diffusion.bellman.observations import from_index, to_row
from bellman_diffusion.bellman.planner import Planner
from bellman_diffusion.bellman.planning import chain_of
from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.report.page import Section, Table, write_page
from bellman_diffusion.report.returns import draw_laws

_RISK_HEADER = ("from", "mean", "deviation", "5 %", "95 %", "CVaR 10 %", "CVaR 1 %")
_MOST_STARTS = 3
_FIGURES = {
    "reference": "judged by",
    "reference_error": "error of the reference, at most",
    "n_states": "states",
    "w1_worst": "W1 of the worst state",
    "w1_mean": "W1, mean over states",
    "w1_worst_relative": "W1 of the worst state, in shares of the range",
    "mean_error_worst": "error of the mean, worst state",
    "gradient_error_worst": "error of the gradient field, worst state",
    "return_range": "range of returns",
    "n_updates": "Bellman updates",
    "n_returns": "held-out returns",
    "n_episodes": "held-out episodes",
    "mean_monte_carlo": "mean of held-out returns",
    "mean_predicted": "mean predicted",
    "mean_error_relative": "error of the mean, relative",
    "mean_error_start": "error of the mean at starts, relative",
    "coverage_90": "share of returns within 90 % intervals",
    "pit_distance": "distance of the probability transform from even",
    "w1_worst_group": "W1 of the worst group of like states",
    "cvar_10_error_worst_group": "error of CVaR 10 % of the worst group",
}


def start_observations(planner: Planner, seed: int = 0) -> list[Any]:
    """Where episodes start: the likeliest states, or what the environment's reset gives."""
    env = make_env(planner.meta["env_id"], **planner.meta["env_options"])
    start = getattr(env.unwrapped, "initial_state_distrib", None)
    if start is not None:
        likeliest = np.argsort(-np.asarray(start), kind="stable")[:_MOST_STARTS]
        return [from_index(env.observation_space, int(i)) for i in likeliest if start[i] > 0]
    return [env.reset(seed=seed + i)[0] for i in range(_MOST_STARTS)]


def risk_figures(planner: Planner, observations: Sequence[Any]) -> list[dict[str, Any]]:
    """Mean, deviation, quantiles and CVaR of each observation's return."""
    laws = planner.distribution(observations)
    low, high = np.asarray(laws.quantile(np.array([0.05, 0.95], np.float32)), float).T
    figures = {
        "mean": laws.mean(),
        "deviation": np.sqrt(np.asarray(laws.var())),
        "quantile_05": low,
        "quantile_95": high,
        "cvar_10": laws.cvar(0.1),
        "cvar_01": laws.cvar(0.01),
    }
    return [
        {"observation": _plain(o)} | {k: float(np.asarray(v)[i]) for k, v in figures.items()}
        for i, o in enumerate(observations)
    ]


def risk_table(risks: Sequence[dict[str, Any]]) -> Table:
    """One row for each start."""
    rows = []
    for risk in risks:
        numbers = [f"{value:.4g}" for name, value in risk.items() if name != "observation"]
        rows.append((f"state {_short(risk['observation'])}", *numbers))
    return Table(_RISK_HEADER, rows, n_names=1)


def quality_table(figures: dict[str, Any]) -> Table:
    """The figures of the judgement, one a row."""
    rows = []
    for name, value in figures.items():
        if isinstance(value, int | float | str) and not isinstance(value, bool):
            shown = f"{value:.4g}" if isinstance(value, float) else str(value)
            rows.append((_FIGURES.get(name, name.replace("_", " ")), shown))
    return Table(("figure", "value"), rows, n_names=1)


def write_plan_report(out: Path, planner: Planner, command: str, seed: int = 0) -> Path:
    """Draw the laws and write `report.html`."""
    sections = plan_sections(out, planner, seed)
    return write_page(out / "report.html", f"Plan: {planner.meta['env_id']}", command, sections)


def plan_sections(out: Path, planner: Planner, seed: int = 0) -> list[Section]:
    """The parts of the report."""
    meta = planner.meta
    observations = start_observations(planner, seed)
    names = [f"state {_short(_plain(o))}" for o in observations]
    picture = draw_laws(
        out / "figures" / "returns.png",
        f"{meta['env_id']}, {meta['policy']} policy, γ = {meta['gamma']:g}: return from the start",
        names,
        planner.distribution(observations),
        _exact(planner, observations),
    )
    text = (
        f"The return of the {meta['policy']} policy"
        + (f" with {meta['epsilon']:.0%} random actions" if meta["epsilon"] else "")
        + f", smoothed by N(0, σ²) with σ = {meta['sigma']:.4g}, over {meta['functions']} functions on "
        f"[{meta['support'][0]:.4g}, {meta['support'][1]:.4g}]."
    )
    risks = risk_table(risk_figures(planner, observations))
    return [
        Section(f"{meta['env_id']}: the return from the start", text, risks),
        Section("Its law", pictures=[(picture, "Laws of the return")]),
        Section("How right it is", table=quality_table(meta["figures"])),
    ]


def _exact(planner: Planner, observations: Sequence[Any]) -> Exact | None:
    try:
        chain = chain_of(planner.meta)
    except InvalidInputError:
        return None
    x, cdf, _ = exact_cdf(chain, planner.meta["gamma"], planner.meta["sigma"])
    rows = [int(to_row(planner.space, o)[0]) for o in observations]
    return exact_fields(x, cdf[rows])


def _plain(observation: Any) -> Any:
    """An observation that JSON can hold."""
    if isinstance(observation, dict):
        return {k: _plain(v) for k, v in observation.items()}
    if isinstance(observation, tuple):
        return [_plain(v) for v in observation]
    return np.asarray(observation).tolist()


def _short(observation: Any) -> str:
    if isinstance(observation, list):
        parts = [f"{v:.3g}" if isinstance(v, float) else str(v) for v in observation]
        return f"({', '.join(parts)})"
    return str(observation)
