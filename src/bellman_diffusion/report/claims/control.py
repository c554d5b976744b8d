"""Section 5.3 and Appendix D: mazes and cart-pole."""

from collections.abc import Mapping

from bellman_diffusion.experiments.cartpole import IN_A_ROW, SETTINGS, SOLVED
from bellman_diffusion.report.cartpole_compare import (
    shown_steadiness,
    speed_gain,
    steadiness_gain,
)
from bellman_diffusion.report.cartpole_report import shown_steps
from bellman_diffusion.report.claims.base import (
    ACCURATE,
    Claim,
    Finding,
    MissingFigureError,
    Summary,
    Verdict,
    known,
)
from bellman_diffusion.report.page import shown_share, with_error

_SHOWN = ("bellman", "c51", "bellman-paper")
_FUNCTIONS = 41
# The paper's figure.
_FASTER = 1.5
# An interval over fewer says nothing.
_LEAST_SEEDS = 5


def _maze(summary: Summary) -> Finding:
    start, goal = summary["mean_at_start"], summary["mean_beside_goal"]
    error = known(_row(summary, "learned", "default")["mean_error_worst"], "the learned planner")
    shifts = abs(start - 0.5) < 0.1 and goal > 0.8
    return Finding(
        f"{start:.2f} to {goal:.2f}",
        "reproduced" if shifts and error < 0.05 else "not reproduced",
        f"The exact laws say {start:.2f} at the start and {goal:.2f} beside the goal, where a slippery "
        f"step may still miss it; the means of our fields, learned from transitions, are off by "
        f"{error:.3f} at most.",
    )


def _maze_accuracy(summary: Summary) -> Finding:
    """Of fields that were learned from transitions, as the paper's are."""
    ours, paper = (_row(summary, "learned", name) for name in ("default", "paper"))
    exact, plain = (_row(summary, "Cramér, noise", "default"), _row(summary, "L2, plain", "paper"))
    for row in (ours, paper, exact, plain):
        known(row["w1_worst"], f"{row['method']}, {row['n']}")
    recipe_too = _is_near(paper)
    verdict: Verdict = "reproduced" if recipe_too else "better"
    seeds = [cell["w1_worst"] for cell in ours["per_seed"]]
    return Finding(
        f"worst W1 {with_error(ours['w1_worst'], seeds, '.3f')}, g off by "
        f"{ours['gradient_error_worst']:.0%} at most",
        verdict if _is_near(ours) else "not reproduced",
        "Learned from transitions, against the exact law and its slope in every state, means over "
        f"seeds; the paper's networks: {paper['w1_worst']:.2f} and "
        f"{shown_share(paper['gradient_error_worst'])}. By exact backups on {exact['n']} functions "
        f"ours come to {exact['w1_worst']:.0e} and {exact['gradient_error_worst']:.2%}, the paper's L2 "
        f"update, against the law that it aims at, to {plain['w1_worst']:.0e} and "
        f"{plain['gradient_error_worst']:.0%}.",
    )


def _is_near(row: Summary) -> bool:
    return row["w1_worst"] < 0.05 and row["gradient_error_worst"] < ACCURATE


def _row(summary: Summary, kind: str, name: str) -> Summary:
    """A row of the maze's table: the one of 41 functions, where there are several."""
    found = [r for r in summary["rows"] if kind in r["method"] and name in r["method"]]
    if not found:
        raise MissingFigureError(f"{kind}, {name}")
    return next((r for r in found if r["n"] == _FUNCTIONS), found[0])


def _no_discretisation(summary: Summary) -> Finding:
    """With exact backups nothing but the model of the law makes an error."""
    ours, plain = (_row(summary, "Cramér, noise", "default"), _row(summary, "L2, plain", "paper"))
    c51 = {r["n"]: r["w1_worst"] for r in summary["rows"] if "C51" in r["method"]}
    many = max(c51)
    atoms = known(c51[many], "C51's atoms")
    w1, error = (known(r["w1_worst"], "exact backups") for r in (ours, plain))
    near, recipe_too = w1 < 0.1 * atoms, error < atoms
    return Finding(
        f"W1 {w1:.0e} with {ours['n']} functions, C51 {atoms:.0e} with {many} atoms",
        ("reproduced" if recipe_too else "better") if near else "not reproduced",
        "Exact backups in the maze, worst state, every model against the law that it aims at; the "
        f"paper's plain L2 update with {plain['n']} functions is off by {error:.0e}, "
        f"{'less' if recipe_too else 'more'} than C51.",
    )


