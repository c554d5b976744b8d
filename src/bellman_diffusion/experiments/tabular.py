"""Section 5.2, Table 1: five UCI tables, our model and six others, each at its best.

For each seed a fifth of the rows is held out for the figures; of the others an eighth says when to
stop. Every model learns the same coordinates of the same rows and is decoded alike. Whether
heavy-tailed columns are transformed is chosen for each table and model on the validation rows of
another split. Each cell (table, model, seed) is written at once: a run that was stopped goes on with
the cells that are missing.
"""

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from bellman_diffusion.baselines import (
    DDPM,
    DdpmSettings,
    InterpolationModel,
    KernelModel,
    MixtureModel,
    ScoreFlowModel,
    ScoreFlowSettings,
)
from bellman_diffusion.data.uci import TABLES, UciTable
from bellman_diffusion.errors import BellmanError
from bellman_diffusion.estimator import BellmanDiffusion
from bellman_diffusion.experiments.cells import load_or_run
from bellman_diffusion.metrics import closest_record_share, median_bandwidth, mmd2, wasserstein_1
from bellman_diffusion.tables.coding import Transform
from bellman_diffusion.tables.encoder import TableEncoder
from bellman_diffusion.tables.metric import MetricSpace
from bellman_diffusion.tables.model import table_settings
from bellman_diffusion.tables.schema import Schema, find_schema
from bellman_diffusion.training.files import write_json

MODELS = ("bellman", "ddpm", "score", "paper", "kernel", "mixture", "interpolation")
# A fresh split for choices, beside all seeds that figures are made with.
_CHOICE_SEED = 2**31 - 2
_TRIED: tuple[Transform, ...] = ("plain", "quantile")


@dataclass(frozen=True)
class TabularSettings:
    """The sizes of the experiment. Tests use smaller ones."""

    most_compared: int = 1500
    """Rows on each side of a distance."""
    n_repeats: int = 4
    """Independent samples that a distance is the mean over."""
    max_iter: int | None = None
    """Training steps; None for each model's own."""


class Case(NamedTuple):
    """A table and how its rows are split."""

    name: str
    table: UciTable
    by_subject: bool = False

    @property
    def title(self) -> str:
        """For tables and pictures."""
        return self.table.title + (", by subject" if self.by_subject else "")

    def read(self) -> tuple[pd.DataFrame, Int[np.ndarray, " n"]]:
        """The paper's columns, categories as codes, and which rows belong together."""
        frame = self.table.read_paper_columns()
        for name in frame.columns:
            if not pd.api.types.is_numeric_dtype(frame[name]):
                frame[name] = frame[name].astype("category").cat.codes.astype(int)
        if self.by_subject:
            together: Any = self.table.read()[self.table.group]
            return frame, pd.factorize(together)[0]
        if self.name == "mushroom":
            # Equal rows are other mushrooms.
            return frame, np.arange(len(frame))
        # Equal rows of measurements are the same row twice: they stay on one side.
        return frame, np.asarray(frame.groupby(list(frame.columns), sort=False).ngroup())


CASES = {
    **{name: Case(name, table) for name, table in TABLES.items()},
    "telemonitoring-by-subject": Case("telemonitoring", TABLES["telemonitoring"], True),
}


class Parts(NamedTuple):
    """Rows to learn from, to stop by, and to compare with."""

    learned: pd.DataFrame
    validation: pd.DataFrame
    held_out: pd.DataFrame

    @property
    def training(self) -> pd.DataFrame:
        """All that is not held out."""
        return pd.concat([self.learned, self.validation], ignore_index=True)


def split(frame: pd.DataFrame, groups: Int[np.ndarray, " n"], seed: int) -> Parts:
    """A fifth held out, an eighth of the rest for validation, groups kept whole."""
    rng = np.random.default_rng([seed, 11])
    place = rng.permutation(groups.max() + 1)[groups]
    order = np.argsort(place, kind="stable")
    n_out = round(0.2 * len(frame))
    # The group at a border goes to the side where it begins.
    n_out = int(np.searchsorted(place[order], place[order][n_out]))
    rest = rng.permutation(order[n_out:]) if groups.max() + 1 == len(frame) else order[n_out:]
    n_validation = max(20, round(len(rest) / 8))
    parts = (rest[n_validation:], rest[:n_validation], order[:n_out])
    return Parts(*(frame.iloc[rng.permutation(part)].reset_index(drop=True) for part in parts))


