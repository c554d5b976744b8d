"""The report of a plan: return distributions from where episodes start, their risk, their accuracy."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from bellman_diffusion.planning.conformal import Conformal
from bellman_diffusion.planning.header import PlanFigures
from bellman_diffusion.planning.monte_carlo import MonteCarlo, disagreements
from bellman_diffusion.planning.planner import Planner
from bellman_diffusion.render.calibration import calibration_sections
from bellman_diffusion.render.joint import component_sections
from bellman_diffusion.render.page import Picture, Section, Table, write_page
from bellman_diffusion.render.returns import draw_returns
from bellman_diffusion.returns.atoms import AtomicReturn
from bellman_diffusion.returns.distribution import ReturnDistribution

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
    "n_cells": "cells",
    "accuracy_reached": "accuracy reached, as a share of the range",
    "peak_memory_gb": "peak memory of the process (GB)",
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


_NAMES = {"mean": "mean", "std": "standard deviation", "quantile_05": "5 %", "quantile_95": "95 %",
          "cvar_10": "CVaR 10 %", "cvar_01": "CVaR 1 %"}  # fmt: skip


# The row of the start distribution.
EPISODE = "an episode"


class Risk(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Risk figures of the return from one observation; exact planning adds intervals that hold."""

    observation: Any
    mean: float
    std: float
    quantile_05: float
    quantile_95: float
    cvar_10: float
    cvar_01: float
    mean_bounds: tuple[float, float] | None = None
    std_bounds: tuple[float, float] | None = None
    quantile_05_bounds: tuple[float, float] | None = None
    quantile_95_bounds: tuple[float, float] | None = None
    cvar_10_bounds: tuple[float, float] | None = None
    cvar_01_bounds: tuple[float, float] | None = None
    w1_bound: float | None = None


def _figures(found: Any) -> dict[str, Any]:
    """Of a distribution, or of its certificate."""
    return {
        "mean": found.mean(),
        "std": found.std(),
        "quantile_05": found.quantile(0.05),
        "quantile_95": found.quantile(0.95),
        "cvar_10": found.cvar(0.1),
        "cvar_01": found.cvar(0.01),
    }


def risk_figures(planner: Planner) -> list[Risk]:
    """Of each start."""
    return risks_of(planner.distribution(planner.starts), planner.starts)


def episode_risk(planner: Planner) -> Risk | None:
    """Of a whole episode, from the start distribution, where it was learned from episodes."""
    if not planner.header.start_rows or planner.header.kind == "paper":
        return None
    figures = _figures(planner.start_distribution())
    mean, std, low, high, cvar_10, cvar_01 = (float(figures[name]) for name in _NAMES)
    return Risk(
        observation=EPISODE,
        mean=mean,
        std=std,
        quantile_05=low,
        quantile_95=high,
        cvar_10=cvar_10,
        cvar_01=cvar_01,
    )


def risks_of(found: ReturnDistribution, observations: Sequence[Any]) -> list[Risk]:
    """Of the distributions of some observations."""
    figures = {name: np.asarray(values, float) for name, values in _figures(found).items()}
    risks: list[dict[str, Any]] = [
        {"observation": o} | {name: float(values[i]) for name, values in figures.items()}
        for i, o in enumerate(observations)
    ]
    if isinstance(found, AtomicReturn) and found.certificate is not None:
        certificate = found.certificate
        w1 = certificate.w1()
        intervals = {name: np.stack(pair, -1) for name, pair in _figures(certificate).items()}
        for i, risk in enumerate(risks):
            for name, pairs in intervals.items():
                low, high = (float(v) for v in pairs[i])
                risk[f"{name}_bounds"] = (low, high)
                # Single precision must not take an estimate out of its interval.
                risk[name] = float(np.clip(risk[name], low, high))
            risk["w1_bound"] = float(w1[i])
    return [Risk(**risk) for risk in risks]


def plan_table(planner: Planner, risks: Sequence[Risk]) -> Table:
    """The starts, and the whole episode where it is known, next to Monte Carlo."""
    figures, episode = planner.figures, episode_risk(planner)
    if episode is None:
        return risk_table(risks, figures.monte_carlo)
    seen = [] if figures.start is None else [figures.start]
    return risk_table([episode, *risks], seen)


