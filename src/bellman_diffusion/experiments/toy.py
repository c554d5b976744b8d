"""Section 5.1: the three synthetic figures, with score-based models beside.

Each cell (set, model, seed) is trained, sampled and judged on its own, and its results are written at
once: a run that was stopped goes on with the cells that are missing.
"""

import io
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from bellman_diffusion.baselines import ScoreFlowModel, ScoreFlowSettings, ScoreModel
from bellman_diffusion.data.toy import TOY_SETS, ToySet
from bellman_diffusion.dynamics import Samples
from bellman_diffusion.estimator import BellmanDiffusion
from bellman_diffusion.experiments.cells import load_or_run
from bellman_diffusion.experiments.toy_fields import field_errors, field_panels
from bellman_diffusion.experiments.workers import run_side_by_side
from bellman_diffusion.metrics import wasserstein_1
from bellman_diffusion.training import Progress
from bellman_diffusion.training.files import write_atomically, write_json

ModelName = Literal["default", "paper", "score", "score-flow"]
MODELS: tuple[ModelName, ...] = ("default", "paper", "score", "score-flow")
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


@dataclass(frozen=True)
class Cell:
    """One model trained on one set with one seed."""

    toy: ToySet
    model: ModelName
    seed: int

    @property
    def name(self) -> str:
        """A name for files and progress bars."""
        return f"{self.toy.name}-{self.model}-{self.seed}"


def run_toy(
    out: Path,
    *,
    models: Sequence[ModelName] = MODELS,
    seeds: Sequence[int] = (0,),
    settings: ToySettings | None = None,
    n_workers: int | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Run all cells and put their figures together, by set; see `summarise`."""
    settings = settings or ToySettings()
    cells = [Cell(toy, model, seed) for toy in TOY_SETS for model in models for seed in seeds]
    tasks = [partial(_load_or_run, cell, settings, out / "cells") for cell in cells]
    run_side_by_side(tasks, n_workers=n_workers, progress=progress)
    results = {cell.name: _load_or_run(cell, settings, out / "cells") for cell in cells}
    summary = summarise(results, models, seeds)
    write_json(out / "toy.json", summary)
    return summary


def summarise(
    results: dict[str, dict[str, Any]], models: Sequence[ModelName], seeds: Sequence[int]
) -> dict[str, Any]:
    """Per set: means over seeds of the first model, and of the others under their own names."""
    summary: dict[str, Any] = {"seeds": list(seeds)}
    for toy in TOY_SETS:
        figures = {}
        for model in models:
            cells = [results[Cell(toy, model, seed).name] for seed in seeds]
            figures[model] = _mean(cells) | {"per_seed": cells}
        first, *others = models
        summary[toy.name] = figures[first] | {name: figures[name] for name in others}
        summary[toy.name]["model"] = first
    mixture = summary["mixture"]
    summary["weight_errors"] = weight_errors(mixture.get("score"), mixture.get("score-flow"))
    return summary


def weight_errors(
    one: dict[str, Any] | None, many: dict[str, Any] | None
) -> dict[str, float] | None:
    """By how much score models miss the mixture's weights, at one noise level and at many."""
    if one is None or many is None:
        return None
    return {"one_level": one["weight_error"], "many_levels": many["weight_error"]}


def _mean(cells: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over seeds; None where a seed has no figure."""
    names = dict.fromkeys(name for cell in cells for name in cell)
    means = {}
    for name in [name for name in names if name != "seed"]:
        values = [cell[name] for cell in cells if cell.get(name) is not None]
        means[name] = np.mean(values, axis=0).tolist() if len(values) == len(cells) else None
    return means


def _load_or_run(cell: Cell, settings: ToySettings, folder: Path) -> dict[str, Any]:
    path = folder / f"{cell.name}.json"
    arrays = path.with_suffix(".npz")
    if not arrays.exists():
        # Figures without their panels are made again.
        path.unlink(missing_ok=True)
    key = {"langevin": _LANGEVIN, "score": vars(ScoreModel()), **asdict(settings)}
    return load_or_run(path, key, partial(_run, cell, settings, arrays))


def _run(cell: Cell, settings: ToySettings, arrays: Path) -> dict[str, Any]:
    figures, panels = run_cell(cell, settings)
    file = io.BytesIO()
    np.savez_compressed(file, allow_pickle=False, **panels)
    write_atomically(arrays, file.getvalue())
    return {"seed": cell.seed, **figures}


def run_cell(cell: Cell, settings: ToySettings) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Train, sample and judge: the figures, and the arrays that the panels are drawn from."""
    rng = np.random.default_rng([cell.seed, 1])
    data = cell.toy.draw(settings.n_train, rng)
    start = time.perf_counter()
    model = _fit(cell, data, settings)
    fit_seconds = time.perf_counter() - start
    paths = _draw(model, cell.seed, settings)
    seconds = time.perf_counter() - start
    w1, w1_floor = _compare(cell.toy, paths.x, settings, rng)
    figures: dict[str, Any] = {
        "w1": w1,
        "w1_floor": w1_floor,
        **cell.toy.figures(paths.x),
        "lost": paths.lost,
        "seconds": seconds,
        "fit_seconds": fit_seconds,
    }
    if isinstance(model, ScoreModel) and "weights" in figures:
        # One that knew the weights would find them from any start: a second one is tried.
        again = cell.toy.figures(_draw(model, cell.seed, settings, start="normal").x)
        figures["weights_normal_start"] = again["weights"]
        figures["weight_error"] = max(figures["weight_error"], again["weight_error"])
    panels = {"data": data[: settings.n_compare], "samples": paths.x[: settings.n_compare]}
    if isinstance(model, BellmanDiffusion):
        panels |= field_panels(model, data, settings.n_grid)
        figures |= field_errors(cell.toy, panels)
        if cell.model == "paper":
            paths = _draw(model.set_params(**_LANGEVIN), cell.seed, settings)
            figures |= {
                "langevin_w1": _compare(cell.toy, paths.x, settings, rng)[0],
                "langevin_lost": paths.lost,
            }
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
