"""Which transform suits a table's heavy-tailed numbers: each is tried on the rows held out.

A short fit for each transform, and the W1 distance of its samples to the rows held out decides: by
values, where few far-out rows count most, and by ranks, where the many others do, both alike. Columns
without heavy tails are left as they are, and a table without any needs no trial. Nor does one with few
rows held out: they could not tell the transforms apart, and quantiles of few rows copy their values.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
from jaxtyping import Float

from bellman_diffusion.estimator import BellmanDiffusion
from bellman_diffusion.metrics import wasserstein_1
from bellman_diffusion.recipe import Recipe
from bellman_diffusion.tables.coding import TRANSFORMS, Transform
from bellman_diffusion.tables.encoder import TableEncoder
from bellman_diffusion.tables.metric import MetricSpace
from bellman_diffusion.tables.schema import Schema

_STEPS = 400
_MOST_ROWS = 5000
_MOST_COMPARED = 500
_REPEATS = 4
_LEAST_COMPARED = 50

Space = Callable[[pd.DataFrame], Float[np.ndarray, "n dim"]]


def choose_transform(
    learned: pd.DataFrame, held_out: pd.DataFrame | None, schema: Schema, seed: int, recipe: Recipe
) -> Transform:
    """The transform whose samples come nearest to the rows held out.

    `recipe` is that of the fit that is to follow: it then finds its programs compiled.
    """
    if held_out is None or len(held_out) < _LEAST_COMPARED or not schema.heavy_tailed:
        return "plain"
    learned, held_out = learned.head(_MOST_ROWS), held_out.head(_MOST_COMPARED)
    distance = TransformDistance(learned, held_out, schema, seed)
    short = replace(recipe, max_iter=min(_STEPS, recipe.max_iter))
    found = {t: distance(_draw(t, learned, held_out, schema, seed, short)) for t in TRANSFORMS}
    return min(TRANSFORMS, key=lambda t: found[t])


class TransformDistance:
    """How far synthetic rows are from rows held out: W1 by values times W1 by ranks."""

    def __init__(
        self, learned: pd.DataFrame, held_out: pd.DataFrame, schema: Schema, seed: int
    ) -> None:
        rng = np.random.default_rng([seed, 6])
        encoder = TableEncoder.fit(learned, schema, "quantile", rng)
        scale = np.maximum(encoder.encode(learned, rng).std(axis=0), 1e-6)

        def by_ranks(frame: pd.DataFrame) -> Float[np.ndarray, "n dim"]:
            return encoder.encode(frame, rng) / scale

        self._spaces: list[Space] = [MetricSpace.fit(learned, schema), by_ranks]
        self._held_out = held_out

    def __call__(self, synthetic: pd.DataFrame) -> float:
        """The mean over parts of the synthetic rows that are about as many as the real ones."""
        n_parts = max(1, round(len(synthetic) / len(self._held_out)))
        product = 1.0
        for space in self._spaces:
            real, made = space(self._held_out), np.array_split(space(synthetic), n_parts)
            product *= float(np.mean([wasserstein_1(x, real) for x in made]))
        return product


def _draw(
    transform: Transform,
    learned: pd.DataFrame,
    held_out: pd.DataFrame,
    schema: Schema,
    seed: int,
    recipe: Recipe,
) -> pd.DataFrame:
    """Rows of a short fit."""
    rng = np.random.default_rng([seed, 4])
    encoder = TableEncoder.fit(learned, schema, transform, rng)
    model = BellmanDiffusion(recipe, random_state=seed)
    model.fit(encoder.encode(learned, rng), validation=encoder.encode(held_out, rng))
    paths = model.sample_paths(_REPEATS * len(held_out), seed, max_lost=1.0).x
    return encoder.decode(np.nan_to_num(paths))
