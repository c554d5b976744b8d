"""Train on synthetic, test on real, as TabDDPM did on Abalone (Kotelnikov et al. 2023).

Their sizes: 2,672 rows to learn from, 669 for validation, 836 to test on, and 20,800 synthetic rows.
Gradient-boosted trees foretell the rings; ours are scikit-learn's, theirs were CatBoost's, so the same
trees on the real rows stand beside. Every seed has a split of its own.
"""

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bellman_diffusion.data.uci import TABLES
from bellman_diffusion.experiments.cells import load_or_run
from bellman_diffusion.experiments.workers import run_side_by_side
from bellman_diffusion.tables.model import TableModel
from bellman_diffusion.tables.usefulness import usefulness
from bellman_diffusion.training import Progress
from bellman_diffusion.training.files import write_json

N_LEARNED, N_VALIDATION = 2672, 669
N_SYNTHETIC = 20_800
# What they report, R² of the rings.
PUBLISHED = {"real": 0.556, "TabDDPM": 0.550, "SMOTE": 0.549, "TVAE": 0.433}


def run_usefulness(
    out: Path,
    seeds: Sequence[int],
    *,
    max_iter: int | None = None,
    n_workers: int | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Run what is missing, write `usefulness.json`, and return it."""
    run = partial(run_seed, out, max_iter=max_iter)
    run_side_by_side([partial(run, s) for s in seeds], n_workers=n_workers, progress=progress)
    cells = [run(seed) for seed in seeds]
    summary: dict[str, Any] = {"seeds": list(seeds), "published": PUBLISHED}
    for name in ("tstr", "real"):
        values = [cell[name] for cell in cells]
        summary[name] = float(np.mean(values))
        summary[f"{name}_deviation"] = float(np.std(values, ddof=1)) if len(values) > 1 else None
    write_json(out / "usefulness.json", summary | {"per_seed": cells})
    return summary | {"per_seed": cells}


def run_seed(out: Path, seed: int, *, max_iter: int | None = None) -> dict[str, Any]:
    """The figures of one split."""
    path = out / "cells" / f"{seed}.json"
    return load_or_run(path, {"seed": seed, "max_iter": max_iter}, partial(_run, seed, max_iter))


def _run(seed: int, max_iter: int | None) -> dict[str, Any]:
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
    return {"tstr": found.synthetic, "real": found.real, "seconds": seconds}
