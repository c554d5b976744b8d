"""`make bench`: our speed as ratios to peers, all measured in one run.

Peers live in an environment of their own (`.venv-bench`), so that users never install them.
"""

import json
import subprocess
import sys
import venv
from pathlib import Path

from rich.console import Console
from rich.table import Table

import cases
import control
import planning
import tables

HERE = Path(__file__).parent
PEERS = HERE.parent / ".venv-bench"
RESULT = HERE.parent / "results" / "bench.json"


def peer_python() -> Path:
    """The peers' interpreter, set up at the first call."""
    python = PEERS / "bin" / "python"
    stamp = PEERS / ".installed-3"
    if not stamp.exists():
        venv.create(PEERS, with_pip=True)
        names = ("requirements", "requirements-control", "requirements-planning")
        files = [str(HERE / f"{name}.txt") for name in names]
        wanted = [word for file in files for word in ("-r", file)]
        command = [str(python), "-m", "pip", "install", "--quiet", *wanted]
        subprocess.run(command, check=True)
        stamp.touch()
    return python


def measure(python: Path | str, script: Path) -> dict:
    """The JSON that a timing script prints."""
    output = subprocess.run([str(python), str(script)], check=True, capture_output=True, text=True)
    return json.loads(output.stdout.splitlines()[-1])


def rows(ours: dict, peer: dict) -> list[dict]:
    """One row for each case."""
    result = []
    for kind, sizes in (("training", cases.TRAININGS), ("sampling", cases.SAMPLERS)):
        for i, (width, points) in enumerate(sizes):
            # A training step of the gradient loss costs about 3 forward passes for each network
            # and, for the derivative along v, as much again for g: 9 in all for two networks.
            passes = 4.5 if kind == "training" else 1
            flop = passes * cases.network_flop(width) * points
            row = {
                "job": kind,
                "width": width,
                "points": points,
                "steps_per_second": ours[kind][i],
                "ratio_to_eager_torch": ours[kind][i] / peer[kind][i],
                "share_of_matrix_rate": ours[kind][i] * flop / ours["matrix_rate"],
                "eager_share_of_matrix_rate": peer[kind][i] * flop / ours["matrix_rate"],
            }
            if kind == "sampling":
                row["ratio_to_diffrax"] = ours[kind][i] / ours["diffrax"][i]
                row["ratio_to_diffrax_unsafe"] = ours[kind][i] / ours["diffrax_unsafe"][i]
            result.append(row)
    return result


def main() -> None:
    """Measure, print the table, write results/bench.json."""
    peer = measure(peer_python(), HERE / "peers" / "eager_torch.py")
    ours = measure(sys.executable, HERE / "ours.py")
    result = {"command": "make bench", "matrix_rate": ours["matrix_rate"], "rows": rows(ours, peer)}
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=2) + "\n")
    table = Table(title=f"float32 matrix rate {ours['matrix_rate'] / 1e9:.0f} GFLOP/s")
    names = (
        "job",
        "width",
        "points",
        "steps/s",
        "× eager PyTorch",
        "× diffrax",
        "× unsafe",
        "share",
        "eager's",
    )
    for name in names:
        table.add_column(name, justify="right")
    for row in result["rows"]:
        ratio = row.get("ratio_to_diffrax")
        table.add_row(
            row["job"],
            str(row["width"]),
            str(row["points"]),
            f"{row['steps_per_second']:.0f}",
            f"{row['ratio_to_eager_torch']:.1f}",
            "" if ratio is None else f"{ratio:.1f}",
            "" if ratio is None else f"{row['ratio_to_diffrax_unsafe']:.1f}",
            f"{row['share_of_matrix_rate']:.0%}",
            f"{row['eager_share_of_matrix_rate']:.0%}",
        )
    Console(width=110).print(table)
    control.main(peer_python())
    tables.main()
    planning.main(peer_python())


if __name__ == "__main__":
    main()
