"""Two kinds of treasure: the joint distribution of a vector return, where histograms need n² atoms.

A 4×4 grid without walls: gold in one corner, silver in another, some of both at the exit in the last.
A random walk ends at the exit. Fields put their functions where returns are; a histogram must cover
the plane.
"""

import time
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import msgspec
import numpy as np
from matplotlib.colors import PowerNorm
from scipy.stats import wasserstein_distance
from sklearn.cluster import KMeans

from bellman_diffusion.paper.experiment import Experiment, Options, Summary, Workplace
from bellman_diffusion.planning.exact import solve
from bellman_diffusion.planning.monte_carlo import simulate
from bellman_diffusion.render.figure import new_figure, save_figure
from bellman_diffusion.render.page import Picture, Section, Table
from bellman_diffusion.returns.basis import GaussianBasis
from bellman_diffusion.returns.joint import JointReturn
from bellman_diffusion.returns.mdp import Chain, FiniteMDP
from bellman_diffusion.returns.projection import BasisProjection, CategoricalProjection, Projection
from bellman_diffusion.returns.tabular_policies import random_policy

SIDE, GAMMA = 4, 0.9
GOLD, SILVER, EXIT = (0, 3), (3, 0), (3, 3)


_N_BASIS = (25, 50, 100, 200)
_HISTOGRAMS = (5, 10, 20, 30)
"""Atoms along each axis."""
_N_EPISODES = 20_000
_SIGMA = 0.15


class TreasureRow(msgspec.Struct, kw_only=True):
    """One model of one size; W1 of each marginal relative to its range."""

    model: str
    n: int
    w1_relative: list[float]
    correlation: float
    correlation_error: float


class TreasureSummary(Summary):
    """Rows by model and size."""

    rows: list[TreasureRow]
    seed: int
    n_episodes: int
    sigma: float
    correlation_monte_carlo: float
    seconds: float


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


def run(
    options: Options,
    work: Workplace,
    n_basis: tuple[int, ...] = _N_BASIS,
    histograms: tuple[int, ...] = _HISTOGRAMS,
    n_episodes: int = _N_EPISODES,
) -> TreasureSummary:
    """Marginals and correlation by number of basis functions or atoms."""
    start, seed = time.perf_counter(), options.seed
    mdp = treasure_grid()
    chain = mdp.under(random_policy(mdp))
    returns = simulate(chain, GAMMA, 0, n_episodes, seed)
    # The centres come from other episodes than the evaluation.
    pilot = np.concatenate(
        [simulate(chain, GAMMA, s, 400, seed + 1 + s) for s in range(chain.n_states - 1)]
    )
    rows: list[TreasureRow] = []
    fields, grids = {}, {}
    for n in n_basis:
        basis = GaussianBasis(_centres(pilot, n, seed), _SIGMA)
        fields[f"{n} basis functions"] = joint = _joint(chain, BasisProjection(basis))
        rows.append(_evaluate("fields", n, joint, returns))
    for n in histograms:
        projection = CategoricalProjection(_product_grid(pilot, n, _SIGMA))
        grids[f"{n}² atoms"] = joint = _joint(chain, projection)
        rows.append(_evaluate("histogram", n**2, joint, returns))
    shown = [list(fields.items())[min(2, len(fields) - 1)], list(grids.items())[-1]]
    _draw(work.figures / "treasure.png", returns, dict(shown))
    return TreasureSummary(
        rows=rows,
        seed=seed,
        n_episodes=n_episodes,
        sigma=_SIGMA,
        correlation_monte_carlo=float(np.corrcoef(returns.T)[0, 1]),
        seconds=time.perf_counter() - start,
    )


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


def _joint(chain: Chain, projection: Projection) -> JointReturn:
    solution = solve(chain, GAMMA, projection, tolerance=1e-7)
    return JointReturn.create(solution.coefficients[0], projection.basis)


def _evaluate(model: str, n: int, joint: JointReturn, returns: np.ndarray) -> TreasureRow:
    """Of the returns themselves, without the smoothing."""
    w1 = []
    for d in range(2):
        found = joint.marginal(d)
        atoms, mass = (np.asarray(a, float) for a in (found.atoms, found.mass))
        distance = wasserstein_distance(atoms, returns[:, d], mass)
        w1.append(float(distance / np.ptp(returns[:, d])))
    correlation = float(joint.correlation()[0, 1])
    return TreasureRow(
        model=model,
        n=n,
        w1_relative=w1,
        correlation=correlation,
        correlation_error=abs(correlation - float(np.corrcoef(returns.T)[0, 1])),
    )


def _draw(path: Path, returns: np.ndarray, joints: dict[str, JointReturn]) -> None:
    """The joint density by the fields, by a histogram of more atoms, and simulated returns."""
    figure = new_figure(13, 4.2)
    axes = figure.subplots(1, 3)
    low, high = returns.min(axis=0) - 0.4, np.quantile(returns, 0.999, axis=0)
    # Faint tails are the point of the picture.
    colours: dict[str, Any] = {"norm": PowerNorm(0.4, vmin=0, vmax=1.5)}
    noise = np.random.default_rng(0).normal(size=returns.shape)
    span = np.stack([low, high], axis=1).tolist()
    axes[0].hist2d(*(returns + _SIGMA * noise).T, bins=60, range=span, density=True, **colours)
    axes[0].set_title("simulated returns, smoothed")
    ticks = [np.linspace(low[d], high[d], 90) for d in range(2)]
    points = np.stack(np.meshgrid(*ticks, indexing="ij"), axis=-1).reshape(-1, 2)
    for axis, (name, joint) in zip(axes[1:], joints.items(), strict=True):
        density = np.asarray(joint.pdf(jnp.asarray(points, jnp.float32))).reshape(90, 90)
        axis.pcolormesh(*ticks, np.maximum(density.T, 0), **colours)
        axis.set_title(name)
    for axis in axes:
        axis.set(xlabel="gold", ylabel="silver")
    figure.suptitle("The joint distribution of two returns from the start")
    save_figure(figure, path)


def sections(summary: TreasureSummary, figures: Path) -> list[Section]:
    """Marginals and correlation by model and size."""
    text = (
        "A random walk on a 4×4 grid with two kinds of treasure. W1 relative to the range of each "
        f"return, against {summary.n_episodes:,} simulated episodes; their correlation is "
        f"{summary.correlation_monte_carlo:.3f}."
    )
    rows = [
        (row.model, str(row.n), *(f"{w:.4f}" for w in row.w1_relative), f"{row.correlation:.3f}",
         f"{row.correlation_error:.3f}") for row in summary.rows
    ]  # fmt: skip
    header = ("model", "basis functions or atoms", "W1 gold", "W1 silver", "correlation",
              "its error")  # fmt: skip
    picture = Picture(figures / "treasure.png", "The joint distribution of two returns.")
    return [Section("Vector returns", text, Table(header, rows), [picture])]


EXPERIMENT = Experiment(
    name="treasure",
    title="Vector returns",
    about="The joint distribution of two returns: fields against histograms in the plane.",
    options=Options,
    summary=TreasureSummary,
    run=run,
    sections=sections,
    order=120,
    page="planning",
)
