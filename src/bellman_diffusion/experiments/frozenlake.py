"""The maze figure of Section 5.3, and the accuracy of planners by what they are made of."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from bellman_diffusion.bellman.basis import GaussianBasis
from bellman_diffusion.bellman.dynamic_programming import solve
from bellman_diffusion.bellman.judge import against_exact
from bellman_diffusion.bellman.learn import Mode
from bellman_diffusion.bellman.mdp import Chain, mean_return, optimal_policy
from bellman_diffusion.bellman.mixture import MixtureReturn
from bellman_diffusion.bellman.projection import (
    BasisProjection,
    CategoricalProjection,
    Projection,
)
from bellman_diffusion.bellman.tables import finite_mdp
from bellman_diffusion.errors import BellmanError
from bellman_diffusion.experiments.cells import load_or_run
from bellman_diffusion.experiments.planning import LAKE_FIGURES, PlanningSettings, plan_lake
from bellman_diffusion.experiments.workers import run_side_by_side
from bellman_diffusion.training import Progress
from bellman_diffusion.training.files import write_json

GAMMA, SIGMA = 0.99, 0.05
FUNCTIONS = (11, 21, 41, 81)
ATOMS = (21, 51, 201)
# What the figure shows, by the number of functions or atoms of each.
SHOWN = {"default": 41, "paper": 41, "c51": 41}


@dataclass(frozen=True)
class Frame:
    """One panel of the figure: a moment of an episode."""

    step: int
    state: int
    picture: np.ndarray


def methods(basis: GaussianBasis) -> dict[str, Projection]:
    """All that are compared, by name: what is matched, and how the noise is treated."""
    return {
        "L2, plain (the paper)": BasisProjection(
            basis, "l2", noise_preserving=False, keep_mean=False
        ),
        "L2, noise-preserving": BasisProjection(basis, "l2", keep_mean=False),
        "Cramér, plain": BasisProjection(basis, noise_preserving=False, keep_mean=False),
        "Cramér, noise-preserving, mean kept (default)": BasisProjection(basis),
        "Cramér, noise-preserving": BasisProjection(basis, keep_mean=False),
    }


def lake_chain() -> Chain:
    """Slippery FrozenLake 4×4 under the optimal policy."""
    mdp = finite_mdp(gym.make("FrozenLake-v1"))
    return mdp.under(optimal_policy(mdp, GAMMA))


def run_frozenlake(
    out: Path,
    seed: int = 0,
    n_seeds: int = 1,
    settings: PlanningSettings | None = None,
    n_workers: int | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """The table; `frozenlake.json` keeps it."""
    start = time.perf_counter()
    chain = lake_chain()
    rows = []
    for n in FUNCTIONS:
        for name, projection in methods(_basis(n)).items():
            rows.append({"method": name, "n": n, **_judge(chain, projection)})
    for n in ATOMS:
        rows.append(
            {"method": "C51 (smoothed)", "n": n, **_judge(chain, CategoricalProjection(_basis(n)))}
        )
    seeds = range(seed, seed + n_seeds)
    rows += _learned(out, seeds, settings or PlanningSettings(), n_workers, progress)
    means = mean_return(chain, GAMMA)[:, 0]
    summary = {
        "seeds": list(seeds),
        "rows": rows,
        "gamma": GAMMA,
        "sigma": SIGMA,
        "mean_at_start": float(means[0]),
        "mean_beside_goal": float(means[14]),
        "seconds": time.perf_counter() - start,
    }
    write_json(out / "frozenlake.json", summary)
    return summary


def shown_laws(chain: Chain) -> dict[str, MixtureReturn]:
    """Every state's law by the three modes of the figure."""
    laws = {}
    for mode, n in SHOWN.items():
        basis = _basis(n)
        projection: Projection = BasisProjection(basis)
        if mode == "c51":
            projection = CategoricalProjection(basis)
        if mode == "paper":
            projection = BasisProjection(basis, "l2", noise_preserving=False, keep_mean=False)
        laws[mode] = MixtureReturn.create(solve(chain, GAMMA, projection).coefficients, basis)
    return laws


def trajectory(seed: int, n_frames: int = 6) -> list[Frame]:
    """A whole episode under the optimal policy that reaches the goal, at evenly spaced steps.

    The shortest of many: on slippery ice most wander for long.
    """
    # No window is wanted; without this the renderer looks for a screen.
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    env = gym.make("FrozenLake-v1", render_mode="rgb_array")
    policy = optimal_policy(finite_mdp(env), GAMMA).argmax(axis=1)
    shortest: list[Frame] = []
    for attempt in range(40):
        state, _ = env.reset(seed=seed + attempt)
        frames = [Frame(0, int(state), np.asarray(env.render()))]
        done, reward = False, 0.0
        while not done:
            state, reward, stop, cut, _ = env.step(int(policy[state]))
            done = stop or cut
            frames.append(Frame(len(frames), int(state), np.asarray(env.render())))
        shorter = not shortest or len(frames) < len(shortest)
        if float(reward) > 0 and len(frames) > n_frames and shorter:
            shortest = frames
    if not shortest:
        raise BellmanError(f"no episode from seed {seed} on reached the goal; try another --seed")
    # The last state has no future: the panel before it is the last with a return to come.
    pick = np.linspace(0, len(shortest) - 2, n_frames).round().astype(int)
    return [shortest[i] for i in pick]


def _learned(
    out: Path,
    seeds: Sequence[int],
    settings: PlanningSettings,
    n_workers: int | None,
    progress: Progress | None,
) -> list[dict[str, Any]]:
    """The same laws from transitions, as the paper learns them: by our default and by its networks."""
    modes: tuple[Mode, ...] = ("default", "paper")

    def cell(mode: Mode, seed: int) -> Callable[[], dict[str, Any]]:
        path = out / "cells" / f"learned-{mode}-{seed}.json"
        case = asdict(settings) | {"mode": mode, "seed": seed}
        return partial(load_or_run, path, case, partial(plan_lake, mode, seed, settings))

    tasks = [cell(mode, seed) for seed in seeds for mode in modes]
    run_side_by_side(tasks, n_workers=n_workers, progress=progress)
    rows = []
    for mode in modes:
        cells = [cell(mode, seed)() for seed in seeds]
        row = {"method": f"learned from {settings.lake_samples:,} transitions ({mode})"}
        means = {name: float(np.mean([c[name] for c in cells])) for name in LAKE_FIGURES}
        rows.append(row | {"n": settings.lake_functions, **means, "per_seed": cells})
    return rows


def _basis(n: int) -> GaussianBasis:
    return GaussianBasis.on_interval(0, 1, n, SIGMA)


def _judge(chain: Chain, projection: Projection) -> dict[str, Any]:
    try:
        solution = solve(chain, GAMMA, projection)
    except BellmanError:
        return dict.fromkeys(LAKE_FIGURES)
    laws = MixtureReturn.create(solution.coefficients, projection.basis)
    # A plain update aims at a law whose noise narrows on the way: it is judged by that one.
    plain = isinstance(projection, BasisProjection) and not projection.noise_preserving
    figures = against_exact(laws, chain, GAMMA, SIGMA, 1.0, shrink=GAMMA if plain else 1.0)
    return {name: figures[name] for name in LAKE_FIGURES}