def _cartpole_laws(summary: Summary) -> Finding:
    best, plain = summary["best"], summary["plain"]
    ours, c51, paper = (best[name] for name in _SHOWN)
    verdict: Verdict = "reproduced" if _laws_are_near(paper) else "better"
    return Finding(
        f"W1 {ours['law_w1']:.1%} of the range; s off by {ours['scalar_error']:.0%}, "
        f"g by {ours['gradient_error']:.0%}",
        verdict if _laws_are_near(ours) else "not reproduced",
        "Against Monte-Carlo returns of the final policy, in best settings (in plain ones "
        f"{plain['bellman']['law_w1']:.0%}, {plain['bellman']['scalar_error']:.0%} and "
        f"{plain['bellman']['gradient_error']:.0%}): W1 of C51 {c51['law_w1']:.1%}, of the paper's two "
        f"networks {paper['law_w1']:.0%}, whose s is off by {shown_share(paper['scalar_error'])} and g "
        f"by {shown_share(paper['gradient_error'])}.",
    )


def _laws_are_near(figures: Summary) -> bool:
    """False for what is not a number, too."""
    fields = all(figures[name] < ACCURATE for name in ("scalar_error", "gradient_error"))
    return fields and figures["law_w1"] < 0.05


def _in_the_end(summary: Summary) -> Finding:
    best = summary["best"]
    ours, c51, paper = (best[name]["iqm"] for name in _SHOWN)
    reached = min(ours, c51) >= SOLVED
    return Finding(
        f"{ours:.0f}, C51 {c51:.0f}",
        ("reproduced" if paper >= SOLVED else "better") if reached else "not reproduced",
        "Interquartile means of the last ten evaluations in best settings; the paper's two networks: "
        f"{paper:.0f}.",
    )


def _faster(summary: Summary) -> Finding:
    """By 1.5 or more in one setting, beyond what seeds explain, and slower in none."""
    if len(summary["seeds"]) < _LEAST_SEEDS:
        raise MissingFigureError(f"{_LEAST_SEEDS} seeds")
    gains = {s: speed_gain(summary[s]["bellman"], summary[s]["c51"]) for s in SETTINGS}
    single = {
        s: speed_gain(summary[s]["bellman"], summary[s]["c51"], "first_reached") for s in SETTINGS
    }
    medians = [f"{setting}: {_medians(summary[setting])}" for setting in SETTINGS]
    faster = any(g.low > 1 and g.ratio >= _FASTER for g in gains.values())
    faster = faster and all(g.high >= 1 for g in gains.values())
    paper_too = any(
        speed_gain(summary[s]["bellman-paper"], summary[s]["c51"]).low > 1 for s in SETTINGS
    )
    verdict: Verdict = "reproduced" if paper_too else "better"
    return Finding(
        _by_setting(gains),
        verdict if faster else "not reproduced",
        f"C51's steps to {IN_A_ROW} evaluations of 475 in a row over ours, by the median of the seeds, "
        f"with 95 % intervals of a bootstrap; by the first evaluation at 475, {_by_setting(single)}. "
        f"Steps in {'; in '.join(medians)}.",
    )


def _by_setting(gains: Mapping[str, object]) -> str:
    return "; ".join(f"{setting} settings: {gain}" for setting, gain in gains.items())


def _medians(models: Summary) -> str:
    names = {"ours": "bellman", "C51": "c51", "QR-DQN": "qr-dqn"}
    names |= {"the paper's two networks": "bellman-paper"}
    return ", ".join(
        f"{said} {shown_steps(models[n]['median_steps'])}"
        for said, n in names.items()
        if n in models
    )


