"""Exact planning: certified return distributions of every state, as fine as they were asked for.

Coarse grids first: a few updates of each finer one are enough, since the coarse cells are a valid
start. A grid is left for the next when its cells would not get much better (Aitken's extrapolation).
"""

import warnings
from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from bellman_diffusion.errors import BellmanError, InvalidInputError
from bellman_diffusion.planning.cells import (
    Cells,
    Grid,
    Transitions,
    lattice_step,
    outermost,
    update,
    w1_bounds,
)
from bellman_diffusion.planning.lattice import exact_levels
from bellman_diffusion.returns.atoms import AtomicReturn
from bellman_diffusion.returns.backup import BellmanBackup
from bellman_diffusion.returns.certificate import Certificate, cvar_bounds
from bellman_diffusion.returns.mdp import Chain, check_gamma
from bellman_diffusion.returns.moments import Moments, possible_returns, return_moments

Report = Callable[[str], None]
ALPHA = 0.1
# The smoothing of the density, as a share of the range.
SIGMA = 0.01
_COARSEST = 34
# Of the probability of each state, so much may lie outside the range on either side.
_TAIL = 1e-5
_CHECK_EVERY = 8
# So many states' CVaR intervals are computed at a time.
_AT_A_TIME = 20_000
# Updates of one grid: episodes of many thousand steps at γ = 1 need as many.
_MOST_UPDATES = 50_000
_BYTES_PER_CELL = 3 * 8 * (1 + 1 / 16)
_DEVIATIONS = 12.0
_FADED = 1e-9


class Certified(NamedTuple):
    """The cells of every state, and how they were found."""

    grid: Grid
    cells: Cells
    moments: Moments
    limits: Float[np.ndarray, "states 2"]
    n_updates: int
    rounding: float
    accuracy: float
    """The worst W1 bound or CVaR 10 % interval of a state, as a share of the range."""
    step: float = 0.0
    """All returns are multiples of this, if it is not 0."""

    @property
    def range(self) -> tuple[float, float]:
        """What all but a sliver of the returns lie in."""
        return (float(self.grid.returns(1)), float(self.grid.returns(self.grid.n_cells - 1)))

    def of_states(self, states: Int[np.ndarray, " n"]) -> "Certified":
        """The same of some of the states alone."""
        m = self.moments
        return self._replace(
            cells=Cells(*(table[states] for table in self.cells)),
            moments=m._replace(mean=m.mean[states], variance=m.variance[states]),
            limits=self.limits[states],
        )

    def certificate(self, states: np.ndarray | slice = slice(None)) -> Certificate:
        """Bounds for some of the states."""
        cells, width = self.cells, self.grid.width
        offset = cells.offset[states]
        # Rounding may have taken from the variance what merging added.
        variance = cells.variance[states] * (1 + self.rounding) + self.rounding * (1 + offset**2)
        mass = cells.mass[states]
        m = self.moments
        count = len(mass)
        return Certificate(
            mass=mass / mass.sum(axis=1, keepdims=True),
            atoms=self.grid.returns(np.arange(mass.shape[1]) + offset),
            variance=np.where(mass > 0, variance, 0.0) * width**2,
            mean_and_error=np.stack([m.mean[states], np.full(count, m.mean_error)], axis=-1),
            var_and_error=np.stack([m.variance[states], np.full(count, m.variance_error)], axis=-1),
            limits=self.limits[states],
            rounding=self.rounding,
            step=self.step,
        )


