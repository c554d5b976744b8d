"""The speed page, from what `make bench` measured (`results/bench*.json`)."""

import json
from pathlib import Path
from typing import Any

from bellman_diffusion.render.page import markdown_table


def speed_page(results: Path) -> str:
    """Exact planning, training and sampling steps, agents, tables."""
    blocks = ["# Speed"]
    parts = {"bench": _steps, "bench-planning": _planning, "bench-control": _agents}
    for name, section in (parts | {"bench-tables": _tables}).items():
        path = results / f"{name}.json"
        blocks += [section(json.loads(path.read_text()))] if path.exists() else []
    if len(blocks) == 1:
        blocks.append("This release publishes no measurement; run `make bench`.")
    return "\n\n".join(blocks)


def _steps(found: dict[str, Any]) -> str:
    header = ("job", "width", "points", "steps/s", "× eager PyTorch", "× diffrax",
              "× diffrax, unsafe path", "our share of the matrix rate",
              "eager PyTorch's share")  # fmt: skip
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
        for row in found["rows"]
    ]
    return f"""`{found["command"]}` measures everything on this page, each section in one run, on two
CPU cores.

- *Points* are the rows of a training batch, or the sampler's paths.
- The networks are the paper's two, with three hidden layers.
- PyTorch runs eagerly, with one thread or with all threads, whichever is faster.
- diffrax solves the same SDE with its Euler solver, and with `VirtualBrownianTree` (its usual
  Brownian path) or `UnsafeBrownianPath`.
- The *matrix rate* is that of a 2048 × 2048 float32 matrix product on this machine:
  {found["matrix_rate"] / 1e9:.0f} GFLOP/s.

{markdown_table(header, rows)}

Where eager PyTorch already runs at a large share of the matrix rate, no program can be many times
faster. Where dispatch costs more than arithmetic, one compiled program is."""


def _planning(found: dict[str, Any]) -> str:
    lakes, storm, means = found["lakes"], found["storm"], found["mdpsolver"]
    cases = [
        *((f"random lake, {c['size']} × {c['size']}", c) for c in lakes["by_cells"]),
        ("the same, accuracy 0.001", lakes["fine"]),
        ("a lake with many goals", lakes["many_goals"]),
        ("endless chain, 20,000 different normal rewards", found["normal"]),
    ]
    rows = [
        (
            name,
            f"{c['states']:,}",
            c["cells"],
            f"{c['worst_w1_share']:.4f}",
            f"{c['start_cvar_width']:.1g}",
            f"{c['policy_seconds']:.1f}" if "policy_seconds" in c else "",
            f"{c['certify_seconds']:.1f}",
            f"{c['peak_gb']:.2f}",
        )
        for name, c in cases
    ]
    header = ("model", "states", "cells", "W1 bound of the worst state, share of the range",
              "width of the CVaR 10 % interval at the start", "policy (s)", "distributions (s)",
              "peak memory (GB)")  # fmt: skip
    ours = storm["ours"]
    easy, hard = (c["states_with_variance"] for c in (lakes["by_cells"][-1], lakes["many_goals"]))
    fastest, seconds = min(means["mdpsolver"]["seconds"].items(), key=lambda pair: pair[1])
    return f"""## Exact planning

Certified return distributions of every state, on two cores. The policy is the optimal one for
γ = 0.99. On a random lake most states are far from the goal and easy: {easy:.2%} of the states of
the largest one have an uncertain return. Of the lake with many goals {hard:.0%} have.

{markdown_table(header, rows)}

![Time and peak memory by the number of states.](pictures/scaling.png)

- **Storm**, a chain of {ours["states"]:,} states with integer rewards and γ = 1:
  {len(storm["bounds"])} queries P(return ≤ b) from one state take
  {storm["storm"]["total_seconds"]:.2f} s; ours takes {ours["certify_seconds"]:.2f} s for all bounds
  and all states. Storm's answers lie in our intervals, of which the widest is
  {storm["widest_bracket"]:.1g} wide.
- **mdpsolver**, 10,000 states with four actions: the means of both optimal policies differ by at
  most {means["largest_difference"]:.0e}. mdpsolver finds the policy faster: {seconds:.2f} s
  ({fastest}) against {means["ours"]["policy_seconds"]:.2f} s."""


def _agents(found: dict[str, Any]) -> str:
    rates = found["steps_per_second"]
    rows = [
        (name, f"{rate:,.0f}", f"{rate / rates['eager PyTorch C51']:.1f}")
        for name, rate in rates.items()
    ]
    solved = ", ".join(
        f"{name} {'never' if seconds is None else f'{seconds:.0f} s'}"
        for name, seconds in found["solved_seconds"].items()
    )
    return f"""## Agents

CartPole on one core with CleanRL's settings of C51: one environment, one update on a batch of 128
every ten steps, hidden layers of 120 and 84 units, 101 outputs. Evaluations are not counted.

{markdown_table(("agent", "steps/s", "× eager PyTorch C51"), rows)}

Ten seeds on two cores take {found["ten_seeds_over_one"]:.1f} times as long as one seed on one core.

Time to a solved CartPole (a return of 475, median of three seeds, each algorithm with its tuned
settings; ours includes compilation and evaluations): {solved}."""


def _tables(found: dict[str, Any]) -> str:
    (few, quick), (many, slow) = found["step_seconds"].items()
    size = f"{found['rows']:,} rows × {found['columns']} columns"
    return f"""## Tables

All nine columns of Abalone, two cores:

- A default fit takes {found["fit_seconds"]:.0f} s, including compilation and the choice of a transform.
- Sampling 100,000 rows takes {found["sample_seconds"]:.0f} s.

A table of {size} takes {found["extra_gib"]:.1f} GiB beyond the table itself.
A training step takes {1000 * quick:.1f} ms with {int(few):,} rows and {1000 * slow:.1f} ms with
{int(many):,} rows."""
