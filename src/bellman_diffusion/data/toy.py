"""The three synthetic sets of Section 5.1.

The paper gives the weights of the mixture and one span of the uniform; the other numbers are ours.
"""

from abc import ABC, abstractmethod

import numpy as np
from jaxtyping import Float
from sklearn.datasets import make_moons

_ARC_POINTS = 315
Rows = Float[np.ndarray, "n dim"]


class ToySet(ABC):
    """A distribution to draw from."""

    name: str
    title: str

    @abstractmethod
    def draw(self, n: int, rng: np.random.Generator) -> Rows:
        """`n` independent points."""

    @abstractmethod
    def density(self, x: Rows) -> Float[np.ndarray, " n"]:
        """The true density."""

    def gradient(self, x: Rows) -> Rows | None:
        """The density's true gradient, or None where it has none."""
        del x
        return None

    def figures(self, x: Rows) -> dict[str, float | list[float]]:
        """Figures of merit of a sample that only this set has."""
        del x
        return {}


class DisjointUniform(ToySet):
    """A uniform distribution on three disjoint intervals of unequal width, one of them [−1, 2]."""

    name = "uniform"
    title = "disjoint uniform"
    spans = np.array([[-4.5, -2.5], [-1.0, 2.0], [3.5, 4.5]])

    def draw(self, n: int, rng: np.random.Generator) -> Rows:
        """`n` independent points."""
        widths = self.spans[:, 1] - self.spans[:, 0]
        span = rng.choice(len(widths), n, p=widths / widths.sum())
        return (self.spans[span, 0] + widths[span] * rng.random(n))[:, None]

    def density(self, x: Rows) -> Float[np.ndarray, " n"]:
        """The true density."""
        return self._inside(x) / np.sum(self.spans[:, 1] - self.spans[:, 0])

    def figures(self, x: Rows) -> dict[str, float | list[float]]:
        """The share of points outside all spans."""
        return {"gap_share": float(1 - np.mean(self._inside(x)))}

    def _inside(self, x: Rows) -> np.ndarray:
        return np.any((x >= self.spans[:, 0]) & (x <= self.spans[:, 1]), axis=1)


class SmoothSet(ToySet):
    """A set whose density is a sum of Gaussians, Σ_k w_k N(μ_k, spread² I)."""

    weights: Float[np.ndarray, " k"]
    means: Float[np.ndarray, "k dim"]
    spread: float

    def density(self, x: Rows) -> Float[np.ndarray, " n"]:
        """The true density."""
        return self._parts(x).sum(axis=1)

    def gradient(self, x: Rows) -> Rows:
        """Σ_k part_k (μ_k − x)/spread²."""
        parts = self._parts(x)
        return (parts @ self.means - parts.sum(axis=1)[:, None] * x) / self.spread**2

    def _parts(self, x: Rows) -> Float[np.ndarray, "n k"]:
        """What each Gaussian adds to the density."""
        distance = np.sum((x[:, None] - self.means) ** 2, axis=2)
        peak = (2 * np.pi * self.spread**2) ** (-x.shape[1] / 2)
        return peak * self.weights * np.exp(-0.5 * distance / self.spread**2)


class UnbalancedMixture(SmoothSet):
    """Three Gaussians in the plane with weights 0.45, 0.45 and 0.1."""

    name = "mixture"
    title = "unbalanced mixture"
    weights = np.array([0.45, 0.45, 0.1])
    means = np.array([[-2.0, -2.0], [2.0, -2.0], [0.0, 2.5]])
    spread = 0.5

    def draw(self, n: int, rng: np.random.Generator) -> Rows:
        """`n` independent points."""
        mode = rng.choice(3, n, p=self.weights)
        return self.means[mode] + self.spread * rng.standard_normal((n, 2))

    def figures(self, x: Rows) -> dict[str, float | list[float]]:
        """The share of points nearest to each mode."""
        distance = np.sum((x[:, None] - self.means) ** 2, axis=2)
        # A point that is not finite is near to none.
        nearest = np.where(np.all(np.isfinite(x), axis=1), np.argmin(distance, axis=1), -1)
        weights = [float(np.mean(nearest == mode)) for mode in range(3)]
        return {"weights": weights, "weight_error": float(np.max(np.abs(weights - self.weights)))}


class TwoMoons(SmoothSet):
    """scikit-learn's two moons."""

    name = "moons"
    title = "two moons"
    spread = 0.05
    # The integral along the arcs, as a sum over points a fifth of the spread apart.
    means = np.asarray(make_moons(2 * _ARC_POINTS, noise=None, shuffle=False)[0])
    weights = np.full(len(means), 1 / len(means))

    def draw(self, n: int, rng: np.random.Generator) -> Rows:
        """`n` independent points.

        scikit-learn spaces its points evenly along the arcs, half on each. A random part of a much
        larger set makes them independent, as a model's samples are; otherwise two fresh sets would
        be nearer to each other than independent ones can be, and the floor too low.
        """
        pool, _ = make_moons(20 * n, noise=self.spread, random_state=int(rng.integers(2**31)))
        return pool[rng.choice(len(pool), n, replace=False)]


TOY_SETS: tuple[ToySet, ...] = (DisjointUniform(), UnbalancedMixture(), TwoMoons())
