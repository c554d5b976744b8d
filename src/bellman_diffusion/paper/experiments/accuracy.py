"""How far delivered return distributions are from the true ones: exact planning and learned models."""

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import jax.numpy as jnp
import msgspec
import numpy as np

from bellman_diffusion.paper.accuracy_methods import (
    even_basis,
    quantile_atoms,
    solved_on_basis,
    support_of,
)
from bellman_diffusion.paper.cells import load_or_run
from bellman_diffusion.paper.experiment import Experiment, SeededOptions, Summary, Workplace, option
from bellman_diffusion.paper.processes import PROCESSES, PUBLISHED, Process
from bellman_diffusion.planning.certify import Certified, certified_distribution, certify
from bellman_diffusion.planning.counting import Counted
from bellman_diffusion.planning.job import state_encoder
from bellman_diffusion.planning.learning import LearnSettings, learn
from bellman_diffusion.planning.transitions import sample_chain
from bellman_diffusion.render.figure import new_figure, save_figure
from bellman_diffusion.render.page import Picture, Section, Table
from bellman_diffusion.returns.distance import wasserstein
from bellman_diffusion.returns.distribution import ReturnDistribution
from bellman_diffusion.returns.mdp import Chain
from bellman_diffusion.returns.projection import BasisProjection, CategoricalProjection

SIZES = (21, 41, 101)
LEARNED_SIZE = 101
# Single steps need many Bellman updates, so the target network follows quickly; for every method.
_TARGET_MEMORY = 20.0
N_TRANSITIONS = 500_000
ACCURACY = 1e-3
_TRUTH = 2e-4
OURS, C51, QUANTILES, PAPER = "ours", "C51", "quantiles", "the paper"
COUNTED = "counted"
_MODES = {OURS: "cells", C51: "c51", QUANTILES: "quantile", PAPER: "paper", COUNTED: "counted"}
EXACT = (OURS, C51, QUANTILES, PAPER)
# Learned quantiles are left out: their loss has a term for every pair of 101, and on the dice W1 is
# still 0.74 after 10,000 steps and five minutes.
LEARNED = (OURS, C51, PAPER, COUNTED)


@dataclass(frozen=True)
class AccuracyOptions(SeededOptions):
    """Three seeds by default."""

    seeds: int = option(3, "How many seeds of the learned models, from --seed on.", min=1)
    transitions: int = option(N_TRANSITIONS, "Transitions to learn from.", min=1000)
    max_iter: int = option(10_000, "Training steps of a learned model.", min=1)


class Row(msgspec.Struct, kw_only=True):
    """W1 to the return's own distribution from one state; None where the updates diverge."""

    process: str
    state: int
    method: str
    n: int
    """Cells, atoms, quantiles or basis functions; outputs of a network where it is learned."""
    w1: float | None
    range: float
    """Of the returns of all states."""
    bound: float | None = None
    """On W1, where it is certified."""
    per_seed: list[float] | None = None
    """Of learned models; `w1` is their mean."""
    seconds: float | None = None


class AccuracySummary(Summary):
    """Exact planning at given sizes and to a given accuracy; learned models."""

    seeds: list[int]
    n_transitions: int
    exact: list[Row]
    certified: list[Row]
    learned: list[Row]
    truth_bound: float
    """The largest bound on the W1 of what all are compared with, as a share of the range."""
    seconds: float

    def ratios(self, rows: list[Row], method: str, n: int) -> list[float]:
        """A method's W1 over C51's, for each process and state."""
        found = {(r.process, r.state, r.method): r.w1 for r in rows if r.n == n}
        keys = [(p, s) for p, s, m in found if m == C51]
        pairs = [(found[*key, method], found[*key, C51]) for key in keys]
        return [a / b for a, b in pairs if a is not None and b]


def geometric_mean(values: list[float]) -> float:
    """What is below a hundredth counts as that: one perfect case must not decide."""
    return float(np.exp(np.mean(np.log(np.maximum(values, 0.01)))))


