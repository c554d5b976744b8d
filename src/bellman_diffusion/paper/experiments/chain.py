"""Appendix D.1: what full trajectories cost against one-step updates, in a 1-D maze of N blocks.

In each block the robot steps right with probability 0.8, falls into a hole with probability 1/N, else
stays; the last block pays 1; γ = 1 − 1/N. So the return distribution is as wide for every N. The cost
of a way of learning is the environment steps after which the worst block's W1 to the exact distribution
is at most 0.05 (mean over seeds).
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from scipy.stats import norm

from bellman_diffusion.paper.cells import load_or_run
from bellman_diffusion.paper.claims import Finding, claim, reproduced
from bellman_diffusion.paper.experiment import Experiment, Options, Summary, Workplace, option
from bellman_diffusion.planning.exact import solve
from bellman_diffusion.render.figure import COLOURS, new_figure, save_figure
from bellman_diffusion.render.page import Picture, Section, Table
from bellman_diffusion.returns.basis import GaussianBasis
from bellman_diffusion.returns.mdp import Chain, FiniteMDP
from bellman_diffusion.returns.projection import BasisProjection
from bellman_diffusion.returns.reference import atoms_at_the_end

FORWARD, SIGMA, BAR = 0.8, 0.05, 0.05
# Few enough to be tried, many enough that every block is seen to be left.
_FEWEST = 8
_BINS = 1000
_N_BASIS, _N_SEEDS = 21, 5
_BLOCKS = (8, 16, 32, 64, 128, 256, 512)
FRESH, SHARED, ONE_STEP = "fresh trajectories", "whole trajectories, shared", "one step"
WAYS = (FRESH, SHARED, ONE_STEP)


@dataclass(frozen=True)
class ChainOptions(Options):
    """How large the mazes get."""

    largest: int = option(512, "The largest maze, in blocks.", min=16)


class ChainSummary(Summary):
    """Environment steps by N and way of learning, and the growth's exponent."""

    blocks: list[int]
    steps: dict[str, list[float]]
    exponent: dict[str, float]
    seeds: list[int]
    seconds: float


def maze(n: int) -> Chain:
    """N blocks in a row; the last is the goal."""
    right, fall, stay = _outcomes(n)
    table = []
    for i in range(n - 1):
        last = i == n - 2
        table.append(
            [[(right, i + 1, float(last), last), (fall, i, 0.0, True), (stay, i, 0.0, False)]]
        )
    mdp = FiniteMDP.from_table([*table, [[(1.0, n - 1, 0.0, True)]]])
    return mdp.under(np.ones((n, 1)))


def _outcomes(n: int) -> np.ndarray:
    """The probabilities of stepping right, falling, staying."""
    return np.array([FORWARD, 1 / n, 1 - FORWARD - 1 / n])


def run(options: ChainOptions, work: Workplace, n_seeds: int = _N_SEEDS) -> ChainSummary:
    """Every maze up to the largest, by every way of learning."""
    start = time.perf_counter()
    seeds = range(options.seed, options.seed + n_seeds)
    blocks = [n for n in _BLOCKS if n <= options.largest]
    found = []
    with work.bar("mazes", ()) as bar:
        for n in blocks:
            path = work.cells / f"blocks-{n}-{options.seed}.json"
            key = {"n": n, "seeds": list(seeds)}
            found.append(load_or_run(path, key, dict[str, float], partial(_all_ways, n, seeds)))
            bar.update(len(found), len(blocks), {})
    steps = {way: [one[way] for one in found] for way in WAYS}
    logs = np.log(blocks)
    summary = ChainSummary(
        blocks=blocks,
        steps=steps,
        exponent={way: float(np.polyfit(logs, np.log(steps[way]), 1)[0]) for way in WAYS},
        seeds=list(seeds),
        seconds=time.perf_counter() - start,
    )
    _draw(work.figures / "chain.png", summary)
    return summary


def _all_ways(n: int, seeds: Sequence[int]) -> dict[str, float]:
    maze = _Maze(n, seeds)
    return {way: maze.steps_needed(way) for way in WAYS}


