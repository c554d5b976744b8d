"""Coordinates in which Cramér's distance between distributions of a basis is the Euclidean one.

A network that regresses in these coordinates minimises Cramér's distance with a loss as well
conditioned as least squares can be: the matrix of inner products spans many orders of magnitude.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from bellman_diffusion.returns.basis import GaussianBasis


class Whitening(NamedTuple):
    """coefficients = 1/K + to_coefficients · y, so the mass is always 1; y = from_coefficients · c."""

    to_coefficients: Float[np.ndarray, "k y"]
    from_coefficients: Float[np.ndarray, "y k"]

    @classmethod
    def of(cls, basis: GaussianBasis) -> "Whitening":
        """The coordinates of a basis; y has one entry fewer than there are functions."""
        gram = basis.inner("cramer", basis.centres, basis.sigma**2)
        n = len(gram)
        # The directions that leave the mass alone; on them the Cramér form is positive.
        without_mass = np.linalg.svd(np.ones((1, n)))[2][1:].T
        squared, vectors = np.linalg.eigh(without_mass.T @ gram @ without_mass)
        # Directions that single precision cannot see are left out of the inverse's reach.
        root = np.sqrt(np.maximum(squared, 1e-9 * squared.max()))
        axes = without_mass @ vectors
        return cls(axes / root, (axes * root).T)
