"""The settings that suit tables."""

from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler

from bellman_diffusion.tables.encoder import TableEncoder
from bellman_diffusion.tables.schema import Schema

# From so many columns on the sampler takes larger steps.
_MANY_COLUMNS = 4
# The least noise, in distances between nearest rows by coordinate, and its bounds.
_IN_DISTANCES = 1.5
_LEAST, _MOST = 0.03, 0.15
# Rows whose nearest others are looked for, among so many.
_LOOKED_AT, _AMONG = 500, 20_000


def table_settings(schema: Schema, learned: pd.DataFrame) -> dict[str, Any]:
    """What differs from `BellmanDiffusion`'s own settings.

    Tables have more columns and edges than a default network can draw. On a grid of categories noise
    far below the distance of its points says nothing new, and waves along the axes tell these apart
    (Mushroom: of the rows drawn 2 % are none that there are, 5 % with waves in random directions; and
    1 % where each noisy row is compared with 2,048 clean ones). In many columns of numbers noise far
    below the distance of rows could only teach the rows themselves. Numbers need no waves of x, and
    with a smaller rate few rows end nearer to the best weights; beside numbers, rare levels and gaps
    need a still smaller one and little noise to come out as often as they should. Larger steps of the
    dynamics forget more of what the network gets wrong; with many of them at each noise level, a third
    of the levels is enough. With few columns there is less to forget, and larger steps leave the thin
    shapes that such tables can have (two moons: W1 1.30 × the floor with them, 1.10 × without).
    """
    size = {"width": 256, "group_size": 256}
    if schema.is_discrete:
        grid = {"sigma_min": 0.1, "waves": "axes", "n_frequencies": 12}
        return size | grid | {"max_iter": 6000, "group_size": 2048}
    learning = {"max_iter": 4000, "learning_rate": 1e-3, "n_frequencies": 0, "sigma_min": _LEAST}
    settings: dict[str, Any] = size | learning
    if len(schema.columns) < _MANY_COLUMNS:
        return settings
    if not any(column.is_discrete or column.has_missing for column in schema.columns):
        settings |= {"learning_rate": 2e-3, "sigma_min": _least_noise(schema, learned)}
    return settings | {"n_steps": 20, "step_size": 0.3, "n_corrections": 4}


def _least_noise(schema: Schema, learned: pd.DataFrame) -> float:
    """In standard deviations of the columns, which are taken as they are."""
    rng = np.random.default_rng(0)
    some = learned.head(_AMONG)
    rows = TableEncoder.fit(some, schema, "plain", rng).encode(some, rng)
    distance = _nearest(np.unique(StandardScaler().fit_transform(rows), axis=0))
    return round(float(np.clip(_IN_DISTANCES * distance, _LEAST, _MOST)), 3)


def _nearest(rows: Float[np.ndarray, "n dim"]) -> float:
    """The median distance of a row to the nearest other, by coordinate."""
    if len(rows) < 2:
        return 0.0
    looked_at = np.random.default_rng(0).permutation(rows)[:_LOOKED_AT]
    found = NearestNeighbors(n_neighbors=2, algorithm="brute").fit(rows).kneighbors(looked_at)[0]
    return float(np.median(found[:, 1]) / np.sqrt(rows.shape[1]))
