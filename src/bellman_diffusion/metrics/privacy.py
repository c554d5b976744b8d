"""Whether a synthetic table copies the rows that it was learned from."""

import numpy as np
from jaxtyping import Float


def nearest_distances(
    rows: Float[np.ndarray, "n dim"], to: Float[np.ndarray, "m dim"]
) -> Float[np.ndarray, " n"]:
    """From each row to the closest one of `to`."""
    from sklearn.neighbors import NearestNeighbors  # noqa: PLC0415 (slow to import)

    return NearestNeighbors(n_neighbors=1).fit(to).kneighbors(rows)[0][:, 0]


def closest_record_share(
    synthetic: Float[np.ndarray, "n dim"],
    training: Float[np.ndarray, "m dim"],
    held_out: Float[np.ndarray, "k dim"],
    seed: int = 0,
) -> float:
    """The share of synthetic rows that are closer to a training row than to a held-out one.

    Both sets are cut to the same size; a tie counts half. A model that copies nothing gives 0.5.
    """
    rng = np.random.default_rng(seed)
    size = min(len(training), len(held_out))
    known, unknown = (rng.permutation(rows)[:size] for rows in (training, held_out))
    near, far = nearest_distances(synthetic, known), nearest_distances(synthetic, unknown)
    return float(np.mean(near < far) + 0.5 * np.mean(near == far))


def membership_auc(
    synthetic: Float[np.ndarray, "n dim"],
    training: Float[np.ndarray, "m dim"],
    held_out: Float[np.ndarray, "k dim"],
) -> float:
    """How well the distance to the closest synthetic row tells training rows from held-out ones.

    The area under the curve of that attack: 0.5 is a guess, 1 finds every training row.
    """
    from sklearn.metrics import roc_auc_score  # noqa: PLC0415 (slow to import)

    known, unknown = (nearest_distances(rows, synthetic) for rows in (training, held_out))
    member = np.repeat([1, 0], [len(known), len(unknown)])
    return float(roc_auc_score(member, -np.concatenate([known, unknown])))
