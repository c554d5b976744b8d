"""`make bench`, second part: agents against peers in one run; writes results/bench-control.json."""

import json
import os
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
RESULT = HERE.parent / "results" / "bench-control.json"
SOLVE_SEEDS = (7000, 7001, 7002)


def measure(python: Path | str, script: str, *arguments: str, cores: int = 1) -> dict:
    """The JSON that a timing script prints, on so many cores."""
    command = [str(python), str(HERE / script), *arguments]
    if hasattr(os, "sched_setaffinity"):
        allowed = sorted(os.sched_getaffinity(0))[:cores]
        limit = lambda: os.sched_setaffinity(0, allowed)  # noqa: E731
    else:
        limit = None
    done = subprocess.run(command, check=True, capture_output=True, text=True, preexec_fn=limit)
    return json.loads(done.stdout.splitlines()[-1])


def median(values: list) -> float | None:
    """Of those that are there, or None where most are missing."""
    ordered = sorted(v if v is not None else float("inf") for v in values)
    middle = ordered[len(ordered) // 2]
    return None if middle == float("inf") else middle


def run(peer_python: Path) -> dict:
    """Everything, one after the other."""
    peers = {
        "eager PyTorch C51": measure(peer_python, "peers/eager_c51.py"),
        "Tianshou C51": measure(peer_python, "peers/tianshou_c51.py"),
        "SB3-contrib QR-DQN": measure(peer_python, "peers/sb3_qr_dqn.py"),
    }
    ours = {
        algo: measure(sys.executable, "control_ours.py", "speed", algo, "1", "1")
        for algo in ("c51", "bellman", "qr-dqn")
    }
    ten = measure(sys.executable, "control_ours.py", "speed", "c51", "10", "2", cores=2)
    solve = {
        "ours": [measure(sys.executable, "control_ours.py", "solve", str(s)) for s in SOLVE_SEEDS],
        "SB3-contrib QR-DQN": [
            measure(peer_python, "peers/sb3_qr_dqn.py", "--solve", "--seed", str(s))
            for s in SOLVE_SEEDS
        ],
    }
    return {
        "command": "make bench",
        "steps_per_second": {
            name: m["steps_per_second"]
            for name, m in (peers | {f"ours: {a}": m for a, m in ours.items()}).items()
        },
        "ten_seeds_over_one": ten["seconds"] / ours["c51"]["seconds"],
        "solve": solve,
        "solved_seconds": {
            name: median([r["solved_seconds"] for r in runs]) for name, runs in solve.items()
        },
    }


def show(result: dict) -> None:
    """A table on stdout."""
    rates = result["steps_per_second"]
    table = Table(title="CartPole, one core, one environment, one update of 128 in ten steps")
    for name in ("agent", "steps/s", "× eager PyTorch C51"):
        table.add_column(name, justify="right")
    for name, rate in rates.items():
        table.add_row(name, f"{rate:,.0f}", f"{rate / rates['eager PyTorch C51']:.1f}")
    console = Console(width=100)
    console.print(table)
    console.print(f"ten seeds on two cores / one seed on one: {result['ten_seeds_over_one']:.2f}")
    console.print(f"seconds to a solved CartPole (median of 3 seeds): {result['solved_seconds']}")


def main(peer_python: Path) -> None:
    """Measure, show, write."""
    result = run(peer_python)
    RESULT.write_text(json.dumps(result, indent=2) + "\n")
    show(result)
