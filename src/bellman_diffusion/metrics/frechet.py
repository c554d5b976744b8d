"""The Fréchet distance of two sets of features, each taken as normal (Heusel et al. 2017)."""

import numpy as np
from jaxtyping import Float


def frechet_distance(a: Float[np.ndarray, "n dim"], b: Float[np.ndarray, "m dim"]) -> float:
    """|μₐ − μ_b|² + tr(Cₐ + C_b − 2(Cₐ^½ C_b Cₐ^½)^½), the squared W2 of the two normals.

    (POT's Bures–Wasserstein distance is not a number where a covariance is singular.)
    """
    a, b = a.astype(np.float64), b.astype(np.float64)
    covariances = [np.atleast_2d(np.cov(x, rowvar=False)) for x in (a, b)]
    root = _root(covariances[0])
    both = np.trace(_root(root @ covariances[1] @ root))
    shift = np.sum((a.mean(axis=0) - b.mean(axis=0)) ** 2)
    return float(shift + sum(np.trace(c) for c in covariances) - 2 * both)


def _root(matrix: Float[np.ndarray, "dim dim"]) -> Float[np.ndarray, "dim dim"]:
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    # Rounding leaves an eigenvalue of zero a little below it.
    return (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