def run(options: AccuracyOptions, work: Workplace) -> AccuracySummary:
    """Every process, exactly; those that others have published, also from transitions."""
    start = time.perf_counter()
    exact, certified, bounds = [], [], []
    for name, process in PROCESSES.items():
        chain = process.chain()
        truth = certify(chain, process.gamma, accuracy=_TRUTH)
        bounds.append(_bound(truth, process) / _width(truth))
        exact += _exact(name, process, chain, truth)
        certified += _certified(name, process, chain, truth)
    keys = [
        (name, mode, seed)
        for mode in LEARNED
        for name, process in PROCESSES.items()
        for seed in options.all_seeds
        if process.learned
    ]
    found = work.run_parallel(
        "learned models", {key: partial(_learned_cell, work.cells, *key, options) for key in keys}
    )
    learned = [
        _mean_of_seeds([found[name, mode, seed][i] for seed in options.all_seeds])
        for name, process in PROCESSES.items()
        for mode in LEARNED
        for i in range(len(process.states))
        if process.learned
    ]
    summary = AccuracySummary(
        seeds=list(options.all_seeds),
        n_transitions=options.transitions,
        exact=exact,
        certified=certified,
        learned=learned,
        truth_bound=max(bounds),
        seconds=time.perf_counter() - start,
    )
    _draw(work.figures / "accuracy.png", summary)
    return summary


def _width(found: Certified) -> float:
    low, high = found.range
    return high - low


def _bound(found: Certified, process: Process) -> float:
    """On the W1 of the worst of the states that are reported."""
    return float(found.certificate(np.array(process.states)).w1().max())


def _rows(
    name: str,
    method: str,
    n: int,
    predicted: ReturnDistribution | None,
    truth: Certified,
    seconds: float | None = None,
) -> list[Row]:
    """`predicted` are the distributions of the process's reported states."""
    states = PROCESSES[name].states
    exact = certified_distribution(truth, np.array(states))
    distance = [None] * len(states) if predicted is None else wasserstein(predicted, exact).tolist()
    return [
        Row(process=name, state=s, method=method, n=n, w1=w1, range=_width(truth), seconds=seconds)
        for s, w1 in zip(states, distance, strict=True)
    ]


def _exact(name: str, process: Process, chain: Chain, truth: Certified) -> list[Row]:
    """Ours, C51's atoms, quantiles and the paper's update, with as many numbers of their kind."""
    states, rows = np.array(process.states), []
    for n in SIZES:
        ours = certify(chain, process.gamma, n_cells=n)
        found = {
            OURS: certified_distribution(ours, states),
            C51: solved_on_basis(chain, process, CategoricalProjection(even_basis(truth, n))),
            QUANTILES: quantile_atoms(chain, process, n),
            PAPER: solved_on_basis(chain, process, BasisProjection.of_paper(even_basis(truth, n))),
        }
        for method, predicted in found.items():
            of_method = _rows(name, method, n, predicted, truth)
            rows += _bounded(of_method, ours, states) if method == OURS else of_method
    return rows


def _bounded(rows: list[Row], found: Certified, states: np.ndarray) -> list[Row]:
    """With what is certified."""
    bounds = found.certificate(states).w1().tolist()
    return [
        msgspec.structs.replace(row, bound=bound) for row, bound in zip(rows, bounds, strict=True)
    ]


def _certified(name: str, process: Process, chain: Chain, truth: Certified) -> list[Row]:
    """As `bellman plan` does it by default."""
    start = time.perf_counter()
    found = certify(chain, process.gamma, accuracy=ACCURACY)
    seconds = time.perf_counter() - start
    states = np.array(process.states)
    predicted = certified_distribution(found, states)
    rows = _rows(name, OURS, found.grid.n_cells, predicted, truth, seconds)
    return _bounded(rows, found, states)


def _learned_cell(
    cells: Path, name: str, method: str, seed: int, options: AccuracyOptions
) -> list[Row]:
    """One training, kept as a cell."""
    case = {
        "process": name, "method": method, "seed": seed, "transitions": options.transitions,
        "max_iter": options.max_iter, "outputs": LEARNED_SIZE, "target_memory": _TARGET_MEMORY,
    }  # fmt: skip
    path = cells / f"{name}-{_MODES[method]}-{seed}.json"
    return load_or_run(path, case, list[Row], partial(_learned, name, method, seed, options))


