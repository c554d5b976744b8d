"""Theorems 4.1 and 4.2, measured: how fast the dynamics forget their start, and what errors do.

In one dimension with exact fields, g = p' and s = p, and no sampling (`fokker_planck`). Theorem 4.1
says that KL(p_t ‖ p) falls like e^(−2αt) for every p with a log-Sobolev inequality. Each target here
has one; they differ in how small p gets. Theorem 4.2 says that W2 is small for a large enough T and
small errors of the fields.
"""

from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
from jaxtyping import Float
from scipy.stats import norm

from bellman_diffusion.paper.claims import Finding, claim, reproduced
from bellman_diffusion.paper.experiment import Experiment, Options, Summary, Workplace
from bellman_diffusion.paper.fokker_planck import FokkerPlanck, Function
from bellman_diffusion.render.figure import new_figure, save_figure
from bellman_diffusion.render.page import Picture, Section, Table, shown_range

_CELLS = 300
_TIMES = np.geomspace(0.01, 3000.0, 60)
_LEAST = 1e-8
_ERRORS = (0.001, 0.003, 0.01, 0.03)
_HORIZONS = (1.0, 3.0, 10.0, 1000.0)


class Target(NamedTuple):
    """A density on an interval; outside of it there is nothing, or next to nothing."""

    title: str
    low: float
    high: float
    density: Function
    gradient: Function

    @property
    def extent(self) -> float:
        """The length of the interval."""
        return self.high - self.low

    def dynamics(self, error: float = 0.0) -> FokkerPlanck:
        """On a grid, with fields that are exact or wrong by a wave of the height `error`."""

        def wrong(field: Function) -> Function:
            return lambda x: field(x) + error * np.sin(3 * np.pi * x / self.extent + 1)

        return FokkerPlanck(wrong(self.gradient), wrong(self.density), self.low, self.high, _CELLS)

    def at_rest(self, dynamics: FokkerPlanck) -> Float[np.ndarray, " n"]:
        """The density on the grid of the dynamics."""
        density = self.density(dynamics.x)
        return density / (density.sum() * dynamics.width)

    def bump(self, dynamics: FokkerPlanck, place: float) -> Float[np.ndarray, " n"]:
        """A start somewhere on the interval, in shares of its length."""
        return norm.pdf(dynamics.x, self.low + place * self.extent, 0.1 * self.extent)


TARGETS = {
    "uniform": Target(
        "uniform on [−1, 1]", -1.0, 1.0, lambda x: np.full_like(x, 0.5), np.zeros_like
    ),
    "wave": Target(
        "½(1 + 0.9 cos πx) on [−1, 1]",
        -1.0,
        1.0,
        lambda x: 0.5 * (1 + 0.9 * np.cos(np.pi * x)),
        lambda x: -0.45 * np.pi * np.sin(np.pi * x),
    ),
    "normal": Target("standard normal", -6.0, 6.0, norm.pdf, lambda x: -x * norm.pdf(x)),
    "mixture": Target(
        "two normals at ±2, deviation 0.6",
        -5.0,
        5.0,
        lambda x: np.mean([norm.pdf(x, m, 0.6) for m in (-2, 2)], axis=0),
        lambda x: np.mean([-(x - m) / 0.36 * norm.pdf(x, m, 0.6) for m in (-2, 2)], axis=0),
    ),
}


class Rates(msgspec.Struct, kw_only=True):
    """KL over time, and −d log KL/dt when it is halved and at the end."""

    times: list[float]
    divergence: list[float]
    rate_halved: float
    rate_end: float
    time_end: float
    gap: float
    least_density: float

    @property
    def left(self) -> float:
        """The share of the first KL that is left at the end."""
        return self.divergence[-1] / self.divergence[0]


class AtTime(msgspec.Struct, kw_only=True):
    """W2 after a time."""

    time: float
    w2: float


class ErrorRow(msgspec.Struct, kw_only=True):
    """W2 after each horizon for one error of the fields."""

    error: float
    w2: list[float]


class ErrorTable(msgspec.Struct, kw_only=True):
    """Rows by the error of the fields."""

    horizons: list[float]
    rows: list[ErrorRow]


class ConvergenceSummary(Summary):
    """Theorems 4.1 and 4.2 and stationarity, by target."""

    convergence: dict[str, Rates]
    errors: ErrorTable
    horizon: dict[str, list[AtTime]]
    stationarity: dict[str, float]

    def error_slopes(self) -> list[float]:
        """W2 at the last time over the error of the fields, for every error but none."""
        return [row.w2[-1] / row.error for row in self.errors.rows if row.error > 0]