def certified_distribution(
    certified: Certified, states: Int[np.ndarray, " n"], sigma: float | None = None
) -> AtomicReturn:
    """The return distributions of some states, with their bounds; the density is smoothed by σ.

    What a cell holds is spread evenly around its mean by its variance, within the possible returns.
    """
    certificate = certified.certificate(states)
    low, high = (certificate.limits[:, i, None] for i in (0, 1))
    room = np.minimum(certificate.atoms - low, high - certificate.atoms)
    # Rounding's share of the variance is no spread.
    real = certified.cells.variance[states] > 10 * certified.rounding
    half = np.where(real, np.minimum(np.sqrt(3 * certificate.variance), np.maximum(room, 0)), 0.0)
    first, last = certified.range
    width = SIGMA * (last - first) if sigma is None else sigma
    # An empty cell has no return: its atom is put where its neighbour's is.
    filled = np.where(certificate.mass > 0, certificate.atoms, -np.inf)
    filled = np.maximum.accumulate(filled, axis=1)
    first_atom = np.min(np.where(certificate.mass > 0, certificate.atoms, np.inf), axis=1)
    # Rounding may have put an atom a hair beyond the possible returns.
    atoms = np.clip(np.maximum(filled, first_atom[:, None]), low, high)
    arrays = (certificate.mass, atoms, width, half * (certificate.mass > 0))
    return AtomicReturn(*(jnp.asarray(a, jnp.float32) for a in arrays), certificate=certificate)


def certify(
    chain: Chain,
    gamma: float,
    *,
    accuracy: float = 1e-3,
    n_cells: int | None = None,
    memory_gb: float = 4.0,
    horizon: int | None = None,
    report: Report | None = None,
) -> Certified:
    """Refine until every state's W1 bound and CVaR 10 % interval are below `accuracy` of the range.

    `n_cells` fixes the grid in place of the accuracy. `horizon` ends every episode after so many steps.
    """
    if chain.reward.shape[1] != 1:
        raise InvalidInputError("rewards are vectors: choose a direction with chain.along(weights)")
    if not 0 < accuracy < 1:
        raise InvalidInputError(f"the accuracy is {accuracy}: give a share of the range, in (0, 1)")
    if horizon is None:
        check_gamma(gamma, chain)
        moments = return_moments(chain, gamma)
    else:
        moments = _moments_of_horizon(chain, gamma, horizon)
    search = _Search(chain, gamma, moments, horizon, memory_gb, report)
    return search.run(accuracy, n_cells)


