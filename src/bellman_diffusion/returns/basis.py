"""A basis of Gaussians N(x; μ_k, σ²I): the functions that a return's density is a sum of.

Their inner products are closed forms, in L2 and in Cramér's (energy) distance. In D > 1 dimensions
Cramér's distance is that of projections on fixed directions, averaged: each projection is contracted
by the backup as the distribution itself is.
"""

from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.stats import norm

from bellman_diffusion.errors import InvalidInputError

Objective = Literal["cramer", "l2"]
_N_DIRECTIONS = 32


class GaussianBasis(NamedTuple):
    """Centres and the one width. Double precision: the solver inverts matrices of inner products."""

    centres: Float[np.ndarray, "k dim"]
    sigma: float

    @classmethod
    def on_interval(
        cls, low: float, high: float, n_basis: int, sigma: float | None = None
    ) -> "GaussianBasis":
        """Evenly spaced centres from `low` to `high`; σ is their spacing unless it is given."""
        if not low < high:
            raise InvalidInputError(f"the support [{low}, {high}] is empty: give low < high")
        if n_basis < 2:
            raise InvalidInputError(f"{n_basis} basis functions: at least 2 are needed")
        spacing = (high - low) / (n_basis - 1)
        sigma = spacing if sigma is None else sigma
        if not sigma > 0:
            raise InvalidInputError(f"sigma is {sigma}: it must be positive")
        return cls(np.linspace(low, high, n_basis)[:, None], float(sigma))

    @property
    def dim(self) -> int:
        """The dimension of the return."""
        return self.centres.shape[1]

    @property
    def low(self) -> Float[np.ndarray, " dim"]:
        """The least centre along each axis."""
        return self.centres.min(axis=0)

    @property
    def high(self) -> Float[np.ndarray, " dim"]:
        """The greatest centre along each axis."""
        return self.centres.max(axis=0)

    def inner(
        self, objective: Objective, at: Float[np.ndarray, "n dim"], variance: float
    ) -> Float[np.ndarray, "k n"]:
        """⟨N(μ_k, σ²I), N(a, variance·I)⟩ for every centre μ_k and row a of `at`.

        Cramér's is −E‖X − Y‖ up to terms that vanish between distributions of equal mass.
        """
        apart = self.centres[:, None] - at[None]
        total = self.sigma**2 + variance
        if objective == "l2":
            squared = np.sum(apart**2, axis=-1)
            return np.exp(-squared / (2 * total)) / (2 * np.pi * total) ** (self.dim / 2)
        projected = apart @ _directions(self.dim)
        return -np.mean(_mean_abs_normal(projected, total), axis=-1)


def _mean_abs_normal(mean: np.ndarray, variance: float) -> np.ndarray:
    """E|N(mean, variance)|."""
    scale = np.sqrt(variance)
    z = mean / scale
    return 2 * scale * norm.pdf(z) + mean * (2 * norm.cdf(z) - 1)


def _directions(dim: int) -> Float[np.ndarray, "dim n"]:
    """Unit vectors; the same ones always, since they are part of the distance's definition."""
    if dim == 1:
        return np.ones((1, 1))
    vectors = np.random.default_rng(0).normal(size=(dim, _N_DIRECTIONS))
    return vectors / np.linalg.norm(vectors, axis=0)
