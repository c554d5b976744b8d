"""Section 5.1: the three synthetic figures, with a score-based model beside.

Each cell (set, model, seed) is trained, sampled and judged on its own, and its results are written at
once: a run that was stopped goes on with the cells that are missing.
"""

import json
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from bellman_diffusion.baselines import ScoreModel
from bellman_diffusion.data.toy import TOY_SETS, ToySet, UnbalancedMixture
from bellman_diffusion.estimator import BellmanDiffusion
from bellman_diffusion.metrics import wasserstein_1
from bellman_diffusion.training import NoProgress, RichProgress
from bellman_diffusion.training.files import write_json

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
    for name in names.keys() - {"settings", "seed"}:
        values = [cell[name] for cell in cells if cell.get(name) is not None]
        means[name] = np.mean(values, axis=0).tolist() if len(values) == len(cells) else None
    return means


def _load_or_run(cell: Cell, settings: ToySettings, folder: Path, quiet: bool) -> dict[str, Any]:
    path = folder / f"{cell.name}.json"
    found = _read(path)
    if found is not None and found.get("settings") == asdict(settings):
        return found
    figures, panels = run_cell(cell, settings, quiet)
    result = {"seed": cell.seed, **figures, "settings": asdict(settings)}
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path.with_suffix(".npz"), allow_pickle=False, **panels)
    # Last, so that a cell with results has its panels too.
    write_json(path, result)
    return result


def _read(path: Path) -> dict[str, Any] | None:
    """A finished cell's results; None where there are none, or none that can be read."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


def run_cell(
    cell: Cell, settings: ToySettings, quiet: bool = True
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Train, sample and judge: the figures, and the arrays that the panels are drawn from."""
    rng = np.random.default_rng([cell.seed, 1])
    data = cell.toy.draw(settings.n_train, rng)
    start = time.perf_counter()
    model, draw = _fit(cell, data, settings, quiet)
    fit_seconds = time.perf_counter() - start
    samples, lost = draw(settings.n_compare * settings.n_repeats)
    seconds = time.perf_counter() - start
    finite = samples[np.all(np.isfinite(samples), axis=1)]
    w1, w1_floor = _compare(cell.toy, finite, settings, rng)
    figures: dict[str, Any] = {
        "w1": w1,
        "w1_floor": w1_floor,
        **(cell.toy.figures(finite) if len(finite) else {}),
        "lost": lost,
        "seconds": seconds,
        "fit_seconds": fit_seconds,
    }
    if isinstance(model, ScoreModel) and "weights" in figures:
        again = model.sample(len(samples), cell.seed, start="normal")
        figures["weights_normal_start"] = cell.toy.figures(again)["weights"]
    panels = {"data": data[: settings.n_compare], "samples": samples[: settings.n_compare]}
    if isinstance(model, BellmanDiffusion):
        panels |= field_panels(model, data, settings.n_grid)
    return figures, panels


def _fit(
    cell: Cell, data: Float[np.ndarray, "n dim"], settings: ToySettings, quiet: bool
) -> tuple[Any, Callable[[int], tuple[Float[np.ndarray, "n dim"], float]]]:
    """The fitted model and a function that draws n samples and tells the share of lost paths."""
    progress = NoProgress() if quiet else RichProgress(cell.name)
    changes: dict[str, Any] = {} if settings.max_iter is None else {"max_iter": settings.max_iter}
    if cell.model == "score":
        score = ScoreModel(random_state=cell.seed, **changes).fit(data, progress)
        return score, lambda n: (score.sample(n, cell.seed), 0.0)
    model = BellmanDiffusion(cell.model, random_state=cell.seed, **changes)
    model.fit(data, progress=progress)

    def draw(n: int) -> tuple[Float[np.ndarray, "n dim"], float]:
        # Every sampler is reported as it is, however many paths it loses.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            paths = model.sample_paths(n, cell.seed, max_lost=1.0)
        return paths.x, paths.lost

    return model, draw


def _compare(
    toy: ToySet,
    samples: Float[np.ndarray, "n dim"],
    settings: ToySettings,
    rng: np.random.Generator,
) -> tuple[float | None, float]:
    """Mean W1 of the samples to fresh data, and of fresh data to fresh data, at the same sizes.

    None for the samples where too few are finite.
    """
    model, floor = [], []
    # In one dimension transport is a sort, so each part is compared with many fresh sets: a single
    # distance has half its own size as standard deviation there.
    parts = np.array_split(samples, settings.n_repeats)
    for part in parts * (20 if samples.shape[1] == 1 else 1):
        fresh, other = (toy.draw(settings.n_compare, rng) for _ in range(2))
        if len(part):
            model.append(wasserstein_1(part, fresh))
        floor.append(wasserstein_1(fresh, other))
    w1 = float(np.mean(model)) if len(model) == len(floor) else None
    return w1, float(np.mean(floor))


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
