"""From a data frame to synthetic rows."""

import hashlib
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from pandas.core.util.hashing import hash_pandas_object

from bellman_diffusion.errors import CheckpointError, InvalidInputError, SamplingFailedError
from bellman_diffusion.estimator import BellmanDiffusion
from bellman_diffusion.model import ModelHeader
from bellman_diffusion.recipe import make_recipe
from bellman_diffusion.tables.choice import choose_transform
from bellman_diffusion.tables.coding import TRANSFORMS
from bellman_diffusion.tables.conditions import Condition, read_conditions
from bellman_diffusion.tables.encoder import TableEncoder
from bellman_diffusion.tables.schema import Schema, find_schema
from bellman_diffusion.tables.settings import table_recipe
from bellman_diffusion.training import NoProgress, Progress
from bellman_diffusion.training.checkpoint import Header, read_checkpoint, write_checkpoint

MODEL_FILE = "model.bellman"
_KIND = "table model"
# With fewer rows held out than this, nothing can be learned from them about when to stop.
_LEAST_HELD_OUT = 5
# Rows drawn to see how rare the conditions are, and draws for a row above which they are too rare.
_PILOT = 2000
_MOST_TRIES = 200
# Draws before conditions are given up.
_LEAST_DRAWS = 100_000
_BATCH = 20_000
_MOST_NOT_FINITE = 0.1


class Split(NamedTuple):
    """Rows by number: those learned from and those held out."""

    learned: Int[np.ndarray, " n"]
    held_out: Int[np.ndarray, " m"]


class ConditionalRows(NamedTuple):
    """Rows that fulfil conditions, and how they were found."""

    frame: pd.DataFrame
    conditioned: list[str]
    """Columns whose values were given to the model."""
    rejected_by: list[str]
    """Columns that rows were thrown away for."""
    tries: int
    """Rows drawn in all, those that showed how rare the conditions are among them."""


class TableHeader(Header, frozen=True, kw_only=True):
    """A fitted table model but for its fields."""

    schema: list[dict[str, Any]]
    encoder: list[dict[str, Any]]
    transform: str
    hold_out: float
    random_state: int
    digest: str
    rows: int
    model: ModelHeader