def run(options: Options, work: Workplace) -> ConvergenceSummary:
    """Both theorems. Nothing here is random."""
    del options
    summary = ConvergenceSummary(
        convergence={name: measure_rates(target) for name, target in TARGETS.items()},
        errors=measure_errors(TARGETS["wave"]),
        horizon={
            name: [AtTime(time=t, w2=w2) for t, w2 in zip(_HORIZONS, _w2(target, 0.7), strict=True)]
            for name, target in TARGETS.items()
        },
        stationarity={name: measure_drift(target) for name, target in TARGETS.items()},
    )
    _draw_rates(work.figures / "convergence.png", summary)
    _draw_errors(work.figures / "errors.png", summary)
    return summary


def measure_rates(target: Target) -> Rates:
    """KL over time from a start on the right, and its rate when it is halved and at the end."""
    dynamics = target.dynamics()
    rest = target.at_rest(dynamics)
    densities = dynamics.run(target.bump(dynamics, 0.7), _TIMES)
    divergence = np.array([dynamics.divergence(density, rest) for density in densities])
    # Below this, rounding is all there is.
    n = int(np.argmax(divergence < _LEAST)) or len(_TIMES)
    times, divergence = _TIMES[:n], divergence[:n]
    local = -np.gradient(np.log(divergence), times)
    halved = int(np.argmax(divergence < 0.5 * divergence[0])) or n - 1
    return Rates(
        times=times.tolist(),
        divergence=divergence.tolist(),
        rate_halved=float(local[halved]),
        rate_end=float(local[-2]),
        time_end=float(times[-1]),
        gap=dynamics.gap(),
        least_density=float(target.density(dynamics.x).min()),
    )


def measure_drift(target: Target) -> float:
    """The share of the mass that has moved after a while, from the target itself: 0 at rest."""
    dynamics = target.dynamics()
    rest = target.at_rest(dynamics)
    (moved,) = dynamics.run(rest, np.array([10.0]))
    return float(0.5 * np.sum(np.abs(moved - rest)) * dynamics.width)


def measure_errors(target: Target) -> ErrorTable:
    """W2 to the target for fields that are wrong by up to ε, after each horizon."""
    rows = [ErrorRow(error=error, w2=_w2(target, 0.75, error)) for error in (0.0, *_ERRORS)]
    return ErrorTable(horizons=list(_HORIZONS), rows=rows)


def _w2(target: Target, place: float, error: float = 0.0) -> list[float]:
    """W2 to the target after each horizon, from a start in this place."""
    dynamics = target.dynamics(error)
    rest = target.at_rest(dynamics)
    densities = dynamics.run(target.bump(dynamics, place), np.array(_HORIZONS))
    return [dynamics.wasserstein_2(density, rest) for density in densities]


def sections(summary: ConvergenceSummary, figures: Path) -> list[Section]:
    """Theorem 4.1, then Theorem 4.2."""
    return [_convergence_section(summary, figures), _error_section(summary, figures)]


def _convergence_section(summary: ConvergenceSummary, figures: Path) -> Section:
    """What the rates say of Theorem 4.1."""
    rates = summary.convergence
    fell = [name for name, f in rates.items() if f.left < 1e-6]
    left = ", ".join(
        f"{TARGETS[name].title} (still {f.left:.0%} of its start at t = {f.time_end:.0f})"
        for name, f in rates.items()
        if name not in fell
    )
    text = (
        "One dimension, exact fields and no sampling: the Fokker–Planck equation of "
        "dx = p'dt + √p dw on a grid. KL falls exponentially, at twice the spectral gap, for "
        f"{', '.join(TARGETS[name].title for name in fell)}. It does not for {left}, although these "
        "densities have a log-Sobolev inequality too: the theorem needs p bounded below, and its step "
        "(e) takes the largest value of p instead. Nothing passes the ends of the intervals: without "
        "such walls no density on the whole line is bounded below, and paths of the uniform "
        "distribution that leave its interval stay where they are."
    )
    header = ("target", "least density", "rate of KL when halved", "rate at the end", "at time",
              "twice the spectral gap")  # fmt: skip
    rows = [
        (TARGETS[name].title, f"{f.least_density:.1e}", f"{f.rate_halved:.2g}",
         f"{f.rate_end:.2g}", f"{f.time_end:.0f}", f"{2 * f.gap:.2g}")
        for name, f in rates.items()
    ]  # fmt: skip
    caption = "KL to the target over time, from the same start."
    picture = Picture(figures / "convergence.png", caption)
    table = Table(header, rows, n_names=1)
    return Section("Convergence (Theorem 4.1)", text, table, [picture])


def _error_section(summary: ConvergenceSummary, figures: Path) -> Section:
    """What the distances say of Theorem 4.2."""
    last = summary.horizon["normal"][-1]
    text = (
        "A wave of the given height is added to both fields of ½(1 + 0.9 cos πx). W2 at rest is "
        f"{shown_range(summary.error_slopes(), '.2f')} times the error of the fields, "
        "and does not grow with T: the bound's factor √T e^(LT/2) does not appear where p is bounded "
        "below. For the normal distribution no error of the fields is small enough: with exact fields "
        f"W2 is still {last.w2:.2f} at T = {last.time:.0f}, because Theorem 4.1 fails there."
    )
    header = ("error of the fields", *(f"T = {t:g}" for t in summary.errors.horizons))
    rows = [(f"{row.error:g}", *(f"{w2:.2g}" for w2 in row.w2)) for row in summary.errors.rows]
    picture = Picture(figures / "errors.png", "W2 to the target over the error of the fields.")
    table = Table(header, rows, n_names=1)
    return Section("Errors of the fields (Theorem 4.2)", text, table, [picture])