def _learned(name: str, method: str, seed: int, options: AccuracyOptions) -> list[Row]:
    process = PROCESSES[name]
    chain = process.chain()
    truth = certify(chain, process.gamma, accuracy=_TRUTH)
    transitions = sample_chain(chain, options.transitions, seed)
    settings = LearnSettings(
        gamma=process.gamma,
        mode=_MODES[method],
        n_basis=LEARNED_SIZE,
        max_iter=options.max_iter,
        target_memory=_TARGET_MEMORY,
    )
    start = time.perf_counter()
    if method == COUNTED:
        counted = Counted.of(transitions, chain.n_states).chain
        found = certify(counted, process.gamma, accuracy=ACCURACY)
        predicted = certified_distribution(found, np.array(process.states))
    else:
        learned = learn(
            transitions, state_encoder(chain.n_states), support_of(truth), settings, seed
        )
        rows = jnp.asarray(process.states, jnp.float32)[:, None]
        predicted = learned.returns.distribution(rows)[:, 0]
    return _rows(name, method, LEARNED_SIZE, predicted, truth, time.perf_counter() - start)


def _mean_of_seeds(rows: list[Row]) -> Row:
    values = [row.w1 for row in rows if row.w1 is not None]
    seconds = float(np.mean([row.seconds or 0.0 for row in rows]))
    mean = float(np.mean(values)) if len(values) == len(rows) else None
    return msgspec.structs.replace(rows[0], w1=mean, per_seed=values, seconds=seconds)


def _draw(path: Path, summary: AccuracySummary) -> None:
    """W1 over C51's by number of cells, atoms, quantiles or functions; learned on the right."""
    figure = new_figure(10, 4.2)
    left, right = figure.subplots(1, 2)
    for method in EXACT:
        if method == C51:
            continue
        ratios = [summary.ratios(summary.exact, method, n) for n in SIZES]
        means = [geometric_mean(r) if r else np.nan for r in ratios]
        left.plot(SIZES, means, "o-", label=method)
    left.axhline(1, color="black", linestyle=":", label=C51)
    left.set(yscale="log", xscale="log", xlabel="cells, atoms, quantiles or basis functions")
    left.set(ylabel="W1 over C51's (geometric mean)", title="exact planning")
    left.set_xticks(SIZES, [str(n) for n in SIZES])
    left.minorticks_off()
    left.legend()
    names = [f"{r.process} {r.state}" for r in summary.learned if r.method == OURS]
    places = np.arange(len(names))
    for i, method in enumerate(LEARNED):
        values = [r.w1 for r in summary.learned if r.method == method]
        right.plot(places + 0.12 * (i - 1.5), values, "o", label=method)
    known = [PUBLISHED.get(r.process, {}).get(r.state) for r in summary.learned if r.method == OURS]
    for i, name in enumerate(("PCBF (published)", "Value Flows (published)")):
        values = [np.nan if pair is None else pair[i] for pair in known]
        right.plot(places, values, "_", markersize=16, label=name)
    right.set_xticks(places, names, rotation=30, ha="right")
    right.set(yscale="log", ylabel="W1 to the true distribution")
    right.set(title=f"learned from {summary.n_transitions:,} transitions")
    # Room for the legend above the points.
    right.set_ylim(top=100 * right.get_ylim()[1])
    right.legend(fontsize=8, ncols=2, loc="upper center")
    save_figure(figure, path)


def sections(summary: AccuracySummary, figures: Path) -> list[Section]:
    """Exact planning by size, the certified default, and learned models."""
    return [
        _exact_section(summary),
        _certified_section(summary),
        _learned_section(summary, figures),
    ]


