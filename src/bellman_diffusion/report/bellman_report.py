"""Reports of the Bellman experiments: a table, a picture, the paper's claim and our verdict."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bellman_diffusion.bellman.judge import exact_cdf, exact_fields
from bellman_diffusion.experiments.frozenlake import (
    GAMMA,
    SHOWN,
    SIGMA,
    lake_chain,
    shown_laws,
    trajectory,
)
from bellman_diffusion.experiments.planning import LAKE_FIGURES
from bellman_diffusion.report.bellman_figures import draw_chain, draw_linearity, draw_treasure
from bellman_diffusion.report.captions import caption
from bellman_diffusion.report.frozenlake_figures import draw_trajectory
from bellman_diffusion.report.page import Section, Table, shown_range, with_error, write_page


def frozenlake_table(summary: dict[str, Any]) -> Table:
    """Accuracy by method and number of functions or atoms."""
    rows = [
        (
            row["method"],
            str(row["n"]),
            *(_lake_figure(row, name) for name in LAKE_FIGURES),
        )
        for row in summary["rows"]
    ]
    named = ("worst W1", "mean W1", "worst mean error", "worst error of g")
    return Table(("method", "functions or atoms", *named), rows)


def _lake_figure(row: dict[str, Any], name: str) -> str:
    """With its error where planners were learned on several seeds."""
    seeds = row.get("per_seed", [])
    return with_error(row[name], [c[name] for c in seeds], ".2g") if seeds else _small(row[name])


def write_frozenlake_report(out: Path, summary: dict[str, Any], command: str, seed: int) -> Path:
    """The table, and the maze figure for each mode."""
    chain, frames = lake_chain(), trajectory(seed)
    pictures = []
    for mode, laws in shown_laws(chain).items():
        title = f"FrozenLake, {mode}, {SHOWN[mode]} functions or atoms"
        # What the plain update aims at has narrower noise.
        x, cdf, _ = exact_cdf(chain, GAMMA, SIGMA, GAMMA if mode == "paper" else 1.0)
        exact = exact_fields(x, cdf)
        path = out / "figures" / f"frozenlake-{mode}.png"
        pictures.append(caption(draw_trajectory(path, title, frames, laws, exact)))
    text = (
        f"γ = {GAMMA}, smoothed by σ = {SIGMA}; dynamic programming to the fixed point, and, in the "
        "last rows, fields learned from transitions; against the exact law of every state. "
        + frozenlake_verdict(summary)
    )
    sections = [
        Section("Accuracy", text, frozenlake_table(summary)),
        Section("A whole trajectory", pictures=pictures),
    ]
    return write_page(out / "report.html", "FrozenLake (Section 5.3)", command, sections)


def frozenlake_verdict(summary: dict[str, Any]) -> str:
    """What the paper says of its figure, beside ours."""
    return (
        "The paper: the expected return shifts from 0.5 to 1 on the way to the goal. Ours: "
        f"{summary['mean_at_start']:.2f} at the start and {summary['mean_beside_goal']:.2f} beside the "
        "goal, which a slippery step may still miss. Plain updates narrow the noise of the end at "
        "every step; they are judged by the law that they aim at, whose noise is σγᵏ after k steps."
    )


def linearity_table(summary: dict[str, Any]) -> Table:
    """The error after one, ten and all backups."""
    rows = []
    for name, curve in summary["curves"].items():
        mean, worst = curve["w1_mean"], curve["w1_worst"]
        picked = (worst[0], worst[-1], mean[0], mean[min(9, len(mean) - 1)], mean[-1])
        rows.append((name, *(_small(v) for v in picked), _small(curve["least_mass"])))
    n = len(next(iter(summary["curves"].values()))["w1_mean"])
    header = (
        "what is averaged",
        "worst W1 after 1",
        f"after {n}",
        "mean W1 after 1",
        "after 10",
        f"after {n}",
        "least mass",
    )
    return Table(header, rows, n_names=1)


def write_linearity_report(
    out: Path, summary: dict[str, Any], pictures: dict[str, Any], command: str
) -> Path:
    """The table and the picture."""
    path = draw_linearity(out / "figures" / "linearity.png", summary, pictures)
    text = (
        "Each kind of model starts from the exact law and is backed up by averaging over what follows, "
        f"exactly or over {summary['n_samples']} sampled transitions of each state. "
        + linearity_verdict(summary)
    )
    sections = [
        Section("Bias of one-step updates", text, linearity_table(summary), [caption(path)])
    ]
    return write_page(out / "report.html", "Linearity (Section 2)", command, sections)


def chain_table(summary: dict[str, Any]) -> Table:
    """Environment steps by N and way of learning."""
    rows = [
        (way, f"N^{summary['exponent'][way]:.2f}", *(f"{s:.3g}" for s in steps))
        for way, steps in summary["steps"].items()
    ]
    return Table(("way of learning", "growth", *(f"N = {n}" for n in summary["blocks"])), rows)


def write_chain_report(out: Path, summary: dict[str, Any], command: str) -> Path:
    """The table and the curve."""
    path = draw_chain(out / "figures" / "chain.png", summary)
    text = f"Means over {len(summary['seeds'])} seeds. {chain_verdict(summary)}"
    sections = [Section("Environment steps", text, chain_table(summary), [caption(path)])]
    return write_page(out / "report.html", "Trajectories (Appendix D.1)", command, sections)


def treasure_table(summary: dict[str, Any]) -> Table:
    """Marginals and correlation by model and size."""
    rows = [
        (
            row["model"],
            str(row["n"]),
            *(f"{w:.4f}" for w in row["w1_relative"]),
            f"{row['correlation']:.3f}",
            f"{row['correlation_error']:.3f}",
        )
        for row in summary["rows"]
    ]
    header = ("model", "functions or atoms", "W1 gold", "W1 silver", "correlation", "its error")
    return Table(header, rows)


def write_treasure_report(
    out: Path, summary: dict[str, Any], extras: dict[str, Any], command: str
) -> Path:
    """The table and the joint density."""
    path = draw_treasure(out / "figures" / "treasure.png", extras, _chosen(extras))
    text = (
        f"W1 relative to the range of each return, against {summary['n_episodes']:,} simulated "
        f"episodes; their correlation is {summary['correlation_monte_carlo']:.3f}."
    )
    sections = [Section("Two returns", text, treasure_table(summary), [caption(path)])]
    return write_page(out / "report.html", "Vector returns", command, sections)


def _chosen(extras: dict[str, Any]) -> tuple[str, str]:
    fields = [name for name in extras["laws"] if "functions" in name]
    histograms = [name for name in extras["laws"] if "atoms" in name]
    return fields[min(2, len(fields) - 1)], histograms[-1]


def planning_table(summary: dict[str, Any]) -> Table:
    """Sampled FrozenLake by mode and seed, then CartPole."""
    rows = []
    for mode, figures in summary["frozenlake"].items():
        worst = [run["w1_worst"] for run in figures["per_seed"]]
        numbers = (f"{max(worst):.4f}", f"{figures['w1_mean']:.4f}")
        rows.append(("FrozenLake", mode, f"{figures['w1_worst']:.4f}", *numbers, "", ""))
    cart = summary["cartpole"]
    covered = [run["coverage_90"] for run in cart["per_seed"]]
    error = max(run["mean_error_relative"] for run in cart["per_seed"])
    share = f"{min(covered):.3f}–{max(covered):.3f}"
    rows.append(("CartPole", "default", "", "", "", f"{error:.1%}", share))
    header = ("environment", "mode", "worst W1", "of the worst seed", "mean W1", "worst mean error",
              "90 % intervals cover")  # fmt: skip
    return Table(header, rows)


def write_planning_report(out: Path, summary: dict[str, Any], command: str) -> Path:
    """The table."""
    sections = [
        Section("Planning from transitions", planning_text(summary), planning_table(summary))
    ]
    return write_page(out / "report.html", "Planning from transitions", command, sections)


def planning_text(summary: dict[str, Any]) -> str:
    """What was compared."""
    n = len(summary["seeds"])
    return (
        f"{n} seeds. FrozenLake: 200,000 one-step transitions, 21 functions or atoms, a network of the "
        "state; W1 over all states against the exact law, both smoothed by σ = 0.05. The default is "
        f"better than C51 on {summary['seeds_better_than_c51']} of {n}. CartPole: 100,000 transitions "
        "of a controller that pushes to the side the pole leans to, with 20 % random actions, against "
        "returns of held-out episodes."
    )


def first_backup(summary: Mapping[str, Any]) -> tuple[float, list[float]]:
    """The worst W1 after one exact backup: of the fields, and of the other kinds of models."""
    exact = {n: c["w1_worst"][0] for n, c in summary["curves"].items() if "exact" in n}
    fields = [w1 for name, w1 in exact.items() if "fields" in name]
    return fields[0], [w1 for name, w1 in exact.items() if "fields" not in name]


def linearity_verdict(summary: dict[str, Any]) -> str:
    """What one backup does to each kind."""
    fields, others = first_backup(summary)
    return (
        f"After one exact backup the fields are off by {fields:.1g} in the worst state, the others "
        f"by {shown_range(others, '.2g')}."
    )


def chain_verdict(summary: dict[str, Any]) -> str:
    """How the costs grow."""
    fresh, shared, one = (
        summary["exponent"][way]
        for way in ("fresh trajectories", "whole trajectories, shared", "one step")
    )
    return (
        "The paper: full trajectories cost O(N²) environment steps in a maze of N blocks, one-step "
        f"updates fewer. Ours: N^{fresh:.1f} where each block has trajectories of its own, N^{one:.1f} "
        f"by one-step updates; but N^{shared:.1f} where a trajectory serves every block on its way."
    )


def _small(value: float | None) -> str:
    return "diverged" if value is None else f"{value:.2g}"