def _draw_rates(path: Path, summary: ConvergenceSummary) -> None:
    figure = new_figure(9, 3.8)
    left, right = figure.subplots(1, 2)
    for name, f in summary.convergence.items():
        for axes in (left, right):
            axes.plot(f.times, f.divergence, label=TARGETS[name].title)
    left.set(yscale="log", xlabel="time t", xlim=(0, 15), ylabel="KL(p_t ‖ p)")
    right.set(yscale="log", xlabel="time t", xscale="log")
    left.set_title("a straight line is an exponential", fontsize=9)
    right.set_title("the same, all times", fontsize=9)
    lines, names = left.get_legend_handles_labels()
    figure.legend(lines, names, loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    save_figure(figure, path)


def _draw_errors(path: Path, summary: ConvergenceSummary) -> None:
    errors = summary.errors
    rows = [row for row in errors.rows if row.error > 0]
    figure = new_figure(5.5, 3.4)
    axes = figure.subplots()
    for k, horizon in enumerate(errors.horizons):
        # The longest lies on the one before: at rest nothing grows.
        style = "o--" if k == len(errors.horizons) - 1 else "o-"
        w2 = [row.w2[k] for row in rows]
        axes.plot([row.error for row in rows], w2, style, label=f"T = {horizon:g}")
    axes.set(xscale="log", yscale="log")
    axes.set(xlabel="largest error of both fields", ylabel="W2 to the target")
    axes.set_title("½(1 + 0.9 cos πx), after the time T", fontsize=9)
    axes.legend(frameon=False, fontsize=8)
    save_figure(figure, path)


@claim("Section 3.3", "dx = ∇p dt + √p dw leaves p stationary", "proved")
def _stationarity(summary: ConvergenceSummary) -> Finding:
    worst = max(summary.stationarity.values())
    return Finding(
        f"mass moved: {worst:.0e}",
        reproduced(worst < 1e-3),
        "Started from the target, the density does not move (four targets, the Fokker–Planck equation "
        "on a grid with closed ends).",
    )


@claim(
    "Theorem 4.1",
    "From any start KL falls like e^(−2αt) for every p with a log-Sobolev inequality",
    "proved",
)
def _theorem_4_1(summary: ConvergenceSummary) -> Finding:
    """An exponential has a constant rate; that of the normal keeps falling, for as long as we look."""
    normal, uniform = summary.convergence["normal"], summary.convergence["uniform"]
    early, late = normal.rate_halved, normal.rate_end
    wrong = late < 0.1 * early and normal.left > 0.01
    return Finding(
        f"normal: {normal.left:.0%} of KL left at t = {normal.time_end:.0f}, its rate falling from "
        f"{early:.0e} to {late:.0e}",
        "claim wrong" if wrong else "reproduced",
        "The normal distribution has a log-Sobolev inequality, but √s vanishes in its tails and KL "
        "falls ever more slowly; where p is bounded below, on an interval that nothing leaves, it falls "
        f"exponentially (uniform: rate {uniform.rate_end:.2g})."
        if wrong
        else f"KL falls exponentially for the normal distribution too, with rate {late:.2g}.",
    )


@claim(
    "Theorem 4.2",
    "With small errors of both fields W2 to the target is small",
    "W2 ≤ ε for errors of order ε/(√T e^(LT/2))",
)
def _theorem_4_2(summary: ConvergenceSummary) -> Finding:
    slopes = summary.error_slopes()
    proportional = max(slopes) < 2 * min(slopes)
    last = summary.horizon["normal"][-1]
    holds = proportional and last.w2 < 0.01
    wrong = "claim wrong" if proportional else "not reproduced"
    return Finding(
        f"W2 = {np.mean(slopes):.2f} × the fields' error; normal: {last.w2:.2f} with none",
        "reproduced" if holds else wrong,
        "Where p is bounded below, W2 is proportional to the fields' error and does not grow with T, "
        "far better than the bound; for the normal distribution it inherits the failure of Theorem "
        f"4.1: with exact fields W2 is {last.w2:.2f} at T = {last.time:.0f}.",
    )


EXPERIMENT = Experiment(
    name="convergence",
    title="The dynamics (Theorems 4.1 and 4.2)",
    about="Theorems 4.1 and 4.2: how fast the dynamics forget their start, and what errors do.",
    options=Options,
    summary=ConvergenceSummary,
    run=run,
    sections=sections,
    order=30,
    page="theorems",
    claims=(_stationarity, _theorem_4_1, _theorem_4_2),
)
