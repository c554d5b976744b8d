"""Two kinds of treasure: the joint law of a vector return, where histograms need n² atoms.

A 4×4 grid without walls: gold in one corner, silver in another, some of both at the exit in the last.
A random walk ends at the exit. Fields put their functions where returns are; a histogram must cover
the plane.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.cluster import KMeans

from bellman_diffusion.bellman.basis import GaussianBasis
from bellman_diffusion.bellman.dynamic_programming import solve
from bellman_diffusion.bellman.joint import JointReturn
from bellman_diffusion.bellman.mdp import Chain, FiniteMDP, random_policy
from bellman_diffusion.bellman.projection import (
    BasisProjection,
    CategoricalProjection,
    Projection,
)
from bellman_diffusion.training.files import write_json

SIDE, GAMMA = 4, 0.9
GOLD, SILVER, EXIT = (0, 3), (3, 0), (3, 3)


@dataclass(frozen=True)
class TreasureSettings:
    """The sizes of the experiment."""

    functions: tuple[int, ...] = (25, 50, 100, 200)
    histograms: tuple[int, ...] = (5, 10, 20, 30)
    """Atoms along each axis."""
    n_episodes: int = 20_000
    sigma: float = 0.15


def treasure_grid() -> FiniteMDP:
    """Rewards (gold, silver): (1, 0) on each visit to gold, (0, 1) to silver, (1, 1) at the exit."""
    moves = ((0, 1), (0, -1), (1, 0), (-1, 0))
    table: list[list[list[Any]]] = []
    for state in range(SIDE**2):
        row, column = divmod(state, SIDE)
        actions = []
        for down, right in moves:
            at = (min(max(row + down, 0), SIDE - 1), min(max(column + right, 0), SIDE - 1))
            gold, silver, exit_ = at == GOLD, at == SILVER, at == EXIT
            reward = np.array([gold + exit_, silver + exit_], float)
            actions.append([(1.0, at[0] * SIDE + at[1], reward, exit_)])
        table.append(actions)
    table[-1] = [[(1.0, SIDE**2 - 1, np.zeros(2), True)]] * len(moves)
    start = np.zeros(SIDE**2)
    start[0] = 1
    return FiniteMDP.from_table(table, start)


def run_treasure(
    out: Path, seed: int, settings: TreasureSettings | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """W1 of each marginal relative to its range, and the correlation, by number of functions or atoms.

    Returns the figures, and the laws and returns for the picture.
    """
    settings = settings or TreasureSettings()
    begin = time.perf_counter()
    mdp = treasure_grid()
    chain = mdp.under(random_policy(mdp))
    returns = simulate(chain, 0, settings.n_episodes, seed)
    # The centres come from other episodes than the judgement.
    pilot = np.concatenate(
        [simulate(chain, s, 400, seed + 1 + s) for s in range(chain.n_states - 1)]
    )
    rows, laws = [], {}
    for n in settings.functions:
        basis = GaussianBasis(_centres(pilot, n, seed), settings.sigma)
        law = _law(chain, BasisProjection(basis))
        laws[f"{n} functions"] = law
        rows.append({"model": "fields", "n": n, **_judge(law, returns, seed)})
    for n in settings.histograms:
        law = _law(chain, CategoricalProjection(_product_grid(pilot, n, settings.sigma)))
        laws[f"{n}² atoms"] = law
        rows.append({"model": "histogram", "n": n**2, **_judge(law, returns, seed)})
    summary = {
        "rows": rows,
        "seed": seed,
        "n_episodes": settings.n_episodes,
        "sigma": settings.sigma,
        "correlation_monte_carlo": float(np.corrcoef(returns.T)[0, 1]),
        "seconds": time.perf_counter() - begin,
    }
    write_json(out / "treasure.json", summary)
    return summary, {"laws": laws, "returns": returns}


def simulate(chain: Chain, start: int, n: int, seed: int) -> Float[np.ndarray, "n 2"]:
    """Returns of n episodes, all at once."""
    rng = np.random.default_rng(seed)
    state, total = np.full(n, start), np.zeros((n, chain.reward.shape[1]))
    discount, alive = 1.0, np.arange(n)
    while alive.size and discount > 1e-7:
        row = chain.draw(state[alive], rng)
        total[alive] += discount * chain.reward[row]
        state[alive] = chain.following[row]
        alive, discount = alive[~chain.done[row]], discount * GAMMA
    return total


def _centres(pilot: np.ndarray, n: int, seed: int) -> np.ndarray:
    """Where returns are, and the corners of their range, so that none lies outside."""
    found = KMeans(n - 4, random_state=seed).fit(pilot).cluster_centers_
    low, high = pilot.min(axis=0), pilot.max(axis=0)
    corners = [[low[0], low[1]], [low[0], high[1]], [high[0], low[1]], [high[0], high[1]]]
    return np.concatenate([found, corners])


def _product_grid(pilot: np.ndarray, n: int, sigma: float) -> GaussianBasis:
    axes = [np.linspace(pilot[:, d].min(), pilot[:, d].max(), n) for d in range(2)]
    centres = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    return GaussianBasis(centres, sigma)


def _law(chain: Chain, projection: Projection) -> JointReturn:
    solution = solve(chain, GAMMA, projection, tolerance=1e-7)
    return JointReturn.create(solution.coefficients[0], projection.basis)


def _judge(law: JointReturn, returns: np.ndarray, seed: int) -> dict[str, Any]:
    """Both laws smoothed by σ; W1 of a marginal by its CDF."""
    noise = np.random.default_rng(seed + 77).normal(size=returns.shape) * float(law.sigma)
    smoothed = np.sort(returns + noise, axis=0)
    w1 = []
    for d in range(2):
        x = np.linspace(smoothed[0, d], smoothed[-1, d], 2001).astype(np.float32)
        empirical = np.searchsorted(smoothed[:, d], x) / len(smoothed)
        gap = np.abs(np.asarray(law.marginal(d).cdf(x)) - empirical)
        w1.append(float(np.trapezoid(gap, x) / np.ptp(returns[:, d])))
    correlation = float(law.correlation()[0, 1])
    return {
        "w1_relative": w1,
        "correlation": correlation,
        "correlation_error": abs(correlation - float(np.corrcoef(returns.T)[0, 1])),
    }
