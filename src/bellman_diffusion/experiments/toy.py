"""Section 5.1: the three synthetic figures, with a score-based model beside.

Each cell (set, model, seed) is trained, sampled and judged on its own, and its results are written at
once: a run that was stopped goes on with the cells that are missing.
"""

import io
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from bellman_diffusion.baselines import ScoreModel
from bellman_diffusion.data.toy import TOY_SETS, ToySet, UnbalancedMixture
from bellman_diffusion.dynamics import Samples
from bellman_diffusion.estimator import BellmanDiffusion
from bellman_diffusion.experiments.cells import read_cell
from bellman_diffusion.metrics import wasserstein_1
from bellman_diffusion.recipe import PRESETS
from bellman_diffusion.training import NoProgress, RichProgress
from bellman_diffusion.training.files import write_atomically, write_json

ModelName = Literal["default", "paper", "score"]
MODELS: tuple[ModelName, ...] = ("default", "paper", "score")


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
    quiet: bool = False,
) -> dict[str, Any]:
    """Run all cells and put their figures together, by set; see `summarise`."""
    settings = settings or ToySettings()
    results = {}
    for toy in TOY_SETS:
        for model in models:
            for seed in seeds:
                cell = Cell(toy, model, seed)
                results[cell.name] = _load_or_run(cell, settings, out / "cells", quiet)
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
    summary["score_claim"] = judge_score_claim(summary["mixture"].get("score"))
    return summary


def judge_score_claim(score: dict[str, Any] | None) -> dict[str, Any] | None:
    """Does the score model miss the mixture's weights, as the paper says it must?

    A model that knew the weights would find them from any start, so two starts are tried.
    """
    if score is None:
        return None
    weights = np.array([score["weights"], score["weights_normal_start"]])
    error = float(np.max(np.abs(weights - UnbalancedMixture.weights)))
    return {
        "claim": "a score-based model cannot find the weights of the modes",
        "largest_weight_error": error,
        "holds": error > 0.05,
        "limits": "judged for one noise level and Langevin dynamics from two starts; a score at many "
        "noise levels, such as the default preset's (2g − ∇s)/s, does find them",
    }


def _mean(cells: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over seeds; None where a seed has no figure."""
    names = dict.fromkeys(name for cell in cells for name in cell)
    means = {}
    for name in [name for name in names if name not in ("key", "seed")]:
        values = [cell[name] for cell in cells if cell.get(name) is not None]
        means[name] = np.mean(values, axis=0).tolist() if len(values) == len(cells) else None
    return means


def _load_or_run(cell: Cell, settings: ToySettings, folder: Path, quiet: bool) -> dict[str, Any]:
    path = folder / f"{cell.name}.json"
    key = _key(cell, settings)
    found = read_cell(path)
    if found is not None and found.get("key") == key and path.with_suffix(".npz").exists():
        return found
    figures, panels = run_cell(cell, settings, quiet)
    result = {"seed": cell.seed, **figures, "key": key}
    arrays = io.BytesIO()
    np.savez_compressed(arrays, allow_pickle=False, **panels)
    write_atomically(path.with_suffix(".npz"), arrays.getvalue())
    # Last, so that a cell with results has its panels too.
    write_json(path, result)
    return result


def _key(cell: Cell, settings: ToySettings) -> dict[str, Any]:
    """What a cell's results depend on: they are used again only where all of it is the same."""
    model = vars(ScoreModel()) if cell.model == "score" else asdict(PRESETS[cell.model])
    return {"version": version("bellman-diffusion"), "model": model, **asdict(settings)}


def run_cell(
    cell: Cell, settings: ToySettings, quiet: bool = True
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Train, sample and judge: the figures, and the arrays that the panels are drawn from."""
    rng = np.random.default_rng([cell.seed, 1])
    data = cell.toy.draw(settings.n_train, rng)
    start = time.perf_counter()
    model = _fit(cell, data, settings, quiet)
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
        again = _draw(model, cell.seed, settings, start="normal")
        figures["weights_normal_start"] = cell.toy.figures(again.x)["weights"]
    panels = {"data": data[: settings.n_compare], "samples": paths.x[: settings.n_compare]}
    if isinstance(model, BellmanDiffusion):
        panels |= field_panels(model, data, settings.n_grid)
    return figures, panels


def _fit(
    cell: Cell, data: Float[np.ndarray, "n dim"], settings: ToySettings, quiet: bool
) -> BellmanDiffusion | ScoreModel:
    progress = NoProgress() if quiet else RichProgress(cell.name)
    changes: dict[str, Any] = {} if settings.max_iter is None else {"max_iter": settings.max_iter}
    if cell.model == "score":
        return ScoreModel(random_state=cell.seed, **changes).fit(data, progress)
    model = BellmanDiffusion(cell.model, random_state=cell.seed, **changes)
    return model.fit(data, progress=progress)


def _draw(
    model: BellmanDiffusion | ScoreModel, seed: int, settings: ToySettings, **start: Any
) -> Samples:
    """Samples, reported as they are, however many paths are lost."""
    n = settings.n_compare * settings.n_repeats
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        if isinstance(model, ScoreModel):
            return model.sample(n, seed, **start)
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
    return panels