def run_tabular(
    out: Path,
    seeds: Sequence[int],
    *,
    cases: Sequence[str] = tuple(CASES),
    models: Sequence[str] = MODELS,
    settings: TabularSettings | None = None,
    report: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Run what is missing, write `tabular.json`, and return it."""
    settings = settings or TabularSettings()
    summary: dict[str, Any] = {"seeds": list(seeds)}
    for name in cases:
        frame, groups = CASES[name].read()
        summary[name] = {}
        for model in models:
            report(f"{name}: {model}")
            choice = _choose(out, name, model, frame, groups, settings)
            cells = [
                load_or_run(
                    out / "cells" / f"{name}-{model}-{seed}.json",
                    {"seed": seed, "transform": choice, **asdict(settings)},
                    partial(_run_seed, model, choice, frame, groups, seed, settings),
                )
                for seed in seeds
            ]
            summary[name][model] = _means(cells) | {"transform": choice, "per_seed": cells}
    write_json(out / "tabular.json", summary)
    return summary


def _run_seed(
    model: str,
    transform: Transform,
    frame: pd.DataFrame,
    groups: Int[np.ndarray, " n"],
    seed: int,
    settings: TabularSettings,
) -> dict[str, Any]:
    return run_cell(model, transform, split(frame, groups, seed), seed, settings)


def run_cell(
    model: str, transform: Transform, parts: Parts, seed: int, settings: TabularSettings
) -> dict[str, Any]:
    """Fit one model to one split and judge its rows."""
    start = time.perf_counter()
    schema = find_schema(parts.training)
    space = MetricSpace.fit(parts.training, schema)
    n = min(len(parts.held_out), settings.most_compared)
    try:
        drawn = draw(model, transform, parts, schema, n * settings.n_repeats, seed, settings)
    except BellmanError as error:
        return {"failed": str(error), "seconds": time.perf_counter() - start}
    seconds = time.perf_counter() - start
    synthetic = np.split(space(drawn), settings.n_repeats)
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


def draw(
    model: str,
    transform: Transform,
    parts: Parts,
    schema: Schema,
    n: int,
    seed: int,
    settings: TabularSettings,
) -> pd.DataFrame:
    """Fit a model to the coordinates of the rows, and draw rows from it."""
    rng = np.random.default_rng([seed, 13])
    encoder = TableEncoder.fit(parts.learned, schema, transform, rng)
    rows, others = encoder.encode(parts.learned, rng), encoder.encode(parts.validation, rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        coordinates = _draw(model, rows, others, schema, n, seed, settings)
    coordinates = coordinates[np.all(np.isfinite(coordinates), axis=1)]
    if len(coordinates) < 0.9 * n:
        raise BellmanError(f"{n - len(coordinates)} of {n} rows are not finite")
    # The few that were lost are replaced by others.
    return encoder.decode(np.resize(coordinates, (n, encoder.n_coordinates)))


def _draw(
    model: str,
    rows: Float[np.ndarray, "n dim"],
    others: Float[np.ndarray, "m dim"],
    schema: Schema,
    n: int,
    seed: int,
    settings: TabularSettings,
) -> Float[np.ndarray, "k dim"]:
    steps: dict[str, Any] = {} if settings.max_iter is None else {"max_iter": settings.max_iter}
    if model in ("bellman", "paper"):
        preset = {"bellman": "default", "paper": "paper"}[model]
        changes = table_settings(schema) if model == "bellman" else {}
        fitted: Any = BellmanDiffusion(preset, random_state=seed, **(changes | steps))
        fitted.fit(rows, validation=others if model == "bellman" else None)
        return fitted.sample_paths(n, seed, max_lost=1.0).x
    if model == "ddpm":
        return DDPM(DdpmSettings(**steps), seed).fit(rows, validation=others).sample(n, seed)
    if model == "score":
        flow = ScoreFlowModel(ScoreFlowSettings(**steps), seed)
        return flow.fit(rows, validation=others).sample(n, seed)
    kinds = {"kernel": KernelModel, "mixture": MixtureModel, "interpolation": InterpolationModel}
    # These choose by cross-validation or a criterion of their own, from all training rows.
    return kinds[model]().fit(np.concatenate([rows, others])).sample(n, seed)


def _choose(
    out: Path,
    name: str,
    model: str,
    frame: pd.DataFrame,
    groups: Int[np.ndarray, " n"],
    settings: TabularSettings,
) -> Transform:
    """The transform whose rows come nearest to the validation rows of a split of its own."""
    parts = split(frame, groups, _CHOICE_SEED)
    schema = find_schema(parts.training)
    if not schema.heavy_tailed:
        return "plain"

    def run() -> dict[str, Any]:
        # What is held out in this split is not looked at.
        rest = Parts(parts.learned, parts.validation, parts.validation)
        cells = {t: run_cell(model, t, rest, _CHOICE_SEED, settings) for t in _TRIED}
        return {t: cell.get("w1") for t, cell in cells.items()}

    found = load_or_run(out / "cells" / f"{name}-{model}-choice.json", asdict(settings), run)
    ranked: list[Any] = sorted(found, key=lambda t: found[t] if found[t] is not None else np.inf)
    return ranked[0]


def _means(cells: list[dict[str, Any]]) -> dict[str, Any]:
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
