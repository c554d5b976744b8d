"""How a model's rows are judged: distances beside their floors, and the share of copies."""

import math
import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from bellman_diffusion.errors import BellmanError
from bellman_diffusion.experiments.table_models import Model, Task
from bellman_diffusion.experiments.uci_cases import Parts
from bellman_diffusion.metrics import closest_record_share, median_bandwidth, mmd2, wasserstein_1
from bellman_diffusion.tables.coding import Transform
from bellman_diffusion.tables.encoder import TableEncoder
from bellman_diffusion.tables.metric import MetricSpace
from bellman_diffusion.tables.schema import find_schema
from bellman_diffusion.tables.settings import table_settings


@dataclass(frozen=True)
class TabularSettings:
    """The sizes of the experiment. Tests use smaller ones."""

    most_compared: int = 1500
    """Rows on each side of a distance."""
    least_drawn: int = 3000
    """Rows that a model draws at least: a distance is the mean over as many samples as these give."""
    max_iter: int | None = None
    """Training steps; None for each model's own."""


def run_cell(
    model: Model, transform: Transform, parts: Parts, seed: int, settings: TabularSettings
) -> dict[str, Any]:
    """The figures of a model on one split of a table; or why it has none."""
    start = time.perf_counter()
    schema = find_schema(parts.training)
    space = MetricSpace.fit(parts.training, schema)
    n = min(len(parts.held_out), settings.most_compared)
    n_repeats = math.ceil(settings.least_drawn / n)
    try:
        drawn = draw(model, transform, parts, n * n_repeats, seed, settings.max_iter)
    except BellmanError as error:
        return {"failed": str(error), "seconds": time.perf_counter() - start}
    seconds = time.perf_counter() - start
    synthetic = np.split(space(drawn), n_repeats)
    known, fresh = space(parts.training), space(parts.held_out)
    width = median_bandwidth(known)
    rng = np.random.default_rng([seed, 12])
    figures: dict[str, list[float]] = {"w1": [], "w1_floor": [], "mmd": [], "mmd_floor": []}
    for part in synthetic:
        real = fresh[rng.permutation(len(fresh))[:n]]
        other = known[rng.permutation(len(known))[:n]]
        figures["w1"].append(wasserstein_1(part, real))
        figures["w1_floor"].append(wasserstein_1(other, real))
        figures["mmd"].append(1000 * mmd2(part, real, width))
        figures["mmd_floor"].append(1000 * mmd2(other, real, width))
    means = {name: float(np.mean(values)) for name, values in figures.items()}
    dcr = copying(np.concatenate(synthetic), known, fresh, distinct=not schema.is_discrete)
    return {**means, "dcr_share": dcr, "seconds": seconds}


def draw(
    model: Model,
    transform: Transform,
    parts: Parts,
    n: int,
    seed: int,
    max_iter: int | None = None,
) -> pd.DataFrame:
    """Fit a model to the coordinates of the rows, and draw rows from it."""
    rng = np.random.default_rng([seed, 13])
    schema = find_schema(parts.training)
    encoder = TableEncoder.fit(parts.learned, schema, transform, rng)
    rows, others = encoder.encode(parts.learned, rng), encoder.encode(parts.validation, rng)
    settings = table_settings(schema, parts.learned)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        coordinates = model(Task(rows, others, settings, n, seed, max_iter))
    coordinates = coordinates[np.all(np.isfinite(coordinates), axis=1)]
    if len(coordinates) < 0.9 * n:
        raise BellmanError(f"{n - len(coordinates)} of {n} rows are not finite")
    # The few that were lost are replaced by others.
    return encoder.decode(np.resize(coordinates, (n, encoder.n_coordinates)))


def copying(
    synthetic: Float[np.ndarray, "n dim"],
    known: Float[np.ndarray, "m dim"],
    fresh: Float[np.ndarray, "k dim"],
    *,
    distinct: bool,
) -> float:
    """The share of rows nearer to the training rows, over ten choices of as many of these.

    Of measurements, rows that occur twice count once: a held-out set has them in whole groups.
    """
    if distinct:
        known, fresh = np.unique(known, axis=0), np.unique(fresh, axis=0)
    shares = [closest_record_share(synthetic, known, fresh, seed) for seed in range(10)]
    return float(np.mean(shares))


def mean_figures(cells: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over seeds with their standard errors; None where a seed has no figure."""
    result: dict[str, Any] = {}
    for name in ("w1", "w1_floor", "mmd", "mmd_floor", "dcr_share", "seconds"):
        values = [cell.get(name) for cell in cells]
        known: Any = [v for v in values if v is not None]
        complete = len(known) == len(values)
        result[name] = float(np.mean(known)) if complete else None
        if len(known) > 1 and name in ("w1", "mmd"):
            error = float(np.std(known, ddof=1) / np.sqrt(len(known)))
            result[f"{name}_error"] = error if complete else None
    ratios = [cell["w1"] / cell["w1_floor"] for cell in cells if "w1" in cell]
    result["w1_over_floor"] = float(np.mean(ratios)) if len(ratios) == len(cells) else None
    result["failed"] = sum("failed" in cell for cell in cells)
    return result
