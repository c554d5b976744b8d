"""Appendix D.1: what full trajectories cost against one-step updates, in a 1-D maze of N blocks.

In each block the robot steps right with probability 0.8, falls into a hole with probability 1/N, else
stays; the last block pays 1; γ = 1 − 1/N. So the return's law is as wide for every N. A way of
learning is charged the environment steps after which the worst block's W1 to the exact law is at most
0.05 (mean over seeds).
"""

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm

from bellman_diffusion.bellman.basis import GaussianBasis
from bellman_diffusion.bellman.dynamic_programming import solve
from bellman_diffusion.bellman.mdp import Chain, FiniteMDP
from bellman_diffusion.bellman.projection import BasisProjection
from bellman_diffusion.bellman.reference import atoms_at_the_end
from bellman_diffusion.experiments.cells import load_or_run
from bellman_diffusion.training import NoProgress, Progress
from bellman_diffusion.training.files import write_json

FORWARD, SIGMA, BAR = 0.8, 0.05, 0.05
# Few enough to be tried, many enough that every block is seen to be left.
_FEWEST = 8
_BINS = 1000
WAYS = ("fresh trajectories", "whole trajectories, shared", "one step")


@dataclass(frozen=True)
class ChainSettings:
    """The sizes of the experiment."""

    blocks: tuple[int, ...] = (8, 16, 32, 64, 128, 256, 512)
    n_seeds: int = 5
    n_functions: int = 21


def maze(n: int) -> Chain:
    """N blocks in a row; the last is the goal."""
    p = _outcomes(n)
    table = [
        [
            [
                (p[0], i + 1, float(i == n - 2), i == n - 2),
                (p[1], i, 0.0, True),
                (p[2], i, 0.0, False),
            ]
        ]
        for i in range(n - 1)
    ]
    mdp = FiniteMDP.from_table([*table, [[(1.0, n - 1, 0.0, True)]]])
    return mdp.under(np.ones((n, 1)))


def _outcomes(n: int) -> np.ndarray:
    """The probabilities of stepping right, falling, staying."""
    return np.array([FORWARD, 1 / n, 1 - FORWARD - 1 / n])


def run_chain(
    out: Path,
    seed: int,
    settings: ChainSettings | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Environment steps by N and way of learning, and the growth's exponent."""
    settings = settings or ChainSettings()
    start = time.perf_counter()
    steps: dict[str, list[float]] = {way: [] for way in WAYS}
    with progress or NoProgress() as bar:
        for done, n in enumerate(settings.blocks, start=1):
            case = {"n": n, "n_seeds": settings.n_seeds, "functions": settings.n_functions}
            found = load_or_run(
                out / "cells" / f"blocks-{n}-{seed}.json",
                case | {"seed": seed},
                partial(_all_ways, n, settings, seed),
            )
            for way in WAYS:
                steps[way].append(found[way])
            bar.update(done, len(settings.blocks), {"blocks": float(n)})
    blocks = np.log(settings.blocks)
    growth = {way: float(np.polyfit(blocks, np.log(steps[way]), 1)[0]) for way in WAYS}
    summary = {
        "blocks": list(settings.blocks),
        "steps": steps,
        "exponent": growth,
        "seeds": list(range(seed, seed + settings.n_seeds)),
        "seconds": time.perf_counter() - start,
    }
    write_json(out / "chain.json", summary)
    return summary


def _all_ways(n: int, settings: ChainSettings, seed: int) -> dict[str, float]:
    judge = _Judge(n, settings, seed)
    return {way: judge.steps_needed(way) for way in WAYS}


class _Judge:
    """How many environment steps a way of learning needs in a maze of n blocks."""

    def __init__(self, n: int, settings: ChainSettings, seed: int) -> None:
        self.n, self.gamma = n, 1 - 1 / n
        self.seeds = range(seed, seed + settings.n_seeds)
        self.chain = maze(n)
        self.x = np.linspace(-0.4, 1.4, 361)
        self.exact = atoms_at_the_end(self.chain, self.gamma).cdf(self.x, SIGMA)
        basis = GaussianBasis.on_interval(0, 1, settings.n_functions, SIGMA)
        self.projection = BasisProjection(basis)
        self.smooth = norm.cdf((self.x[None] - basis.centres) / SIGMA)
        places = np.arange(_BINS + 1) / _BINS
        self.bin_smooth = norm.cdf((self.x[None] - places[:, None]) / SIGMA)

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
        if way == "one step":
            cdf, steps = self._one_step(count, rng), count * (self.n - 1)
        elif way == "fresh trajectories":
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
        laws = solve(chain, self.gamma, self.projection, tolerance=1e-6).coefficients
        return (laws @ self.smooth)[:-1]
