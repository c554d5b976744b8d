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
        known = p > 0
        return float(np.sum(p[known] * np.log(p[known] / target[known])) * self.width)

    def wasserstein_2(
        self, a: Float[np.ndarray, " n"], b: Float[np.ndarray, " n"], n_levels: int = 20_000
    ) -> float:
        """W2 of two densities, by their quantiles."""
        levels = (np.arange(n_levels) + 0.5) / n_levels
        edges = np.append(self.x - 0.5 * self.width, self.x[-1] + 0.5 * self.width)

        def quantiles(density: Float[np.ndarray, " n"]) -> Float[np.ndarray, " levels"]:
            below = np.append(0.0, np.cumsum(density))
            return np.interp(levels, below / below[-1], edges)

        return float(np.sqrt(np.mean((quantiles(a) - quantiles(b)) ** 2)))


def _bernoulli(w: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    small = np.abs(w) < 1e-6
    safe = np.where(small, 1.0, np.clip(w, -700, 700))
    return np.where(small, 1 - 0.5 * w, safe / np.expm1(safe))
