"""The Fréchet distance of two sets of features, each taken as normal (Heusel et al. 2017)."""

import numpy as np
import ot
from jaxtyping import Float


def frechet_distance(a: Float[np.ndarray, "n dim"], b: Float[np.ndarray, "m dim"]) -> float:
    """|μₐ − μ_b|² + tr(Cₐ + C_b − 2(Cₐ^½ C_b Cₐ^½)^½), the squared W2 of the two normals."""
    means = [x.astype(np.float64).mean(axis=0) for x in (a, b)]
    covariances = [np.atleast_2d(np.cov(x.astype(np.float64), rowvar=False)) for x in (a, b)]
    distance = ot.gaussian.bures_wasserstein_distance(*means, *covariances)
    return float(np.asarray(distance)) ** 2
