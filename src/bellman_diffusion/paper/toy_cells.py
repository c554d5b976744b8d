"""One model trained on one synthetic set with one seed: fitted, sampled, its fields compared.

Each cell is written at once: a run that was stopped continues with the cells that are missing.
"""

import io
import time
import warnings
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from jaxtyping import Float

from bellman_diffusion.baselines import ScoreFlowModel, ScoreFlowSettings, ScoreModel
from bellman_diffusion.data.toy import ToySet
from bellman_diffusion.dynamics import Samples
from bellman_diffusion.estimator import BellmanDiffusion
from bellman_diffusion.metrics import wasserstein_1
from bellman_diffusion.paper.cells import load_or_run
from bellman_diffusion.recipe import make_recipe
from bellman_diffusion.training.files import write_atomically

FittedModel = BellmanDiffusion | ScoreModel | ScoreFlowModel
# Langevin dynamics on the paper's g/s, with the steps of the score model.
_LANGEVIN: dict[str, Any] = {"dynamics": "langevin", "step_size": 0.005, "n_steps": 500}


@dataclass(frozen=True)
class ToySettings:
    """The sizes of the experiment. Tests use smaller ones."""

    n_train: int = 20_000
    """Training points."""
    n_compare: int = 2_000
    """Points on each side of a W1 distance."""
    n_repeats: int = 8
    """Independent samples of that size that a W1 figure is the mean over."""
    max_iter: int | None = None
    """Training steps; None for each model's own."""
    n_grid: int = 40
    """Grid points along an axis of the field panels."""


