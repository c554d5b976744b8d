"""The Wasserstein distance W1 = ∫ |F − G| between return distributions, without a grid."""

import numpy as np
from jaxtyping import Float

from bellman_diffusion.returns.atoms import AtomicReturn
from bellman_diffusion.returns.distribution import ReturnDistribution
from bellman_diffusion.returns.tabulated import TabulatedReturn

_Row = Float[np.ndarray, " _"]


def wasserstein(a: ReturnDistribution, b: ReturnDistribution) -> Float[np.ndarray, " states"]:
    """Of each state of two batches. Both CDFs are pieces of straight lines, with jumps at atoms."""
    pairs = zip(_pieces(a), _pieces(b), strict=True)
    return np.array([_area(one, other) for one, other in pairs])


def _pieces(distribution: ReturnDistribution) -> list[tuple[_Row, _Row, _Row]]:
    """Of each state: intervals over which its mass is spread evenly; an atom's has no width."""
    if isinstance(distribution, TabulatedReturn):
        grid, density = (np.asarray(x, float) for x in (distribution.grid, distribution.scalar))
        mass = (density[:, 1:] + density[:, :-1]) / 2 * np.diff(grid)
        return [(grid[:-1], grid[1:], row / row.sum()) for row in mass]
    assert isinstance(distribution, AtomicReturn)
    shape = distribution.mass.shape
    half = 0.0 if distribution.half_width is None else np.asarray(distribution.half_width, float)
    atoms, half = (np.broadcast_to(x, shape) for x in (np.asarray(distribution.atoms, float), half))
    mass = np.asarray(distribution.mass, float)
    mass = mass / mass.sum(axis=-1, keepdims=True)
    return [(x - h, x + h, m) for x, h, m in zip(atoms, half, mass, strict=True)]


def _area(one: tuple[_Row, _Row, _Row], other: tuple[_Row, _Row, _Row]) -> float:
    """∫ |F − G|: the difference of the CDFs jumps and changes its slope at the ends of pieces."""
    left, right, mass = (np.concatenate(x) for x in zip(one, other, strict=True))
    mass = np.where(np.arange(len(mass)) < len(one[2]), mass, -mass)
    width = right - left
    flat = width <= 1e-12 * max(float(np.abs(right).max()), 1.0)
    slope = np.where(flat, 0.0, mass / np.where(flat, 1.0, width))
    x = np.concatenate([left, right])
    order = np.argsort(x, kind="stable")
    x = x[order]
    jump = np.concatenate([np.where(flat, mass, 0.0), np.zeros_like(mass)])[order]
    slopes = np.cumsum(np.concatenate([slope, -slope])[order])[:-1]
    step = np.diff(x)
    start = np.cumsum(jump)[:-1] + np.concatenate([[0.0], np.cumsum(slopes * step)])[:-1]
    end = start + slopes * step
    size = np.abs(start) + np.abs(end)
    crosses = (start * end < 0) & (size > 0)
    mean = np.where(crosses, (start**2 + end**2) / np.where(size > 0, size, 1.0), size) / 2
    return float(mean @ step)
