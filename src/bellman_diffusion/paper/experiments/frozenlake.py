"""The maze figure of Section 5.3, and the accuracy of planners by what they are made of."""

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import msgspec
import numpy as np

from bellman_diffusion.errors import BellmanError
from bellman_diffusion.paper.claims import ACCURATE, Claim, Finding, MissingFigureError, known
from bellman_diffusion.paper.experiment import Experiment, SeededOptions, Summary, Workplace
from bellman_diffusion.paper.experiments.planning import (
    LakeErrors,
    PlanningSettings,
    lake_errors,
    mean_lake,
)
from bellman_diffusion.paper.lake import GAMMA, SIGMA, Frame, lake_chain, trajectory
from bellman_diffusion.paper.workers import run_parallel
from bellman_diffusion.planning.certify import Certified, certified_distribution, certify
from bellman_diffusion.planning.evaluation import evaluate_exactly, reference_returns
from bellman_diffusion.planning.exact import solve
from bellman_diffusion.render.figure import EXACT_STYLE, new_figure, save_figure
from bellman_diffusion.render.page import Picture, Section, Table, shown_share, with_error
from bellman_diffusion.returns.atoms import AtomicReturn
from bellman_diffusion.returns.basis import GaussianBasis
from bellman_diffusion.returns.distribution import ReturnDistribution
from bellman_diffusion.returns.mdp import Chain
from bellman_diffusion.returns.moments import mean_return
from bellman_diffusion.returns.projection import BasisProjection, CategoricalProjection, Projection
from bellman_diffusion.returns.tabulated import TabulatedReturn

_N_BASIS = (11, 21, 41, 81)
_ATOMS = (21, 41, 51, 201)
# Basis functions or atoms of the figure and of the claims.
_SHOWN = 41
_BLUE, _RED = "#1f5f99", "#b3362b"
_MODES = {
    "default": "our default, 41 cells",
    "paper": "the paper's plain L2 update, 41 basis functions",
    "c51": "C51, 41 atoms",
}
_PAPER = "L2, plain (the paper)"
_CRAMER = "Cramér, noise-preserving, mean kept"
_DEFAULT = "certified cells (default)"
_C51 = "C51"