class ToyFigures(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One model on one set; W1 is None where a sample is not finite.

    Errors of p and ∇p are None where there is no field, or the density has no gradient.
    """

    scalar_error: float | None = None
    gradient_error: float | None = None
    w1: float | None
    w1_floor: float
    gap_share: float | None = None
    weights: list[float] | None = None
    weight_error: float | None = None
    weights_normal_start: list[float] | None = None
    lost: float
    seconds: float
    fit_seconds: float
    langevin_w1: float | None = None
    langevin_lost: float | None = None
    seed: int | None = None


@dataclass(frozen=True)
class Cell:
    """One model trained on one set with one seed."""

    toy: ToySet
    model: str
    seed: int

    def file(self, folder: Path, suffix: str) -> Path:
        """Where its results are."""
        return folder / f"{self.toy.name}-{self.model}-{self.seed}{suffix}"


def load_cell(cell: Cell, settings: ToySettings, folder: Path) -> ToyFigures:
    """The figures of a cell, made if they are missing."""
    path, arrays = cell.file(folder, ".json"), cell.file(folder, ".npz")
    if not arrays.exists():
        # Figures without their panels are made again.
        path.unlink(missing_ok=True)
    key = {"langevin": _LANGEVIN, "score": vars(ScoreModel()), **asdict(settings)}
    return load_or_run(path, key, ToyFigures, partial(_run, cell, settings, arrays))


def _run(cell: Cell, settings: ToySettings, arrays: Path) -> ToyFigures:
    figures, panels = run_cell(cell, settings)
    file = io.BytesIO()
    np.savez_compressed(file, allow_pickle=False, **panels)
    write_atomically(arrays, file.getvalue())
    return figures


def run_cell(cell: Cell, settings: ToySettings) -> tuple[ToyFigures, dict[str, np.ndarray]]:
    """Train, sample and evaluate: the figures, and the arrays that the panels are drawn from."""
    rng = np.random.default_rng([cell.seed, 1])
    data = cell.toy.draw(settings.n_train, rng)
    start = time.perf_counter()
    model = _fit(cell, data, settings)
    fit_seconds = time.perf_counter() - start
    paths = _draw(model, cell.seed, settings)
    seconds = time.perf_counter() - start
    w1, w1_floor = _compare(cell.toy, paths.x, settings, rng)
    figures = ToyFigures(
        w1=w1,
        w1_floor=w1_floor,
        lost=paths.lost,
        seconds=seconds,
        fit_seconds=fit_seconds,
        seed=cell.seed,
        **cell.toy.figures(paths.x),  # pyright: ignore (figures of the set's own)
    )
    if isinstance(model, ScoreModel) and figures.weight_error is not None:
        # One that knew the weights would find them from any start: a second one is tried.
        again: Any = cell.toy.figures(_draw(model, cell.seed, settings, start="normal").x)
        figures.weights_normal_start = again["weights"]
        figures.weight_error = max(figures.weight_error, again["weight_error"])
    panels = {"data": data[: settings.n_compare], "samples": paths.x[: settings.n_compare]}
    if isinstance(model, BellmanDiffusion):
        panels |= field_panels(model, data, settings.n_grid)
        figures.scalar_error, figures.gradient_error = field_errors(cell.toy, panels)
        if cell.model == "paper":
            langevin = model.set_params(preset=make_recipe("paper", **_LANGEVIN))
            paths = _draw(langevin, cell.seed, settings)
            figures.langevin_w1 = _compare(cell.toy, paths.x, settings, rng)[0]
            figures.langevin_lost = paths.lost
    return figures, panels


def _fit(cell: Cell, data: Float[np.ndarray, "n dim"], settings: ToySettings) -> FittedModel:
    changes: dict[str, Any] = {} if settings.max_iter is None else {"max_iter": settings.max_iter}
    if cell.model == "score":
        return ScoreModel(random_state=cell.seed, **changes).fit(data)
    if cell.model == "score-flow":
        model = ScoreFlowModel(ScoreFlowSettings(**changes), cell.seed)
        model.fit(data)
        return model
    return BellmanDiffusion(cell.model, random_state=cell.seed, **changes).fit(data)


def _draw(model: FittedModel, seed: int, settings: ToySettings, **start: Any) -> Samples:
    """Samples, reported as they are, however many paths are lost."""
    n = settings.n_compare * settings.n_repeats
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        if isinstance(model, ScoreModel):
            return model.sample(n, seed, **start)
        if isinstance(model, ScoreFlowModel):
            return Samples(model.sample(n, seed), 0, 0, 1.0)
        return model.sample_paths(n, seed, max_lost=1.0)


def _compare(
    toy: ToySet,
    samples: Float[np.ndarray, "n dim"],
    settings: ToySettings,
    rng: np.random.Generator,
) -> tuple[float | None, float]:
    """Mean W1 of the samples to fresh data, and of fresh data to fresh data, at the same sizes.

    None for the samples where some are not finite: their distance is not defined.
    """
    model, floor = [], []
    # In one dimension transport is a sort, so each part is compared with many fresh sets: a single
    # distance has half its own size as standard deviation there.
    finite = bool(np.all(np.isfinite(samples)))
    parts = np.array_split(samples, settings.n_repeats)
    for part in parts * (20 if samples.shape[1] == 1 else 1):
        fresh, other = (toy.draw(settings.n_compare, rng) for _ in range(2))
        if finite:
            model.append(wasserstein_1(part, fresh))
        floor.append(wasserstein_1(fresh, other))
    return float(np.mean(model)) if finite else None, float(np.mean(floor))


def field_panels(
    model: BellmanDiffusion, data: Float[np.ndarray, "n dim"], n_grid: int
) -> dict[str, np.ndarray]:
    """s, g and, where the model has it, the density, on a grid around the data."""
    low, high = data.min(axis=0), data.max(axis=0)
    low, high = low - 0.1 * (high - low), high + 0.1 * (high - low)
    n_axis = 10 * n_grid if data.shape[1] == 1 else n_grid
    axes = [np.linspace(a, b, n_axis) for a, b in zip(low, high, strict=True)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, data.shape[1])
    panels = {"grid": grid, "s": model.scalar_field(grid), "g": model.gradient_field(grid)}
    if model.recipe_.field == "noise-conditional":
        panels["density"] = np.exp(model.score_samples(grid))
        # At the least noise, the end of what it has learned, the score is rough.
        panels["score"] = model.score_field(grid, sigma=2 * model.recipe_.sigma_min)
    return panels


def field_errors(toy: ToySet, panels: dict[str, np.ndarray]) -> tuple[float, float | None]:
    """∫ |p̂ − p| and ∫ |∇p̂ − ∇p| / ∫ |∇p|.

    Where the model knows the density, p̂ is that, and ∇p̂ is it times the score; else p̂ is s with the
    mass 1 and ∇p̂ is g with the same factor, as the paper has it.
    """
    grid = panels["grid"]
    if "density" in panels:
        density, gradient = panels["density"], panels["density"][:, None] * panels["score"]
    else:
        n_axis = round(len(grid) ** (1 / grid.shape[1]))
        cell = np.prod((grid.max(axis=0) - grid.min(axis=0)) / (n_axis - 1))
        mass = panels["s"].sum() * cell
        density, gradient = panels["s"] / mass, panels["g"] / mass
    true, slope = toy.density(grid), toy.gradient(grid)
    error = float(np.abs(density - true).sum() / true.sum())
    if slope is None:
        return error, None
    apart, size = (np.linalg.norm(v, axis=1).sum() for v in (gradient - slope, slope))
    return error, float(apart / size)