class _Maze:
    """How many environment steps a way of learning needs in a maze of n blocks."""

    def __init__(self, n: int, seeds: Sequence[int]) -> None:
        self.n, self.gamma, self.seeds = n, 1 - 1 / n, seeds
        self.chain = maze(n)
        self.x = np.linspace(-0.4, 1.4, 361)
        self.exact = atoms_at_the_end(self.chain, self.gamma).cdf(self.x, SIGMA)
        basis = GaussianBasis.on_interval(0, 1, _N_BASIS, SIGMA)
        self.projection = BasisProjection(basis)
        self.smooth = norm.cdf(self.x, basis.centres, SIGMA)
        self.bin_smooth = norm.cdf(self.x, np.arange(_BINS + 1)[:, None] / _BINS, SIGMA)

    def steps_needed(self, way: str) -> float:
        """The least samples of each block that meet the bar, in environment steps."""
        count = _FEWEST
        while True:
            runs = [self._run(way, count, seed) for seed in self.seeds]
            if np.mean([error for error, _ in runs]) <= BAR:
                return float(np.mean([steps for _, steps in runs]))
            count = int(np.ceil(count * 1.2))

    def _run(self, way: str, count: int, seed: int) -> tuple[float, float]:
        """The worst block's error and the environment steps, with `count` samples of each block."""
        rng = np.random.default_rng([seed, self.n, count, WAYS.index(way)])
        if way == ONE_STEP:
            cdf, steps = self._one_step(count, rng), count * (self.n - 1)
        elif way == FRESH:
            runs = [self._walk(start, count, rng) for start in range(self.n - 1)]
            cdf = np.stack([self._smoothed(returns[:, 0]) for returns, _ in runs])
            steps = sum(n_steps for _, n_steps in runs)
        else:
            returns, steps = self._walk(0, count, rng)
            # A block that no trajectory reached is not known at all: its return is taken as 0.
            seen = [column[np.isfinite(column)] for column in returns.T]
            cdf = np.stack([self._smoothed(c if c.size else np.zeros(1)) for c in seen])
        error = np.trapezoid(np.abs(cdf - self.exact[:-1]), self.x, axis=1).max()
        return float(error), float(steps)

    def _walk(self, start: int, count: int, rng: np.random.Generator) -> tuple[np.ndarray, int]:
        """Returns from each block on the way (NaN where none came), and the steps taken."""
        right, fall, _ = _outcomes(self.n)
        shape = (count, self.n - 1 - start)
        waits = rng.geometric(right + fall, size=shape)
        fell = rng.uniform(size=shape) < fall / (right + fall)
        fell_before = np.cumsum(fell, axis=1) - fell > 0
        reached_end = ~fell.any(axis=1)
        left = np.cumsum(waits[:, ::-1], axis=1)[:, ::-1]
        returns = np.where(reached_end[:, None], self.gamma ** (left - 1.0), 0.0)
        return np.where(fell_before, np.nan, returns), int(waits[~fell_before].sum())

    def _smoothed(self, returns: np.ndarray) -> np.ndarray:
        """Returns are first binned, finely against σ: a maze of 512 blocks has millions of them."""
        bins = np.bincount(np.round(returns * _BINS).astype(int), minlength=_BINS + 1)
        return (bins / len(returns)) @ self.bin_smooth

    def _one_step(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Bellman updates on `count` transitions of each block."""
        share = rng.multinomial(count, _outcomes(self.n), size=self.n - 1) / count
        # The chain's rows are by block, then right, fall, stay, as in `maze`.
        probability = np.concatenate([share.reshape(-1), [1.0]])
        chain = self.chain._replace(probability=probability)
        solution = solve(chain, self.gamma, self.projection, tolerance=1e-6)
        return (solution.coefficients @ self.smooth)[:-1]


def _draw(path: Path, summary: ChainSummary) -> None:
    """Environment steps by number of blocks."""
    figure = new_figure(6.5, 4.2)
    axis = figure.subplots()
    for (way, steps), colour in zip(summary.steps.items(), COLOURS, strict=False):
        label = f"{way}: N^{summary.exponent[way]:.2f}"
        axis.plot(summary.blocks, steps, "o-", color=colour, label=label)
    axis.set(xscale="log", yscale="log", title="Until worst W1 ≤ 0.05")
    axis.set(xlabel="blocks N", ylabel="environment steps")
    axis.set_xticks(summary.blocks, [str(n) for n in summary.blocks])
    axis.minorticks_off()
    axis.legend(fontsize=8)
    save_figure(figure, path)


def sections(summary: ChainSummary, figures: Path) -> list[Section]:
    """How the costs grow."""
    e = summary.exponent
    text = (
        f"Means over {len(summary.seeds)} seeds. The paper: full trajectories cost O(N²) environment "
        f"steps in a maze of N blocks, one-step updates fewer. Ours: N^{e[FRESH]:.1f} if each block "
        f"has its own trajectories and N^{e[ONE_STEP]:.1f} by one-step updates, but "
        f"N^{e[SHARED]:.1f} if one trajectory serves every block on its way."
    )
    rows = [
        (way, f"N^{e[way]:.2f}", *(f"{s:.3g}" for s in steps))
        for way, steps in summary.steps.items()
    ]
    table = Table(("way of learning", "growth", *(f"N = {n}" for n in summary.blocks)), rows)
    picture = Picture(figures / "chain.png", "Environment steps to learn a maze of N blocks.")
    return [Section("The cost of trajectories", text, table, [picture])]


@claim(
    "Appendix D.1",
    "Full trajectories cost N² environment steps in a maze of N blocks, one-step updates less",
    "N²",
)
def _trajectories_cost_more(summary: ChainSummary) -> Finding:
    fresh, shared, one = (summary.exponent[way] for way in WAYS)
    return Finding(
        f"N^{fresh:.1f} against N^{one:.1f}",
        reproduced(fresh > 1.8 and one < fresh - 0.5),
        "For fresh trajectories from every block; trajectories that serve each block on their way grow "
        f"as N^{shared:.1f}.",
    )


EXPERIMENT = Experiment(
    name="chain",
    title="Trajectories (Appendix D.1)",
    about="Appendix D.1: environment steps of full trajectories against one-step updates.",
    options=ChainOptions,
    summary=ChainSummary,
    run=run,
    sections=sections,
    order=80,
    page="planning",
    claims=(_trajectories_cost_more,),
    quick={"largest": 64},
    thinned="mazes of up to 64 blocks of 512",
)
