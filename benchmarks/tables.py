"""Tables: a fit of Abalone, a large sample, and a million rows. Part of `make bench`.

Each job runs in a process of its own, so that the memory of one is not counted for another.
"""

import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

from bellman_diffusion import BellmanDiffusion
from bellman_diffusion.data.uci import TABLES
from bellman_diffusion.tables import TableModel

RESULT = Path(__file__).parent.parent / "results" / "bench-tables.json"
N_SAMPLED = 100_000
N_COLUMNS = 20
MANY, FEW = 1_000_000, 10_000


def abalone() -> dict:
    """Seconds of a default fit of the whole table, compiling included, and of a large sample."""
    frame = TABLES["abalone"].read()
    start = time.perf_counter()
    model = TableModel().fit(frame)
    fitted = time.perf_counter()
    model.sample(N_SAMPLED)
    return {"fit_seconds": fitted - start, "sample_seconds": time.perf_counter() - fitted}


def large_table(n_rows: int) -> pd.DataFrame:
    """Mixed columns: normal and skewed numbers, counts, categories."""
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(n_rows, 4)).astype(np.float32)
    table = pd.DataFrame(index=np.arange(n_rows))
    for k in range(N_COLUMNS):
        x = hidden[:, k % 4] + 0.5 * rng.normal(size=n_rows).astype(np.float32)
        if k % 5 == 3:
            table[f"c{k}"] = rng.poisson(np.exp(0.5 * x))
        elif k % 5 == 4:
            table[f"c{k}"] = pd.Categorical.from_codes(
                (x > 0).astype(np.int8) + (x > 1), ["a", "b", "c"]
            )
        else:
            table[f"c{k}"] = np.exp(x) if k % 5 == 2 else x
    return table


def memory() -> dict:
    """The most memory that a fit of a million rows takes beyond the table."""
    table = large_table(MANY)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    TableModel(max_iter=100).fit(table)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"rows": MANY, "columns": N_COLUMNS, "extra_gib": (after - before) / 2**20}


def step_seconds() -> dict:
    """Seconds of a training step with few rows and with many."""
    rows = np.random.default_rng(0).normal(size=(MANY, N_COLUMNS))
    found = {}
    for n in (FEW, MANY):
        seconds = []
        for steps in (100, 100, 600):
            start = time.perf_counter()
            BellmanDiffusion(max_iter=steps, random_state=0).fit(rows[:n])
            seconds.append(time.perf_counter() - start)
        # The first fit compiled; the others differ by their steps alone.
        found[str(n)] = (seconds[2] - seconds[1]) / 500
    return {"step_seconds": found}


JOBS = {"abalone": abalone, "memory": memory, "steps": step_seconds}


def main() -> None:
    """Run every job and write `results/bench-tables.json`."""
    result = {}
    for name in JOBS:
        command = [sys.executable, __file__, name]
        output = subprocess.run(command, check=True, capture_output=True, text=True)
        result |= json.loads(output.stdout.splitlines()[-1])
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(JOBS[sys.argv[1]]()))
    else:
        main()
