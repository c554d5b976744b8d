"""Optimal transport between two samples, by POT."""

import numpy as np
from jaxtyping import Float

from bellman_diffusion.errors import InvalidInputError

_MOST_ITERATIONS = 10_000_000


def wasserstein_1(x: Float[np.ndarray, "n dim"], y: Float[np.ndarray, "m dim"]) -> float:
    """The exact W1 distance between two samples, with the Euclidean ground distance."""
    import ot  # noqa: PLC0415 (slow to import)

    _check(x, y)
    if x.shape[1] == 1:
        return float(np.asarray(ot.wasserstein_1d(x[:, 0], y[:, 0], p=1)))
    return _transport(np.asarray(ot.dist(x, y, metric="euclidean")))


def wasserstein_2(x: Float[np.ndarray, "n dim"], y: Float[np.ndarray, "m dim"]) -> float:
    """The exact W2 distance between two samples, with the Euclidean ground distance."""
    import ot  # noqa: PLC0415 (slow to import)

    _check(x, y)
    return float(np.sqrt(_transport(np.asarray(ot.dist(x, y, metric="sqeuclidean")))))


def sliced_wasserstein(
    x: Float[np.ndarray, "n dim"],
    y: Float[np.ndarray, "m dim"],
    seed: int = 0,
    n_directions: int = 200,
) -> float:
    """W2 of the projections on random directions: the root of its mean square over them."""
    import ot  # noqa: PLC0415 (slow to import)

    _check(x, y)
    value = ot.sliced_wasserstein_distance(x, y, n_projections=n_directions, seed=seed)
    return float(np.asarray(value))


def _transport(cost: Float[np.ndarray, "n m"]) -> float:
    import ot  # noqa: PLC0415 (slow to import)

    return float(np.asarray(ot.emd2([], [], cost, numItermax=_MOST_ITERATIONS)))


def _check(x: Float[np.ndarray, "n dim"], y: Float[np.ndarray, "m dim"]) -> None:
    if not (np.all(np.isfinite(x)) and np.all(np.isfinite(y))):
        raise InvalidInputError("a sample holds NaN or infinity: its distance is not defined")
