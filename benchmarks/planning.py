"""`make bench`, fourth part: exact planning; writes results/bench-planning.json and a figure.

Every case runs in a process of its own, so that the memory of one is not counted for another.
"""

import json
import subprocess
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
from rich.console import Console
from rich.table import Table

import planning_cases as cases

HERE = Path(__file__).parent
RESULT = HERE.parent / "results" / "bench-planning.json"
FIGURE = HERE.parent / "results" / "bench-planning" / "scaling.png"
SIZES = (32, 100, 316, 1000)
MANY_CELLS = 102
# Of 10⁶ states: cells, W1 bound as a share of the range, half the CVaR interval, seconds, GB.
LARGE_BAR = {"cells": 101, "w1_share": 0.02, "cvar": 0.005, "seconds": 600.0, "gb": 6.0}
FINE_BAR = {"accuracy": 0.001, "seconds": 10.0, "gb": 1.0}
NORMAL_BAR = {"accuracy": 0.001, "seconds": 60.0, "gb": 2.0}


def measure(python: Path | str, script: str, *arguments: object) -> dict:
    """The JSON that a timing script prints."""
    command = [str(python), str(HERE / script), *map(str, arguments)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def lakes() -> dict:
    """Lakes of many sizes, one to a high accuracy, and one in which no state is easy."""
    by_cells = [
        measure(sys.executable, "planning_ours.py", "lake", n, "cells", MANY_CELLS) for n in SIZES
    ]
    fine = measure(sys.executable, "planning_ours.py", "lake", 64, "accuracy", 0.001)
    many = measure(sys.executable, "planning_ours.py", "goals", 316, "cells", MANY_CELLS)
    return {"by_cells": by_cells, "fine": fine, "many_goals": many}


def against_storm(peer_python: Path | str) -> dict:
    """Every answer of Storm must lie in our bracket."""
    theirs = measure(peer_python, "peers/storm_dtmc.py")
    ours = measure(sys.executable, "planning_ours.py", "storm", 0.001)
    outside = [
        max(low - p, p - high, 0.0)
        for p, (low, high) in zip(theirs["probabilities"], ours["brackets"], strict=True)
    ]
    return {
        "bounds": cases.BOUNDS,
        "storm": theirs | {"total_seconds": sum(theirs["seconds"]), "states_answered": 1},
        "ours": ours,
        "widest_bracket": max(high - low for low, high in ours["brackets"]),
        "largest_distance_outside": max(outside),
        "agrees": max(outside) <= cases.TOLERANCE,
    }


def against_mdpsolver(peer_python: Path | str) -> dict:
    """The values of both optimal policies."""
    theirs = measure(peer_python, "peers/mdpsolver_means.py")
    ours = measure(sys.executable, "planning_ours.py", "means")
    apart = float(np.abs(np.subtract(ours.pop("values"), theirs.pop("values"))).max())
    return {"mdpsolver": theirs, "ours": ours, "largest_difference": apart, "agrees": apart <= 1e-6}


def bars(result: dict) -> dict:
    """Which promises hold."""
    found = result["lakes"]

    def total(case: dict) -> float:
        return case.get("policy_seconds", 0.0) + case["certify_seconds"]

    def within(case: dict, bar: dict) -> bool:
        exact = case["accuracy"] <= bar.get("accuracy", 1.0)
        return exact and total(case) <= bar["seconds"] and case["peak_gb"] <= bar["gb"]

    def precise(case: dict) -> bool:
        cells = case["cells"] >= LARGE_BAR["cells"]
        w1 = case["worst_w1_share"] <= LARGE_BAR["w1_share"]
        return cells and w1 and case["start_cvar_width"] <= 2 * LARGE_BAR["cvar"]

    large = found["by_cells"][-1]
    return {
        "a million states": within(large, LARGE_BAR) and precise(large),
        "64 × 64 to 0.001": within(found["fine"], FINE_BAR),
        "5,000 states with normal rewards to 0.001": within(result["normal"], NORMAL_BAR),
        "Storm's answers lie in our brackets": result["storm"]["agrees"],
        "at most Storm's time": result["storm"]["ours"]["certify_seconds"]
        <= result["storm"]["storm"]["total_seconds"],
        "mdpsolver's means to 1e-6": result["mdpsolver"]["agrees"],
    }


def draw(found: dict, path: Path) -> None:
    """Time and memory over the number of states."""
    mpl.use("Agg")
    import matplotlib.pyplot as plt  # noqa: PLC0415

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    rows = found["by_cells"]
    states = [case["states"] for case in rows]
    left.plot(states, [case["policy_seconds"] for case in rows], "s--", label="optimal policy")
    left.plot(states, [case["certify_seconds"] for case in rows], "o-", label=f"{MANY_CELLS} cells")
    right.plot(states, [case["peak_gb"] for case in rows], "o-", label=f"{MANY_CELLS} cells")
    for axes, label in ((left, "time (s)"), (right, "peak memory (GB)")):
        axes.set(xscale="log", yscale="log", xlabel="number of states", ylabel=label)
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("{x:.1g}" if axes is right else "")
        axes.grid(visible=True, which="major", alpha=0.3)
        axes.legend()
    figure.suptitle("Certified return distributions of random FrozenLakes, γ = 0.99")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def show(result: dict) -> None:
    """Tables on stdout."""
    found = result["lakes"]
    names = ("states", "cells", "accuracy", "worst W1", "CVaR width", "policy s", "certify s", "GB")
    table = Table(title="exact planning; accuracy and W1 as shares of the range")
    for name in names:
        table.add_column(name, justify="right")
    for case in (*found["by_cells"], found["fine"], found["many_goals"], result["normal"]):
        table.add_row(
            f"{case['states']:,}",
            str(case["cells"]),
            f"{case['accuracy']:.2g}",
            f"{case['worst_w1_share']:.2g}",
            f"{case['start_cvar_width']:.2g}",
            f"{case.get('policy_seconds', 0):.1f}",
            f"{case['certify_seconds']:.1f}",
            f"{case['peak_gb']:.2f}",
        )
    console = Console(width=110)
    console.print(table)
    storm, means = result["storm"], result["mdpsolver"]
    console.print(
        f"Storm, {len(cases.BOUNDS)} bounds for one state: {storm['storm']['total_seconds']:.2f} s; "
        f"ours, all bounds for {storm['ours']['states']:,} states: "
        f"{storm['ours']['certify_seconds']:.2f} s"
    )
    console.print(
        f"mdpsolver: {means['mdpsolver']['seconds']} s; ours: {means['ours']['policy_seconds']:.2f} s; "
        f"means differ by at most {means['largest_difference']:.1g}"
    )
    console.print(result["bars"])


def main(peer_python: Path | str) -> None:
    """Measure, show, write."""
    result: dict = {"command": "make bench", "lakes": lakes()}
    result["normal"] = measure(sys.executable, "planning_ours.py", "normal", 0.001)
    result["storm"] = against_storm(peer_python)
    result["mdpsolver"] = against_mdpsolver(peer_python)
    result["bars"] = bars(result)
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    draw(result["lakes"], FIGURE)
    show(result)