class Row(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Errors of one method; None where its updates diverge."""

    method: str
    n: int
    w1_worst: float | None
    w1_mean: float | None
    mean_error_worst: float | None
    gradient_error_worst: float | None
    seconds: float | None = None
    per_seed: list[LakeErrors] | None = None


class FrozenLakeSummary(Summary):
    """Rows by method and size."""

    seeds: list[int]
    rows: list[Row]
    gamma: float
    sigma: float
    mean_at_start: float
    mean_next_to_goal: float
    seconds: float

    def row(self, method: str, n: int = _SHOWN) -> Row:
        """The row of a method; of so many basis functions, if there are several."""
        found = [r for r in self.rows if r.method == method]
        if not found:
            raise MissingFigureError(method)
        return next((r for r in found if r.n == n), found[0])

    def learned(self, mode: str) -> Row:
        """The row of a planner that was learned from transitions."""
        names = [r.method for r in self.rows if r.per_seed and f"({mode})" in r.method]
        return self.row(names[0] if names else f"learned ({mode})")


def methods(basis: GaussianBasis) -> dict[str, Projection]:
    """All that are compared, by name: what is matched, and how the noise is treated."""
    return {
        _PAPER: BasisProjection.of_paper(basis),
        "L2, noise-preserving": BasisProjection(basis, "l2", keep_mean=False),
        "Cramér, plain": BasisProjection(basis, noise_preserving=False, keep_mean=False),
        _CRAMER: BasisProjection(basis),
        "Cramér, noise-preserving": BasisProjection(basis, keep_mean=False),
    }


def run(
    options: SeededOptions, work: Workplace, settings: PlanningSettings | None = None
) -> FrozenLakeSummary:
    """Every method, exact and learned."""
    start = time.perf_counter()
    chain = lake_chain()
    reference = reference_returns(chain, GAMMA)
    rows = [_row(_DEFAULT, n, _cells(chain, n), reference) for n in _N_BASIS]
    rows += [
        _row(name, n, _solved(chain, projection), reference)
        for n in _N_BASIS
        for name, projection in methods(_basis(n)).items()
    ]
    rows += [
        _row(_C51, n, _solved(chain, CategoricalProjection(_basis(n))), reference) for n in _ATOMS
    ]
    rows += _learned(options.all_seeds, work, settings or PlanningSettings())
    means = mean_return(chain, GAMMA)[:, 0]
    summary = FrozenLakeSummary(
        seeds=list(options.all_seeds),
        rows=rows,
        gamma=GAMMA,
        sigma=SIGMA,
        mean_at_start=float(means[0]),
        mean_next_to_goal=float(means[14]),
        seconds=time.perf_counter() - start,
    )
    _draw_modes(work.figures, chain, reference, options.seed)
    return summary


def _cells(chain: Chain, n: int) -> AtomicReturn:
    """Every state by exact planning on n cells."""
    return certified_distribution(
        certify(chain, GAMMA, n_cells=n), np.arange(chain.n_states), SIGMA
    )


def _solved(chain: Chain, projection: Projection) -> ReturnDistribution | None:
    """Every state by exact backups through a projection; None where they diverge.

    A plain backup narrows the noise: what it converges to is taken as the return's density itself. Where
    the noise is preserved, the return is what is left without it.
    """
    try:
        solution = solve(chain, GAMMA, projection)
    except BellmanError:
        return None
    basis = projection.basis
    found = AtomicReturn.of_gaussians(solution.coefficients, basis.centres[:, 0], basis.sigma)
    if isinstance(projection, BasisProjection) and not projection.noise_preserving:
        grid = jnp.linspace(-4 * SIGMA, 1 + 4 * SIGMA, 2001)
        return TabulatedReturn.create(grid, found.pdf(grid), found.gradient(grid))
    return found


def _row(method: str, n: int, predicted: ReturnDistribution | None, reference: Certified) -> Row:
    names = ("w1_worst", "w1_mean", "mean_error_worst", "gradient_error_worst")
    if predicted is None:
        return Row(method=method, n=n, **dict.fromkeys(names))
    found = evaluate_exactly(predicted, reference, SIGMA)
    return Row(method=method, n=n, **{name: getattr(found, name) for name in names})


def _learned(seeds: Sequence[int], work: Workplace, settings: PlanningSettings) -> list[Row]:
    """The same from transitions, as the paper learns them: by our default and by its networks."""
    modes = ("default", "paper")

    def cell(mode: str, seed: int) -> partial[LakeErrors]:
        return partial(lake_errors, work.cells, f"learned-{mode}", mode, seed, settings)

    tasks = [cell(mode, seed) for seed in seeds for mode in modes]
    run_parallel(tasks, n_workers=work.n_workers, progress=work.bar("learned planners", ()))
    rows = []
    for mode in modes:
        mean = msgspec.to_builtins(mean_lake([cell(mode, seed)() for seed in seeds]))
        method = f"learned from {settings.lake_samples:,} transitions ({mode})"
        rows.append(msgspec.convert(mean | {"method": method, "n": settings.lake_basis}, Row))
    return rows


def _basis(n: int) -> GaussianBasis:
    return GaussianBasis.on_interval(0, 1, n, SIGMA)


def _draw_modes(figures: Path, chain: Chain, reference: Certified, seed: int) -> None:
    frames = trajectory(seed)
    basis = _basis(_SHOWN)
    chosen = {
        "default": _cells(chain, _SHOWN),
        "paper": _solved(chain, methods(basis)[_PAPER]),
        "c51": _solved(chain, CategoricalProjection(basis)),
    }
    exact = certified_distribution(reference, np.arange(chain.n_states), SIGMA)
    for mode, predicted in chosen.items():
        if predicted is not None:
            title = f"FrozenLake, {_MODES[mode]}"
            _draw_trajectory(figures / f"frozenlake-{mode}.png", title, frames, predicted, exact)


def _draw_trajectory(
    path: Path,
    title: str,
    frames: Sequence[Frame],
    predicted: ReturnDistribution,
    exact: AtomicReturn,
) -> None:
    """Six panels, left to right and top to bottom: state, gradient field, scalar field."""
    figure = new_figure(12.5, 8.6)
    outer = figure.subfigures(3, 2)
    x = np.linspace(-0.2, 1.2, 300).astype(np.float32)
    fields = (predicted.pdf, predicted.gradient, exact.pdf, exact.gradient)
    heights, slopes, true_heights, true_slopes = (np.asarray(f(jnp.asarray(x))) for f in fields)
    shown = [frame.state for frame in frames]
    limits = [
        _limits(np.concatenate([own[shown].ravel(), true[shown].ravel()]))
        for own, true in ((heights, true_heights), (slopes, true_slopes))
    ]
    for part, frame in zip(np.asarray(outer).reshape(-1).tolist(), frames, strict=True):
        state, gradient, scalar = part.subplots(1, 3, width_ratios=(1, 1.5, 1.5))
        state.imshow(frame.picture)
        state.axis("off")
        state.set_title(f"step {frame.step}", fontsize=9)
        _draw_line(gradient, x, slopes[frame.state], x, true_slopes[frame.state])
        gradient.set_title("gradient field", fontsize=9)
        gradient.set(xlabel="return", ylabel="slope", ylim=limits[1])
        _draw_line(scalar, x, heights[frame.state], x, true_heights[frame.state])
        mean = float(predicted[frame.state].mean())
        scalar.axvline(mean, color=_RED, linestyle=":", label=f"mean {mean:.2f}")
        scalar.set_title("scalar field", fontsize=9)
        scalar.set(xlabel="return", ylabel="density", ylim=limits[0])
        scalar.legend(fontsize=7, loc="upper left")
    figure.suptitle(f"{title} (pale: exact)")
    save_figure(figure, path)


def _draw_line(
    axis: Any, x: np.ndarray, values: np.ndarray, at: np.ndarray, exact: np.ndarray
) -> None:
    axis.plot(at, exact, **EXACT_STYLE)
    axis.plot(x, values, color=_BLUE)
    axis.set_xlim(x[0], x[-1])


def _limits(values: np.ndarray) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    margin = 0.08 * (high - low)
    return low - margin, high + margin


def sections(summary: FrozenLakeSummary, figures: Path) -> list[Section]:
    """Accuracy by method, and the figure for each mode."""
    text = (
        f"Slippery FrozenLake 4×4 under the optimal policy, γ = {summary.gamma}. Dynamic programming to "
        "the fixed point and, in the last rows, fields learned from transitions. W1 is to the return's "
        "own distribution in every state; the gradient field is that of return + N(0, σ²), "
        f"σ = {summary.sigma}. The paper: the "
        "expected return shifts from 0.5 to 1 on the way to the goal. Ours: "
        f"{summary.mean_at_start:.2f} at the start and {summary.mean_next_to_goal:.2f} next to the "
        "goal, which a slippery step may still miss."
    )
    header = ("method", "basis functions or atoms", "worst W1", "mean W1",
              "worst error of the mean", "worst error of g")  # fmt: skip
    names = ("w1_worst", "w1_mean", "mean_error_worst", "gradient_error_worst")
    rows = [
        (row.method, str(row.n), *(_shown(row, name) for name in names)) for row in summary.rows
    ]
    pictures = [
        Picture(
            figures / f"frozenlake-{mode}.png",
            "A whole trajectory in the maze: state, gradient field and scalar field (grey: exact), by "
            f"{words}.",
        )
        for mode, words in _MODES.items()
    ]
    return [
        Section("Accuracy in the maze", text, Table(header, rows)),
        Section("The maze figure", pictures=pictures),
    ]


def _shown(row: Row, name: str) -> str:
    """A figure, with its error where planners were learned on several seeds."""
    value = getattr(row, name)
    if row.per_seed:
        return with_error(value, [getattr(c, name) for c in row.per_seed], ".2g")
    return "diverged" if value is None else f"{value:.2g}"


def _expected_return_shifts(summary: FrozenLakeSummary) -> Finding:
    start, goal = summary.mean_at_start, summary.mean_next_to_goal
    error = known(summary.learned("default").mean_error_worst, "the learned planner")
    shifts = abs(start - 0.5) < 0.1 and goal > 0.8
    return Finding(
        f"{start:.2f} to {goal:.2f}",
        "reproduced" if shifts and error < 0.05 else "not reproduced",
        f"The exact means are {start:.2f} at the start and {goal:.2f} next to the goal, where a "
        "slippery step may still miss it; the means of our fields, learned from transitions, are off "
        f"by {error:.3f} at most.",
    )


def _is_near(row: Row) -> bool:
    w1, gradient = row.w1_worst, row.gradient_error_worst
    return known(w1, row.method) < 0.05 and known(gradient, row.method) < ACCURATE


def _accurate(summary: FrozenLakeSummary) -> Finding:
    """Of fields that were learned from transitions, as the paper's are."""
    ours, paper = summary.learned("default"), summary.learned("paper")
    exact, plain = summary.row(_DEFAULT), summary.row(_PAPER)
    for row in (ours, paper, exact, plain):
        known(row.w1_worst, f"{row.method}, {row.n}")
    verdict = "reproduced" if _is_near(paper) else "better"
    seeds = [cell.w1_worst for cell in ours.per_seed or []]
    return Finding(
        f"worst W1 {with_error(known(ours.w1_worst, 'W1'), seeds, '.3f')}, g off by "
        f"{ours.gradient_error_worst:.0%} at most",
        verdict if _is_near(ours) else "not reproduced",
        "Learned from transitions, against the return's own distribution and the slope of its smoothed "
        f"density in every state, means over seeds; the paper's networks: {paper.w1_worst:.2f} and "
        f"{shown_share(known(paper.gradient_error_worst, 'g'))}. By exact backups on {exact.n} cells "
        f"ours are off by {exact.w1_worst:.0e} and {exact.gradient_error_worst:.2%}, the paper's L2 "
        f"update on as many functions by {plain.w1_worst:.0e} and {plain.gradient_error_worst:.0%}.",
    )


def _no_discretisation(summary: FrozenLakeSummary) -> Finding:
    """With exact backups nothing but the model of the distribution makes an error."""
    ours, plain = summary.row(_DEFAULT), summary.row(_PAPER)
    atoms = {r.n: known(r.w1_worst, "C51's atoms") for r in summary.rows if r.method == _C51}
    w1, error = (known(r.w1_worst, "exact backups") for r in (ours, plain))
    near, recipe_too = w1 < 0.5 * atoms[_SHOWN], error < atoms[_SHOWN]
    listed = ", ".join(f"{value:.1e} with {n}" for n, value in atoms.items())
    return Finding(
        f"W1 {w1:.1e} with {ours.n} cells, C51 {atoms[_SHOWN]:.1e} with as many atoms",
        "reproduced" if recipe_too else "better" if near else "not reproduced",
        "Exact backups in the maze, worst state, against the return's own distribution. C51: "
        f"{listed} atoms. The paper's plain L2 update with {plain.n} basis functions is off by "
        f"{error:.1e}, {'less' if recipe_too else 'more'} than C51: returns in a maze have atoms.",
    )


EXPERIMENT = Experiment(
    name="frozenlake",
    title="The maze (Section 5.3)",
    about="The maze figure (Section 5.3) and the accuracy of planners by what they are made of.",
    options=SeededOptions,
    summary=FrozenLakeSummary,
    run=run,
    sections=sections,
    order=60,
    page="planning",
    claims=(
        Claim(
            "Section 5.3, maze figure",
            "The expected return shifts on the way to the goal",
            "0.5 to 1",
            _expected_return_shifts,
        ),
        Claim(
            "Section 5.3, maze figure",
            "Return distributions and their derivatives are accurate",
            "by eye",
            _accurate,
        ),
        Claim(
            "Related work, Section 5.3",
            "Continuous distributions avoid the errors of C51's discrete ones",
            "argued",
            _no_discretisation,
        ),
    ),
    published={"seed": 0, "seeds": 3},
    quick={"seeds": 1},
    thinned="one seed of three of the learned planners",
)