def risk_table(risks: Sequence[Risk], monte_carlo: Sequence[MonteCarlo] = ()) -> Table:
    """For each start a row of estimates, one of certified intervals, one of Monte-Carlo estimates."""
    rows: list[tuple[str, ...]] = []
    for i, risk in enumerate(risks):
        name = _name(risk.observation)
        rows.append((name, *(f"{getattr(risk, f):.4g}" for f in _NAMES)))
        if risk.w1_bound is not None:
            pairs = [getattr(risk, f"{f}_bounds") for f in _NAMES]
            rows.append((f"{name}: certified", *(f"[{a:.4g}, {b:.4g}]" for a, b in pairs)))
        if i < len(monte_carlo):
            found = monte_carlo[i]
            cells = [getattr(found, f, None) for f in _NAMES]
            shown = ["" if c is None else f"{c.value:.4g} ± {c.error:.1g}" for c in cells]
            rows.append((f"{name}: {found.n_episodes:,} episodes", *shown))
    return Table(("from", *_NAMES.values()), rows, n_names=1)


def warnings_of(planner: Planner, risks: Sequence[Risk]) -> list[str]:
    """Where Monte Carlo contradicts the figures, in sentences."""
    said = []
    for risk, found in zip(risks, planner.figures.monte_carlo, strict=False):
        name = _name(risk.observation)
        said += [f"From {name}: {text}." for text in disagreements(found, risk)]
    episode, seen = episode_risk(planner), planner.figures.start
    if episode is not None and seen is not None:
        said += [f"Of an episode: {text}." for text in disagreements(seen, episode)]
    return said


def conformal_table(found: Sequence[Conformal]) -> Table:
    """Raw coverage and the widening that repairs it."""
    header = ("level", "raw coverage", "widened at each end by", "held-out episodes")
    rows = [
        (f"{c.level:.0%}", f"{c.coverage_raw:.1%}", f"{c.widening:.4g}", f"{c.n_episodes:,}")
        for c in found
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
    if planner.is_vector:
        return component_sections(out, planner, plan_sections)
    h = planner.header
    picture = draw_returns(
        out / "figures" / "returns.png",
        f"{h.env_id}, {h.policy} policy, γ = {h.gamma:g}: return from the start",
        [_name(o) for o in planner.starts],
        planner.distribution(planner.starts),
        planner.exact,
    )
    risks = risk_figures(planner)
    caption = (
        f"Scalar and gradient field are those of return + N(0, σ²), σ = {h.sigma:.3g}; quantiles and "
        "CVaR are those of the return itself. Atoms of 2 % or more are stems, not part of the fields."
    )
    return [
        Section(
            f"{h.env_id}: return from the start", _about(planner, risks), plan_table(planner, risks)
        ),
        Section("Return distribution", pictures=[Picture(picture, caption)]),
        Section("Accuracy", table=accuracy_table(planner.figures)),
        *_calibration(out, planner.figures),
    ]


def _calibration(out: Path, figures: PlanFigures) -> list[Section]:
    """How the predictions compare with held-out returns; what the intervals promise."""
    if figures.held_out is None:
        return []
    # Planners that were saved by an older release have no histogram.
    measured = calibration_sections(out, figures.held_out) if figures.held_out.pit_histogram else []
    if not figures.conformal:
        text = (
            "Cannot say: too few held-out episodes ended for an interval with a promised coverage. "
            "Use more --samples."
        )
        return [*measured, Section("Calibrated intervals", text)]
    text = (
        "Split conformal prediction: widened by the figures below, the interval from a start covers "
        "the return of a fresh episode with at least the stated probability. The promise is for the "
        "observations that episodes start from."
    )
    table = conformal_table(figures.conformal)
    return [*measured, Section("Calibrated intervals", text, table)]


def _about(planner: Planner, risks: Sequence[Risk]) -> str:
    h, figures = planner.header, planner.figures
    text = f"The return of the {h.policy} policy"
    text += ", actions sampled from its distribution" if h.stochastic else ""
    if h.objective != "mean":
        text += f" for {h.objective} of the whole episode, which looks at the rewards so far"
    text += f" with {h.epsilon:.0%} random actions" if h.epsilon else ""
    text += f", γ = {h.gamma:g}, over [{h.support[0]:.4g}, {h.support[1]:.4g}]"
    text += f"; episodes end after {h.time_limit} steps." if h.time_limit else "."
    if figures.accuracy_reached is not None:
        text += (
            " Intervals are certified: they hold by proof, for every state. The worst state's W1 bound "
            f"or CVaR 10 % interval is {figures.accuracy_reached:.2g} of the range."
        )
    if warned := warnings_of(planner, risks):
        text += "\n\n**Monte Carlo disagrees.** " + " ".join(warned)
    return text


def _name(observation: Any) -> str:
    if observation == EPISODE:
        return EPISODE
    if isinstance(observation, list):
        # Rows of pixels; the observation of a pair may be a list too, but no list of lists.
        first = observation[0] if observation else None
        if isinstance(first, list) and first and isinstance(first[0], list):
            return f"an image of {' × '.join(map(str, np.shape(observation)))}"
        parts = [f"{v:.3g}" if isinstance(v, float) else str(v) for v in observation]
        return f"state ({', '.join(parts)})"
    return f"state {observation}"
