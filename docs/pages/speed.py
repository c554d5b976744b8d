"""What `make bench` measured."""

import json

from pages.common import RESULTS, WIDE, markdown_table


def speed_page() -> str:
    """`make bench`."""
    if not (RESULTS / "bench.json").exists():
        return "# Speed\n\nNo measurement is published for this release; `make bench` makes one.\n"
    result = json.loads((RESULTS / "bench.json").read_text())
    header = ("job", "width", "points", "steps/s", "× eager PyTorch", "× diffrax", "× diffrax, unsafe path", "our share of the "
              "matrix rate", "eager PyTorch's share")  # fmt: skip
    rows = [
        (
            row["job"],
            row["width"],
            row["points"],
            f"{row['steps_per_second']:.0f}",
            f"{row['ratio_to_eager_torch']:.1f}",
            f"{row['ratio_to_diffrax']:.1f}" if "ratio_to_diffrax" in row else "",
            f"{row['ratio_to_diffrax_unsafe']:.1f}" if "ratio_to_diffrax" in row else "",
            f"{row['share_of_matrix_rate']:.0%}",
            f"{row['eager_share_of_matrix_rate']:.0%}",
        )
        for row in result["rows"]
    ]
    return f"""{WIDE}# Speed

Made by `{result["command"]}` on two CPU cores, everything in one run. "Points" are a training batch or the sampler's
paths; the networks are the paper's two, with three hidden layers. PyTorch runs eagerly, with one thread or all,
whichever is faster; diffrax solves the same SDE with its Euler solver, and
`VirtualBrownianTree` (its usual path) or `UnsafeBrownianPath`. The matrix rate
is that of a 2048 × 2048 float32 product on this machine: {result["matrix_rate"] / 1e9:.0f} GFLOP/s.

{markdown_table(header, rows)}

{_agents_speed()}{_tables_speed()}
Where eager PyTorch already runs at a large share of the matrix rate, no program can be many times faster; where calls
cost more than arithmetic, one compiled program is.
"""


def _agents_speed() -> str:
    """Agents against peers."""
    path = RESULTS / "bench-control.json"
    if not path.exists():
        return ""
    result = json.loads(path.read_text())
    rates = result["steps_per_second"]
    rows = [
        (name, f"{rate:,.0f}", f"{rate / rates['eager PyTorch C51']:.1f}")
        for name, rate in rates.items()
    ]
    solved = ", ".join(
        f"{name} {'never' if s is None else f'{s:.0f} s'}"
        for name, s in result["solved_seconds"].items()
    )
    return f"""## Agents

CartPole on one core with CleanRL's settings of C51: one environment, one update of 128 in ten steps, hidden layers of 120
and 84, 101 outputs. No evaluation is counted.

{markdown_table(("agent", "steps/s", "× eager PyTorch C51"), rows)}

Ten seeds on two cores take {result["ten_seeds_over_one"]:.1f} times as long as one seed on one. Time to a solved CartPole (475, median
of three seeds, each with its tuned settings; ours with compilation and judgements included): {solved}.

"""


def _tables_speed() -> str:
    """Tables, where nothing is compared."""
    path = RESULTS / "bench-tables.json"
    if not path.exists():
        return ""
    result = json.loads(path.read_text())
    few, many = result["step_seconds"].items()
    return f"""## Tables

Abalone, all nine columns, two cores: a default fit takes {result["fit_seconds"]:.0f} s with compilation and the choice of a transform,
100,000 rows {result["sample_seconds"]:.0f} s. A table of {result["rows"]:,} rows × {result["columns"]} columns takes {result["extra_gib"]:.1f} GiB beyond the table itself; a training step
takes {1000 * few[1]:.1f} ms with {int(few[0]):,} rows and {1000 * many[1]:.1f} ms with {int(many[0]):,}.

"""
