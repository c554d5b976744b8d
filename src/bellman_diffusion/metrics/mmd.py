"""Maximum mean discrepancy with a Gaussian kernel."""

import numpy as np
from jaxtyping import Float
from scipy.spatial.distance import pdist

_BANDWIDTH_ROWS = 2000


def median_bandwidth(real: Float[np.ndarray, "n dim"], seed: int = 0) -> float:
    """The median distance between two different real rows: chosen from real data alone, then kept.

    1 where all rows are equal.
    """
    if len(real) > _BANDWIDTH_ROWS:
        real = np.random.default_rng(seed).choice(real, _BANDWIDTH_ROWS, replace=False)
    distances = pdist(real)
    apart = distances[distances > 0]
    return float(np.median(apart)) if len(apart) else 1.0


def mmd2(x: Float[np.ndarray, "n dim"], y: Float[np.ndarray, "m dim"], bandwidth: float) -> float:
    """The unbiased estimate of MMD²; below zero by chance where both distributions are the same."""
    from sklearn.metrics.pairwise import rbf_kernel  # noqa: PLC0415 (slow to import)

    gamma = 0.5 / bandwidth**2
    n, m = len(x), len(y)
    # The kernel of a row with itself is 1 and is left out.
    own_x = (rbf_kernel(x, gamma=gamma).sum() - n) / (n * (n - 1))
    own_y = (rbf_kernel(y, gamma=gamma).sum() - m) / (m * (m - 1))
    return float(own_x + own_y - 2 * rbf_kernel(x, y, gamma=gamma).mean())