def _exact_section(summary: AccuracySummary) -> Section:
    lines = []
    for n in SIZES:
        ratios = summary.ratios(summary.exact, OURS, n)
        lines.append(f"{n}: {geometric_mean(ratios):.2f} (worst {max(ratios):.2f})")
    text = (
        "W1 to the return's own distribution, from the states shown, by exact dynamic programming with "
        "as many cells (ours), atoms (C51), quantiles or basis functions (the paper). A cell has a "
        "probability, a mean and a variance; an atom, a quantile and a basis function have one number. "
        f"Ours over C51, geometric mean over processes and states: {'; '.join(lines)}; a ratio below 0.01 "
        "counts as 0.01. A dash: the "
        "updates diverge. Every figure is compared with certified distributions whose own error is at "
        f"most {summary.truth_bound:.1g} of the range."
    )
    header = ("process", "state", *(f"{m}, {n}" for n in (41, 101) for m in EXACT))
    found = {(r.process, r.state, r.method, r.n): r for r in summary.exact}
    rows = [
        (name, str(s), *(_shown(found[name, s, m, n]) for n in (41, 101) for m in EXACT))
        for name, s in dict.fromkeys((r.process, r.state) for r in summary.exact)
    ]
    return Section("Exact planning", text, Table(header, rows))


def _certified_section(summary: AccuracySummary) -> Section:
    text = (
        f"The default of `bellman plan`: cells are refined until W1 and the CVaR 10 % interval of every "
        f"state are certified to {ACCURACY} of the range."
    )
    rows = [
        (
            r.process, str(r.state), f"{r.n:,}", f"{_share(r.w1, r.range)}",
            f"{_share(r.bound, r.range)}", f"{r.seconds:.2f} s",
        )
        for r in summary.certified
    ]  # fmt: skip
    header = ("process", "state", "cells", "W1 / range", "certified bound / range", "time")
    return Section("To a certified accuracy", text, Table(header, rows))


def _learned_section(summary: AccuracySummary, figures: Path) -> Section:
    ratios = summary.ratios(summary.learned, OURS, LEARNED_SIZE)
    text = (
        f"W1 of distributions that a network with {LEARNED_SIZE} outputs learned from "
        f"{summary.n_transitions:,} one-step transitions; means over {len(summary.seeds)} seeds. Ours are "
        "the cells of exact planning as a network's outputs (`--mode cells`): a probability, a mean and a "
        "variance for each of 33. Distinct transitions are counted, and every step of training learns from "
        "all of them; so it is for C51. `counted` is the default of `bellman plan --samples`: the counted "
        "chain is solved as exact planning does, without a network. "
        f"Ours over C51: {geometric_mean(ratios):.2f} in the geometric mean, {max(ratios):.2f} at worst. "
        "Beside them the figures that the authors of PCBF and Value Flows publish for their models."
    )
    rows = []
    for name, s in dict.fromkeys((r.process, r.state) for r in summary.learned):
        own = {r.method: r for r in summary.learned if (r.process, r.state) == (name, s)}
        others = PUBLISHED.get(name, {}).get(s)
        shown = ("", "") if others is None else tuple(f"{x:.3f}" for x in others)
        took = f"{own[OURS].seconds:.0f} s"
        rows.append((name, str(s), *(_shown(own[m]) for m in LEARNED), *shown, took))
    header = ("process", "state", *LEARNED, "PCBF", "Value Flows", "time of ours")
    picture = Picture(
        figures / "accuracy.png",
        "Left: W1 over C51's with exact updates. Right: W1 of learned distributions.",
    )
    return Section("Learned from transitions", text, Table(header, rows), [picture])


def _shown(row: Row) -> str:
    return "–" if row.w1 is None else f"{row.w1:.4f}"


def _share(value: float | None, total: float) -> str:
    return "–" if value is None else f"{value / total:.1e}"


EXPERIMENT = Experiment(
    name="accuracy",
    title="How accurate return distributions are",
    about="W1 of exact and learned return distributions to the true ones, next to C51 and others.",
    options=AccuracyOptions,
    summary=AccuracySummary,
    run=run,
    sections=sections,
    order=105,
    page="accuracy",
    published={"seed": 70, "seeds": 3},
)