class TableModel:
    """Learns the distribution of a table's rows and draws new ones.

    Parameters
    ----------
    kinds
        What columns are, by name, where it is not what their values look like: number, integer,
        boolean, category or date.
    transform
        For heavy-tailed numbers: plain, power, quantile; or auto, which tries them on the rows held
        out, and takes plain where these are fewer than 50.
    hold_out
        The share of rows that is held out: for early stopping, and for `evaluate` to compare with.
    random_state, run_dir
        As for `BellmanDiffusion`.
    settings
        Settings of `Recipe` that replace those chosen for the table.
    """

    def __init__(
        self,
        *,
        kinds: Mapping[str, str] | None = None,
        transform: str = "auto",
        hold_out: float = 0.1,
        random_state: int = 0,
        run_dir: str | os.PathLike[str] | None = None,
        **settings: Any,
    ) -> None:
        if transform not in ("auto", *TRANSFORMS):
            raise InvalidInputError(
                f"transform {transform!r}: choose auto, {', '.join(TRANSFORMS)}"
            )
        if not 0 <= hold_out <= 0.5:
            raise InvalidInputError(f"hold_out is {hold_out}: it must lie in [0, 0.5]")
        self.kinds = dict(kinds or {})
        self.transform = transform
        self.hold_out = hold_out
        self.random_state = random_state
        self.run_dir = run_dir
        self.settings = settings

    def fit(self, frame: pd.DataFrame, *, progress: Progress | None = None) -> "TableModel":
        """Learn from the rows of a data frame."""
        frame = _named(frame)
        self.schema_ = find_schema(frame, self.kinds)
        self.digest_ = digest(frame)
        self.n_rows_ = len(frame)
        learned, held_out = (frame.iloc[rows] for rows in self.split(len(frame)))
        others = held_out if len(held_out) >= _LEAST_HELD_OUT else None
        # Before any work: what is wrong with a setting is said at once.
        recipe = make_recipe(table_recipe(self.schema_, learned), **self.settings)
        transform: Any = self.transform
        if transform == "auto":
            transform = choose_transform(learned, others, self.schema_, self.random_state, recipe)
        self.transform_ = transform
        rng = np.random.default_rng([self.random_state, 1])
        self.encoder_ = TableEncoder.fit(learned, self.schema_, transform, rng)
        rows = self.encoder_.encode(learned, rng)
        validation = None if others is None else self.encoder_.encode(others, rng)
        core = BellmanDiffusion(recipe, random_state=self.random_state, run_dir=self.run_dir)
        self.model_ = core.fit(rows, validation=validation, progress=progress or NoProgress())
        return self

    def split(self, n_rows: int) -> Split:
        """Which rows of a table of that length are learned from."""
        order = np.random.default_rng([self.random_state, 2]).permutation(n_rows)
        n_held_out = round(self.hold_out * n_rows)
        return Split(np.sort(order[n_held_out:]), np.sort(order[:n_held_out]))

    def sample(
        self, n_samples: int = 1, *, where: str | None = None, random_state: int | None = None
    ) -> pd.DataFrame:
        """New rows, all of which fulfil the conditions of `where`, such as "Sex=F, Rings>10"."""
        if where is not None:
            return self.sample_where(where, n_samples, random_state=random_state).frame
        seed = self.random_state if random_state is None else random_state
        return self._draw_given({}, n_samples, seed)

    def sample_where(
        self, where: str, n_samples: int = 1, *, random_state: int | None = None
    ) -> ConditionalRows:
        """Rows that fulfil conditions, and what it took.

        Rows that fail a condition are thrown away and drawn again, which is exact. Where too few would
        be left, the values that columns must have are given to the model, which then draws the other
        columns given them (see `BellmanDiffusion.complete`), and only comparisons throw rows away.
        """
        seed = self.random_state if random_state is None else random_state
        conditions = read_conditions(where, self.schema_)
        given: dict[str, Any] = {}
        rows: Any = self._draw_given(given, _PILOT, seed)
        if _fulfil(conditions, rows).mean() < 1 / _MOST_TRIES:
            given = {c.column.name: c.value for c in conditions if c.is_equality}
        kept: list[pd.DataFrame] = []
        found, tries = 0, _PILOT
        limit = max(_LEAST_DRAWS, 5 * _MOST_TRIES * n_samples)
        while found < n_samples:
            if tries >= limit:
                raise InvalidInputError(
                    f"of {tries} rows drawn, {found} fulfil {where!r}, and {n_samples} are wanted: "
                    "loosen the conditions or ask for fewer rows"
                )
            # As many as the share of good rows so far asks for.
            share = max(found, 1) / max(tries - _PILOT, 1)
            size = int(min(_BATCH, np.ceil(1.2 * (n_samples - found) / share) + 10))
            rows = self._draw_given(given, size, seed + 1 + tries)
            tries += size
            good = _fulfil(conditions, rows)
            kept.append(rows[good])
            found += int(good.sum())
        frame = pd.concat(kept, ignore_index=True).head(n_samples)
        names = dict.fromkeys(c.column.name for c in conditions if c.column.name not in given)
        return ConditionalRows(frame, list(given), list(names), tries)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file, with no row of the table in it."""
        header = TableHeader(
            schema=self.schema_.to_json(),
            encoder=self.encoder_.to_json(),
            transform=self.transform_,
            hold_out=self.hold_out,
            random_state=self.random_state,
            digest=self.digest_,
            rows=self.n_rows_,
            model=self.model_.to_header(),
        )
        write_checkpoint(Path(path), _KIND, self.model_.field_, header)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "TableModel":
        """The model that `save` wrote: a file, or the folder of `bellman fit`."""
        path = Path(path)
        path = path / MODEL_FILE if path.is_dir() else path
        field, h = read_checkpoint(path, _KIND, TableHeader, lambda h: h.model.structure())
        loaded = cls(transform=h.transform, hold_out=h.hold_out, random_state=h.random_state)
        try:
            loaded.schema_ = Schema.from_json(h.schema)
            loaded.encoder_ = TableEncoder.from_json(loaded.schema_, h.encoder)
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"{path} lacks what a table model needs: {error}") from error
        loaded.transform_ = h.transform
        loaded.digest_, loaded.n_rows_ = h.digest, h.rows
        loaded.model_ = BellmanDiffusion.from_header(field, h.model)
        return loaded

    def _draw_given(self, given: Mapping[str, Any], n: int, seed: int) -> pd.DataFrame:
        if not given:
            return self.encoder_.decode(self._draw(n, seed))
        known = self.encoder_.encode_known(given, n, np.random.default_rng([seed, 3]))
        return self.encoder_.decode(self.model_.complete(known, seed))

    def _draw(self, n: int, seed: int) -> Float[np.ndarray, "n dim"]:
        """Coordinates of n rows; the few paths that are not finite are drawn again.

        Those outside the data's box stay: decoding puts their values at the ends of the ranges.
        """
        found = np.empty((0, self.encoder_.n_coordinates))
        while len(found) < n:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                # One seed of two numbers.
                own = np.random.SeedSequence((seed, len(found))).generate_state(1)[0] >> 1
                paths = self.model_.sample_paths(n - len(found), int(own), max_lost=1.0)
            if paths.n_nonfinite > _MOST_NOT_FINITE * len(paths.x):
                raise SamplingFailedError(
                    f"{paths.n_nonfinite} of {len(paths.x)} paths are not finite: fit again with a "
                    "lower learning_rate or more steps (max_iter)"
                )
            found = np.concatenate([found, paths.x[np.all(np.isfinite(paths.x), axis=1)]])
        return found


def _fulfil(conditions: list[Condition], rows: pd.DataFrame) -> np.ndarray:
    return np.all([condition.holds(rows) for condition in conditions], axis=0)


def digest(frame: pd.DataFrame) -> str:
    """Tells one table from another."""
    values: Any = hash_pandas_object(frame, index=False).to_numpy()
    names = "\0".join(map(str, frame.columns)).encode()
    return hashlib.sha256(names + values.tobytes()).hexdigest()[:16]


def _named(frame: pd.DataFrame) -> pd.DataFrame:
    names = [str(name) for name in frame.columns]
    if len(set(names)) < len(names):
        raise InvalidInputError("two columns of the table have the same name: rename one")
    renamed = frame.reset_index(drop=True)
    renamed.columns = names
    return renamed
