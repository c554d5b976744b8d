"""The report of a plan: return distributions from where episodes start, their risk, their accuracy."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from bellman_diffusion.planning.planner import PlanFigures, Planner
from bellman_diffusion.render.page import Picture, Section, Table, write_page
from bellman_diffusion.render.returns import draw_returns

_FIGURES = {
    "reference": "compared with",
    "reference_error": "error of the reference, at most",
    "n_states": "states",
    "w1_worst": "W1 of the worst state",
    "w1_mean": "W1, mean over states",
    "w1_worst_relative": "W1 of the worst state, as a share of the range",
    "mean_error_worst": "error of the mean, worst state",
    "gradient_error_worst": "error of the gradient field, worst state",
    "return_range": "range of returns",
    "n_updates": "Bellman updates",
    "n_transitions": "transitions",
    "n_returns": "held-out returns",
    "n_episodes": "held-out episodes",
    "mean_monte_carlo": "mean of held-out returns",
    "mean_predicted": "predicted mean",
    "mean_error_relative": "error of the mean, relative",
    "mean_error_start": "error of the mean at starts, relative",
    "coverage_90": "coverage of 90 % intervals",
    "pit_distance": "distance of the probability integral transform from uniform",
    "w1_worst_group": "W1 of the worst group of similar states",
    "cvar_10_error_worst_group": "error of CVaR 10 % of the worst group",
}


class Risk(msgspec.Struct, kw_only=True):
    """Risk figures of the return from one observation."""

    observation: Any
    mean: float
    deviation: float
    quantile_05: float
    quantile_95: float
    cvar_10: float
    cvar_01: float


def risk_figures(planner: Planner) -> list[Risk]:
    """Of each start."""
    found = planner.distribution(planner.starts)
    low, high = np.asarray(found.quantile(np.array([0.05, 0.95], np.float32)), float).T
    columns = (found.mean(), np.sqrt(np.asarray(found.var())), low, high, found.cvar(0.1),
               found.cvar(0.01))  # fmt: skip
    names = Risk.__struct_fields__[1:]
    return [
        Risk(
            observation=o,
            **dict(zip(names, (float(np.asarray(c)[i]) for c in columns), strict=True)),
        )
        for i, o in enumerate(planner.starts)
    ]


def risk_table(risks: Sequence[Risk]) -> Table:
    """One row for each start."""
    header = ("from", "mean", "standard deviation", "5 %", "95 %", "CVaR 10 %", "CVaR 1 %")
    rows = [
        (_name(r.observation), *(f"{getattr(r, f):.4g}" for f in Risk.__struct_fields__[1:]))
        for r in risks
    ]
    return Table(header, rows, n_names=1)


def accuracy_table(figures: PlanFigures) -> Table:
    """The figures of the evaluation, one a row."""
    rows = []
    for name, value in figures.to_json().items():
        if isinstance(value, int | float | str) and not isinstance(value, bool):
            shown = f"{value:.4g}" if isinstance(value, float) else str(value)
            rows.append((_FIGURES.get(name, name.replace("_", " ")), shown))
    return Table(("figure", "value"), rows, n_names=1)


def write_plan_report(out: Path, planner: Planner, command: str) -> Path:
    """Draw the distributions and write `report.html`."""
    title = f"Plan: {planner.header.env_id}"
    return write_page(out / "report.html", title, command, plan_sections(out, planner))


def plan_sections(out: Path, planner: Planner) -> list[Section]:
    """The parts of the report."""
    h = planner.header
    picture = draw_returns(
        out / "figures" / "returns.png",
        f"{h.env_id}, {h.policy} policy, γ = {h.gamma:g}: return from the start",
        [_name(o) for o in planner.starts],
        planner.distribution(planner.starts),
        planner.exact,
    )
    text = (
        f"The return of the {h.policy} policy"
        + (f" with {h.epsilon:.0%} random actions" if h.epsilon else "")
        + f", smoothed by N(0, σ²) with σ = {h.sigma:.4g}, on {h.n_basis} basis functions over "
        f"[{h.support[0]:.4g}, {h.support[1]:.4g}]."
    )
    return [
        Section(f"{h.env_id}: return from the start", text, risk_table(risk_figures(planner))),
        Section("Return distribution", pictures=[Picture(picture, "Return distributions")]),
        Section("Accuracy", table=accuracy_table(planner.figures)),
    ]


def _name(observation: Any) -> str:
    if isinstance(observation, list):
        parts = [f"{v:.3g}" if isinstance(v, float) else str(v) for v in observation]
        return f"state ({', '.join(parts)})"
    return f"state {observation}"
