"""Train on synthetic, test on real, as TabDDPM did on Abalone (Kotelnikov et al. 2023).

Their sizes: 2,672 rows to learn from, 669 for validation, 836 to test on, and 20,800 synthetic rows.
Gradient-boosted trees predict the rings; ours are scikit-learn's, theirs were CatBoost's, so the same
trees on the real rows are in the table too. Every seed has a split of its own.
"""

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from bellman_diffusion.data.uci import TABLES
from bellman_diffusion.paper.cells import load_or_run
from bellman_diffusion.paper.experiment import Experiment, SeededOptions, Summary, Workplace, option
from bellman_diffusion.render.page import Section, Table
from bellman_diffusion.tables.model import TableModel
from bellman_diffusion.tables.usefulness import usefulness

N_LEARNED, N_VALIDATION = 2672, 669
N_SYNTHETIC = 20_800
# What they report, R² of the rings.
PUBLISHED = {"real": 0.556, "TabDDPM": 0.550, "SMOTE": 0.549, "TVAE": 0.433}


@dataclass(frozen=True)
class UsefulnessOptions(SeededOptions):
    """Splits and training steps."""

    seeds: int = option(10, "How many splits, from --seed on.", min=1)
    max_iter: int | None = option(None, "Training steps; by default the model's own.", min=1)


class SplitFigures(msgspec.Struct, kw_only=True):
    """R² on one split: learned from synthetic rows (`tstr`), and from the real ones."""

    tstr: float
    real: float
    seconds: float


class UsefulnessSummary(Summary):
    """Means and deviations over splits."""

    seeds: list[int]
    published: dict[str, float]
    tstr: float
    tstr_deviation: float | None
    real: float
    real_deviation: float | None
    per_seed: list[SplitFigures]


def run(options: UsefulnessOptions, work: Workplace) -> UsefulnessSummary:
    """Run what is missing."""
    tasks = {}
    for seed in options.all_seeds:
        key = {"seed": seed, "max_iter": options.max_iter}
        path, run = work.cells / f"{seed}.json", partial(_run, **key)
        tasks[seed] = partial(load_or_run, path, key, SplitFigures, run)
    found = work.run_parallel("splits", tasks)
    cells: list[SplitFigures] = [*found.values()]
    figures: dict[str, Any] = {}
    for name in ("tstr", "real"):
        values = [getattr(cell, name) for cell in cells]
        figures[name] = float(np.mean(values))
        figures[f"{name}_deviation"] = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return UsefulnessSummary(seeds=[*found], published=PUBLISHED, per_seed=cells, **figures)


def _run(seed: int, max_iter: int | None) -> SplitFigures:
    start = time.perf_counter()
    frame = TABLES["abalone"].read()
    order = np.random.default_rng([seed, 14]).permutation(len(frame))
    n_known = N_LEARNED + N_VALIDATION
    known, test = (frame.iloc[part].reset_index(drop=True) for part in np.split(order, [n_known]))
    steps: Any = {} if max_iter is None else {"max_iter": max_iter}
    model = TableModel(hold_out=N_VALIDATION / n_known, random_state=seed, **steps).fit(known)
    learned = known.iloc[model.split(n_known).learned]
    synthetic = model.sample(N_SYNTHETIC)
    found = usefulness(synthetic, learned, test, model.schema_, "Rings")
    assert found is not None
    seconds = time.perf_counter() - start
    return SplitFigures(tstr=found.synthetic, real=found.real, seconds=seconds)


def sections(summary: UsefulnessSummary, figures: Path) -> list[Section]:
    """R² by what the trees learned from, ours above what TabDDPM's authors report."""
    del figures
    text = (
        f"Abalone with TabDDPM's sizes, mean and standard deviation over {len(summary.seeds)} splits. "
        f"Trees that learn from synthetic rows reach {summary.tstr / summary.real:.1%} of the R² of "
        "those that learn from the real rows."
    )
    rows = [
        ("ours", _shown(summary.tstr, summary.tstr_deviation), "scikit-learn's trees"),
        ("real rows", _shown(summary.real, summary.real_deviation), "scikit-learn's trees"),
        *((name, f"{r2:.3f}", "as published, CatBoost") for name, r2 in summary.published.items()),
    ]
    table = Table(("learned from", "R² of the rings on real rows", "by"), rows)
    return [Section("Train on synthetic, test on real", text, table)]


def _shown(mean: float, deviation: float | None) -> str:
    return f"{mean:.3f}" + ("" if deviation is None else f" ± {deviation:.3f}")


EXPERIMENT = Experiment(
    name="usefulness",
    title="Train on synthetic, test on real",
    about="Train on synthetic rows, test on real ones: Abalone with TabDDPM's sizes.",
    options=UsefulnessOptions,
    summary=UsefulnessSummary,
    run=run,
    sections=sections,
    order=100,
    page="tables",
    published={"seed": 1100, "seeds": 10},
)
