"""The settings that suit tables."""

from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler

from bellman_diffusion.recipe import Recipe, make_recipe
from bellman_diffusion.tables.encoder import TableEncoder
from bellman_diffusion.tables.schema import Schema

# From so many columns on the sampler takes larger steps.
_MANY_COLUMNS = 4
# The least noise, in distances between nearest rows by coordinate, and its bounds.
_IN_DISTANCES = 1.5
_LEAST, _MOST = 0.03, 0.15
# Rows whose nearest others are looked for, among so many.
_LOOKED_AT, _AMONG = 500, 20_000


def table_recipe(schema: Schema, learned: pd.DataFrame) -> Recipe:
    """The recipe that suits a table's rows.

    Tables have more columns and edges than a default network can represent. On a grid of categories
    noise far below the distance of its points adds nothing, and Fourier features along the axes tell
    the points apart (Mushroom: 2 % of the sampled rows do not occur in the data, 5 % with random
    directions, and 1 % if each noisy row is compared with 2,048 clean ones). In many numeric columns
    noise far below the distance of rows could only teach the rows themselves. Numbers need no Fourier
    features of x, and with a smaller learning rate few rows end nearer to the best weights; in mixed
    tables, rare levels and gaps need a still smaller rate and little noise to get their frequencies.
    Larger steps of the dynamics forget more of the network's errors; with many of them at each noise
    level, a third of the levels is enough. With few columns there is less to forget, and larger steps
    leave the thin shapes of such tables (two moons: W1 1.30 × the floor with them, 1.10 × without).
    """
    size: dict[str, Any] = {"width": 256, "group_size": 256}
    if schema.is_discrete:
        grid = {"sigma_min": 0.1, "fourier_features": "axes", "n_frequencies": 12}
        return make_recipe(**(size | grid | {"max_iter": 6000, "group_size": 2048}))
    learning = {"max_iter": 4000, "learning_rate": 1e-3, "n_frequencies": 0, "sigma_min": _LEAST}
    settings: dict[str, Any] = size | learning
    if len(schema.columns) < _MANY_COLUMNS:
        return make_recipe(**settings)
    if not any(column.is_discrete or column.has_missing for column in schema.columns):
        settings |= {"learning_rate": 2e-3, "sigma_min": _least_noise(schema, learned)}
    return make_recipe(**settings, n_steps=20, step_size=0.3, n_corrections=4)


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
