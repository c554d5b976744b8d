"""Theorems 4.1 and 4.2, measured: how fast the dynamics forget their start, and what errors do.

In one dimension with exact fields, g = p' and s = p, and no sampling (`fokker_planck`). Theorem 4.1
says that KL(p_t ‖ p) falls like e^(−2αt) for every p with a log-Sobolev inequality. Each target here
has one; they differ in how small p gets. Theorem 4.2 says that W2 is small for a large enough T and
small errors of the fields.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.stats import norm

from bellman_diffusion.experiments.fokker_planck import FokkerPlanck, Function
from bellman_diffusion.training.files import write_json

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


def _mixture(x: np.ndarray) -> np.ndarray:
    return 0.5 * (norm.pdf(x, -2, 0.6) + norm.pdf(x, 2, 0.6))


def _mixture_gradient(x: np.ndarray) -> np.ndarray:
    parts = [-(x - m) / 0.36 * norm.pdf(x, m, 0.6) for m in (-2, 2)]
    return 0.5 * (parts[0] + parts[1])


TARGETS = {
    "uniform": Target(
        "uniform on [−1, 1]",
        -1.0,
        1.0,
        lambda x: np.full_like(x, 0.5),
        np.zeros_like,
    ),
    "wave": Target(
        "½(1 + 0.9 cos πx) on [−1, 1]",
        -1.0,
        1.0,
        lambda x: 0.5 * (1 + 0.9 * np.cos(np.pi * x)),
        lambda x: -0.45 * np.pi * np.sin(np.pi * x),
    ),
    "normal": Target(
        "standard normal",
        -6.0,
        6.0,
        norm.pdf,
        lambda x: -x * norm.pdf(x),
    ),
    "mixture": Target(
        "two normals at ±2, deviation 0.6",
        -5.0,
        5.0,
        _mixture,
        _mixture_gradient,
    ),
}


def run_convergence(out: Path) -> dict[str, Any]:
    """Both theorems; writes `convergence.json` and returns it."""
    summary: dict[str, Any] = {
        "convergence": {name: measure_rates(target) for name, target in TARGETS.items()},
        "errors": measure_errors(TARGETS["wave"]),
        "horizon": {name: measure_horizon(target) for name, target in TARGETS.items()},
        "stationarity": {name: measure_drift(target) for name, target in TARGETS.items()},
    }
    write_json(out / "convergence.json", summary)
    return summary


def measure_rates(target: Target) -> dict[str, Any]:
    """KL over time from a start on the right, and −d log KL/dt when it is halved and at the end."""
    dynamics = FokkerPlanck(target.gradient, target.density, target.low, target.high, _CELLS)
    rest = _at_rest(dynamics, target)
    laws = dynamics.run(_start(dynamics, target), _TIMES)
    divergence = np.array([dynamics.divergence(law, rest) for law in laws])
    # Below this, rounding is all there is.
    n = int(np.argmax(divergence < _LEAST)) or len(_TIMES)
    times, divergence = _TIMES[:n], divergence[:n]
    local = -np.gradient(np.log(divergence), times)
    halved = int(np.argmax(divergence < 0.5 * divergence[0])) or n - 1
    return {
        "times": times.tolist(),
        "divergence": divergence.tolist(),
        "rate_halved": float(local[halved]),
        "rate_end": float(local[-2]),
        "time_end": float(times[-1]),
        "gap": dynamics.gap(),
        "least_density": float(target.density(dynamics.x).min()),
    }


def measure_drift(target: Target, time: float = 10.0) -> float:
    """The share of the mass that has moved after a while, from the target itself: 0 at rest."""
    dynamics = FokkerPlanck(target.gradient, target.density, target.low, target.high, _CELLS)
    rest = _at_rest(dynamics, target)
    (moved,) = dynamics.run(rest, np.array([time]))
    return float(0.5 * np.sum(np.abs(moved - rest)) * dynamics.width)


def measure_horizon(target: Target) -> list[dict[str, float]]:
    """W2 to the target with exact fields, after each horizon."""
    dynamics = FokkerPlanck(target.gradient, target.density, target.low, target.high, _CELLS)
    rest = _at_rest(dynamics, target)
    laws = dynamics.run(_start(dynamics, target), np.array(_HORIZONS))
    return [
        {"time": time, "w2": dynamics.wasserstein_2(law, rest)}
        for time, law in zip(_HORIZONS, laws, strict=True)
    ]


def measure_errors(target: Target) -> dict[str, Any]:
    """W2 to the target for fields that are wrong by up to ε, after each horizon."""
    rows = []
    extent = target.high - target.low
    for error in (0.0, *_ERRORS):
        dynamics = FokkerPlanck(
            _wrong(target.gradient, error, extent),
            _wrong(target.density, error, extent),
            target.low,
            target.high,
            _CELLS,
        )
        rest = _at_rest(dynamics, target)
        start = norm.pdf(dynamics.x, target.low + 0.75 * extent, 0.1 * extent)
        laws = dynamics.run(start, np.array(_HORIZONS))
        rows.append({"error": error, "w2": [dynamics.wasserstein_2(law, rest) for law in laws]})
    return {"horizons": list(_HORIZONS), "rows": rows}


def _wrong(field: Function, error: float, extent: float) -> Function:
    """A field with a wave of that height added."""
    return lambda x: field(x) + error * np.sin(3 * np.pi * x / extent + 1)


def _start(dynamics: FokkerPlanck, target: Target) -> Float[np.ndarray, " n"]:
    """A bump on the right of the middle."""
    middle, extent = 0.5 * (target.low + target.high), target.high - target.low
    return norm.pdf(dynamics.x, middle + 0.2 * extent, 0.1 * extent)


def _at_rest(dynamics: FokkerPlanck, target: Target) -> Float[np.ndarray, " n"]:
    density = target.density(dynamics.x)
    return density / (density.sum() * dynamics.width)
