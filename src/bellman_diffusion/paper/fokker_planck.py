"""The density of dx = g dt + √s dw on an interval, without sampling: a master equation on a grid.

The Fokker–Planck equation ∂q/∂t = −∂(g q) + ½ ∂²(s q) has the flux J = (g/s) u − ½ u' with u = s q.
Between two cells, with g/s taken as constant, the flux is exact in u (Scharfetter & Gummel 1969):

    J = [B(−w) u_left − B(w) u_right] / 2h,    w = 2h g/s,    B(w) = w/(eʷ − 1).

Nothing flows through the ends. Mass is kept, and densities stay positive, for any fields. A chain that
moves to neighbours alone is in detailed balance with its stationary density π, so its generator is
symmetric in the coordinates q/√π, and is solved by its eigenvectors.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from scipy.linalg import eigh_tridiagonal
from scipy.special import exprel, rel_entr

_N_LEVELS = 20_000
Function = Callable[[Float[np.ndarray, " n"]], Float[np.ndarray, " n"]]


class FokkerPlanck:
    """The dynamics of two fields on [low, high] in cells of one size."""

    def __init__(self, g: Function, s: Function, low: float, high: float, n_cells: int) -> None:
        self.width = (high - low) / n_cells
        self.x = low + self.width * (np.arange(n_cells) + 0.5)
        between = self.x[:-1] + 0.5 * self.width
        drift = 2 * self.width * g(between) / s(between)
        scale = s(self.x) / (2 * self.width**2)
        up, down = _bernoulli(-drift) * scale[:-1], _bernoulli(drift) * scale[1:]
        leaving = np.append(up, 0.0) + np.append(0.0, down)
        # √π by detailed balance, π_k up_k = π_(k+1) down_k; its scale cancels.
        half = 0.5 * np.append(0.0, np.cumsum(np.log(up) - np.log(down)))
        self._root = np.exp(half - half.max())
        self._rates, self._modes = eigh_tridiagonal(-leaving, np.sqrt(up * down))

    def run(
        self, start: Float[np.ndarray, " n"], times: Float[np.ndarray, " t"]
    ) -> Float[np.ndarray, "t n"]:
        """The density at rising times, from a density at time 0."""
        start = start / (start.sum() * self.width)
        weights = self._modes.T @ (start / self._root)
        densities = []
        for time in times:
            density = self._root * (self._modes @ (np.exp(self._rates * time) * weights))
            # Only rounding makes a density negative or changes its mass.
            density = np.maximum(density, 0.0)
            densities.append(density / (density.sum() * self.width))
        return np.stack(densities)

    def gap(self) -> float:
        """The slowest rate at which a difference from the stationary density dies away."""
        return float(np.sort(-self._rates)[1])

    def divergence(self, p: Float[np.ndarray, " n"], target: Float[np.ndarray, " n"]) -> float:
        """KL(p ‖ target)."""
        return float(np.sum(rel_entr(p, target)) * self.width)

    def wasserstein_2(self, a: Float[np.ndarray, " n"], b: Float[np.ndarray, " n"]) -> float:
        """W2 of two densities, by their quantiles."""
        levels = (np.arange(_N_LEVELS) + 0.5) / _N_LEVELS
        edges = np.append(self.x - 0.5 * self.width, self.x[-1] + 0.5 * self.width)
        below = [np.append(0.0, np.cumsum(density)) for density in (a, b)]
        one, other = (np.interp(levels, mass / mass[-1], edges) for mass in below)
        return float(np.sqrt(np.mean((one - other) ** 2)))


def _bernoulli(w: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """B(w) = w/(eʷ − 1); w is clipped so that B stays above 0 in double precision."""
    return 1 / exprel(np.clip(w, -700, 700))
