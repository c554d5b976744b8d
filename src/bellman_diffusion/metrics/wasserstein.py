"""Exact optimal transport between two samples, by POT."""

import numpy as np
import ot
from jaxtyping import Float

from bellman_diffusion.errors import InvalidInputError


def wasserstein_1(x: Float[np.ndarray, "n dim"], y: Float[np.ndarray, "m dim"]) -> float:
    """The exact W1 distance between two samples, with the Euclidean ground distance."""
    if not (np.all(np.isfinite(x)) and np.all(np.isfinite(y))):
        raise InvalidInputError("a sample holds NaN or infinity: its distance is not defined")
    if x.shape[1] == 1:
        return float(np.asarray(ot.wasserstein_1d(x[:, 0], y[:, 0], p=1)))
    cost = ot.dist(x, y, metric="euclidean")
    return float(np.asarray(ot.emd2([], [], cost, numItermax=10_000_000)))