class _Search:
    """Cells on finer and finer grids."""

    def __init__(
        self,
        chain: Chain,
        gamma: float,
        moments: Moments,
        horizon: int | None,
        memory_gb: float,
        report: Report | None,
    ) -> None:
        self.rows, self.gamma, self.moments = Transitions.of(chain), gamma, moments
        self.n_states, self.horizon, self.report = chain.n_states, horizon, report
        self.limits = possible_returns(chain, gamma, horizon)
        self.most_cells = int(memory_gb * 1e9 / (_BYTES_PER_CELL * chain.n_states))
        self.memory_gb = memory_gb
        self.n_updates = 0
        self.step = lattice_step(self.rows.reward) if gamma == 1 else 0.0
        self.lattice: Grid | None = None

    def run(self, accuracy: float, n_cells: int | None) -> Certified:
        """From the coarsest grid to the one that is good enough."""
        if self.most_cells < min(n_cells or _COARSEST, _COARSEST):
            raise InvalidInputError(
                f"{self.n_states:,} states need at least "
                f"{self.n_states * _COARSEST * _BYTES_PER_CELL / 1e9:.2g} GB: raise --memory"
            )
        if self.step and n_cells is None and (exact := self._exact()) is not None:
            return exact
        grid, cells = self._first()
        n = n_cells if n_cells is not None else _COARSEST
        lattice = self.lattice
        while True:
            finer = Grid.over(*self._range, n)
            # Sums of rewards on a lattice have a cell each: nothing is merged that differs, and what
            # coarser cells merged fades.
            if lattice is not None and n_cells is None and lattice.n_cells <= self.most_cells:
                finer, n = lattice, lattice.n_cells
            cells, grid = cells.regridded(grid, finer), finer
            self._settle(cells, grid, accuracy, fade=finer is lattice)
            found = self._result(cells, grid)
            done = found.accuracy <= accuracy
            if self.report is not None:
                self.report(
                    f"{n} cells, {self.n_updates} updates: accuracy {found.accuracy:.2g} of the range"
                )
            if done or n_cells is not None:
                return found
            following = 2 * (n - 2) + 2
            if following > self.most_cells:
                self._warn(found.accuracy, accuracy, n)
                return found
            n = following

    def _exact(self) -> Certified | None:
        """Level by level, where returns have levels that are few enough."""
        if self.horizon is not None:
            return None
        found = exact_levels(self.rows, self.step, self.moments, self.memory_gb)
        if found is None:
            return None
        if self.report is not None:
            self.report(f"{found.grid.n_cells} levels of returns, each exact")
        # Only the last cell merges anything; a CVaR interval is at most W1 / 2α.
        worst = float(w1_bounds(found.cells.mass, found.cells.variance).max()) / (2 * ALPHA)
        accuracy = worst / (found.grid.n_cells - 2)
        return self._certified(found.cells, found.grid, accuracy, found.error)

    def _first(self) -> tuple[Grid, Cells]:
        """The mean of every state, or nothing at all before the first step of a horizon; the range."""
        low, high = self._wide_range()
        grid = Grid.over(low, high, 2 * _COARSEST)
        cells = self._start(grid)
        self._settle(cells, grid, 0.0)
        # What lies around the outermost atoms belongs to the range.
        low, high = (
            place + side * 6 * np.sqrt(variance)
            for side, place, variance in self._outermost_atoms(cells)
        )
        low, high = grid.returns(low.min()), grid.returns(high.max())
        low, high = max(low, self.limits[:, 0].min()), min(high, self.limits[:, 1].max())
        margin = max(1e-3 * (abs(low) + abs(high)), 1e-6)
        self._range = (low, high) if high - low > margin else (low - margin, high + margin)
        if self.step:
            self.lattice = Grid.of_lattice(*self._range, self.step)
        return grid, cells

    def _outermost_atoms(self, cells: Cells) -> Iterator[tuple[float, np.ndarray, np.ndarray]]:
        """The side, the place and the variance of every state's first and last atom."""
        states = np.arange(self.n_states)
        for side, k in zip((-1.0, 1.0), outermost(cells.mass, _TAIL), strict=True):
            yield side, k + cells.offset[states, k], cells.variance[states, k]

    def _start(self, grid: Grid) -> Cells:
        if self.horizon is not None:
            zero = np.zeros(self.n_states)
            return Cells.at(grid.place(zero), zero, grid.n_cells)
        variance = self.moments.variance + self.moments.variance_error
        return Cells.at(grid.place(self.moments.mean), variance / grid.width**2, grid.n_cells)

    def _wide_range(self) -> tuple[float, float]:
        """All returns that are possible, but no more than many standard deviations."""
        m, deviation = self.moments.mean, np.sqrt(self.moments.variance)
        low = max((m - _DEVIATIONS * deviation).min(), self.limits[:, 0].min())
        high = min((m + _DEVIATIONS * deviation).max(), self.limits[:, 1].max())
        margin = max(1e-3 * (abs(low) + abs(high)), 1e-6)
        return (low, high) if high - low > margin else (low - margin, high + margin)

    def _settle(self, cells: Cells, grid: Grid, accuracy: float, *, fade: bool = False) -> None:
        """Update until the cells are good enough or will not get much better on this grid.

        With `fade` until next to nothing is left of what coarser cells merged, but for the ends.
        """
        if self.horizon is not None:
            start = self._start(grid)
            for table, value in zip(cells, start, strict=True):
                table[:] = value
            for _ in range(self.horizon):
                update(cells, self.rows, self.gamma, grid, n_blocks=1)
            self.n_updates = self.horizon
            return
        target = accuracy * (grid.n_cells - 2)
        seen: list[float] = []
        for _ in range(_MOST_UPDATES // _CHECK_EVERY):
            for _ in range(_CHECK_EVERY):
                update(cells, self.rows, self.gamma, grid)
            self.n_updates += _CHECK_EVERY
            inner = Cells(*(table[:, 1:-1] for table in cells)) if fade else cells
            worst = float(w1_bounds(inner.mass, inner.variance).max())
            seen.append(worst)
            if not fade and worst <= target and self._accuracy(cells, grid) <= accuracy:
                return
            if worst <= (_FADED if fade else 1e-6) or _is_settled(seen):
                return
        raise BellmanError(
            f"after {self.n_updates} updates the bounds still improve: episodes under this policy are "
            "very long. Lower gamma, or ask for less accuracy."
        )

    def _accuracy(self, cells: Cells, grid: Grid) -> float:
        """The worst W1 bound and CVaR interval of a state, as shares of the range."""
        w1 = w1_bounds(cells.mass, cells.variance)
        worst = w1.max()
        # A CVaR interval is at most W1 / 2α: that of most states cannot be the worst figure.
        states = np.flatnonzero(w1 > 2 * ALPHA * worst)
        for some in np.array_split(states, 1 + len(states) // _AT_A_TIME):
            mass, offset, variance = (table[some] for table in cells)
            place = np.arange(grid.n_cells) + offset
            low, high = cvar_bounds(mass, place, variance, ALPHA)
            low = np.maximum(low, grid.place(self.limits[some, 0]))
            worst = max(worst, (high - low).max(initial=0.0))
        return float(worst / (grid.n_cells - 2))

    def _result(self, cells: Cells, grid: Grid) -> Certified:
        # Each update rounds a state's sums once for each of its rows, and a few times more.
        rounding = self.n_updates * (self.rows.most + 16) * float(np.finfo(float).eps)
        return self._certified(cells, grid, self._accuracy(cells, grid), rounding)

    def _certified(self, cells: Cells, grid: Grid, accuracy: float, rounding: float) -> Certified:
        return Certified(
            grid, cells, self.moments, self.limits, self.n_updates, rounding, accuracy, self.step
        )

    def _warn(self, reached: float, accuracy: float, n: int) -> None:
        need = n * reached / accuracy
        warnings.warn(
            f"an accuracy of {reached:.2g} of the range was reached with {n} cells, not {accuracy:g}: "
            f"that would take about {need:.0f} cells and "
            f"{need * self.n_states * _BYTES_PER_CELL / 1e9:.2g} GB. Raise --memory from "
            f"{self.memory_gb:g}, or ask for less accuracy.",
            RuntimeWarning,
            stacklevel=6,
        )


def _is_settled(seen: list[float]) -> bool:
    """Whether the last of a falling sequence is within a tenth of where it will end (Aitken)."""
    if len(seen) < 3:
        return False
    a, b, c = seen[-3:]
    if c >= b * (1 - 1e-3):
        return True
    curvature = a - 2 * b + c
    limit = c - (b - c) ** 2 / curvature if curvature > 0 else 0.0
    return c <= 1.1 * limit


def _moments_of_horizon(chain: Chain, gamma: float, horizon: int) -> Moments:
    """By so many steps of the moments' own Bellman equations."""
    if horizon < 1:
        raise InvalidInputError(f"the time limit is {horizon} steps: at least one is needed")
    backup = BellmanBackup(chain.reward[:, 0], gamma * ~chain.done)
    mean, variance = np.zeros(chain.n_states), np.zeros(chain.n_states)
    for _ in range(horizon):
        total = backup.returns(mean[chain.next_state])
        new = chain.mean_over_rows(total)
        spread = (total - new[chain.state]) ** 2 + backup.discount**2 * variance[chain.next_state]
        mean, variance = new, chain.mean_over_rows(spread)
    eps = float(np.finfo(float).eps) * horizon * 32
    scale = float(np.abs(mean).max() + np.abs(chain.reward).max())
    return Moments(mean, variance, eps * scale, eps * scale**2)