def _steadier(summary: Summary) -> Finding:
    """Clearly fewer evaluations relapse in one setting, and clearly more in none."""
    gains = [steadiness_gain(summary[s]["bellman"], summary[s]["c51"]) for s in SETTINGS]
    found = [gain for gain in gains if gain is not None]
    if len(found) < len(gains):
        raise MissingFigureError("several seeds at 475")
    clear = [gain.mean > 0 for gain in found if gain.is_clear]
    ours, c51, paper = ({s: summary[s][name]["relapses"] for s in SETTINGS} for name in _SHOWN)
    recipe_too = all(
        p is not None and p <= o for p, o in zip(paper.values(), ours.values(), strict=True)
    )
    good: Verdict = "reproduced" if recipe_too else "better"
    shown = [f"{setting}: {ours[setting]:.1%}, C51 {c51[setting]:.1%}" for setting in SETTINGS]
    networks = ["none got there" if p is None else f"{p:.0%}" for p in paper.values()]
    return Finding(
        f"evaluations below 475 after the first at it, {'; '.join(shown)}",
        good if clear and all(clear) else "not reproduced",
        f"Over seeds they are {' and '.join(map(shown_steadiness, found))} than C51's; of the paper's "
        f"networks {' and '.join(networks)}.",
    )


def _need_of_linearity(summary: Summary) -> Finding:
    """Softmaxes over nodes are energies, and they learn from one-step targets."""
    plain = {n: summary["plain"][n]["iqm"] for n in _SHOWN}
    best = {n: summary["best"][n]["iqm"] for n in _SHOWN}
    wrong = max(best["bellman"], best["c51"]) >= SOLVED
    return Finding(
        f"returns of softmax models by one-step targets: ours {plain['bellman']:.0f}, C51 "
        f"{plain['c51']:.0f}; by three steps {best['bellman']:.0f} and {best['c51']:.0f}",
        "claim wrong" if wrong else "reproduced",
        "A softmax over nodes is an energy model. Its targets, means of densities, are linear; cross-"
        "entropy fits the model to sampled ones without bias. The fields that are linear themselves, "
        f"the paper's two networks, come to {plain['bellman-paper']:.0f} and "
        f"{best['bellman-paper']:.0f}.",
    )


def _trajectories(summary: Summary) -> Finding:
    e = summary["exponent"]
    fresh, shared, one = e["fresh trajectories"], e["whole trajectories, shared"], e["one step"]
    return Finding(
        f"N^{fresh:.1f} against N^{one:.1f}",
        "reproduced" if fresh > 1.8 and one < fresh - 0.5 else "not reproduced",
        f"Of fresh trajectories from every block; trajectories that serve each on their way grow "
        f"as N^{shared:.1f}.",
    )


CONTROL = (
    Claim(
        "Section 5.3, maze figure",
        "The expected return shifts on the way to the goal",
        "0.5 to 1",
        "frozenlake",
        _maze,
    ),
    Claim(
        "Section 5.3, maze figure",
        "Return laws and their derivatives are accurate",
        "by eye",
        "frozenlake",
        _maze_accuracy,
    ),
    Claim(
        "Section 5.3, cart-pole figure",
        "Return laws and their derivatives are accurate",
        "by eye",
        "cartpole",
        _cartpole_laws,
    ),
    Claim("Abstract, Section 5.3", "Learns faster than C51", "1.5 ×", "cartpole", _faster),
    Claim("Section 5.3", "and more stably", "by eye", "cartpole", _steadier),
    Claim(
        "Section 5.3",
        "Both can reach the maximum return in the end",
        "500",
        "cartpole",
        _in_the_end,
    ),
    Claim(
        "Section 2, Appendix D.1",
        "Models that are not linear in the density need full trajectories",
        "argued",
        "cartpole",
        _need_of_linearity,
    ),
    Claim(
        "Related work, Section 5.3",
        "Continuous laws avoid the errors of C51's discrete ones",
        "argued",
        "frozenlake",
        _no_discretisation,
    ),
    Claim(
        "Appendix D.1",
        "Full trajectories cost N² environment steps in a maze of N blocks, one-step updates less",
        "N²",
        "chain",
        _trajectories,
    ),
)
