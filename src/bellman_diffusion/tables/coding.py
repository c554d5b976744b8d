"""A column's values as coordinates that a density can be learned of, and back.

- Numbers and dates: one coordinate. Values on a fine grid are spread evenly over their cells and
  rounded back, and a power or quantile transform may take heavy tails in. Values on a coarse grid stay
  where they are: the density then has peaks, and rounding finds them again.
- Levels (categories; and whether a number is missing): one coordinate. A few of them stand on a grid of
  their own. Of many, each takes the part of [0, 1] that its frequency asks for, a value is a random
  point of its level's part, and the normal quantile makes that a standard normal coordinate. Either way
  no level can come out that did not go in.

A column of one value has no coordinate.
"""

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from jaxtyping import Float, Int
from scipy.special import ndtr, ndtri
from sklearn.preprocessing import PowerTransformer, QuantileTransformer

Transform = Literal["plain", "power", "quantile"]
TRANSFORMS: tuple[Transform, ...] = get_args(Transform)
_MOST_QUANTILES = 1000
# Levels that have a place of their own on a grid; more of them would be too close together.
_MOST_STEPS = 24
# Normal coordinates end here, so that the ends of a range are not far from everything else.
_TAIL = 1e-4


@dataclass(frozen=True)
class LevelCoding:
    """Levels 0 … k − 1 by their frequencies."""

    counts: Int[np.ndarray, " k"]
    """How often each level occurs."""

    @classmethod
    def fit(cls, levels: Int[np.ndarray, " n"], n_levels: int) -> "LevelCoding":
        """Count the levels."""
        return cls(np.bincount(levels, minlength=n_levels))

    @property
    def n_coordinates(self) -> int:
        """None where all rows have one level."""
        return int(len(self._used) > 1)

    def encode(
        self, levels: Int[np.ndarray, " n"], rng: np.random.Generator
    ) -> Float[np.ndarray, "n c"]:
        """The place of each level on the grid, or a random point of its part."""
        # A level that was never counted takes the place of the last that was.
        part = np.minimum(np.searchsorted(self._used, levels), len(self._used) - 1)
        if len(self._used) <= _MOST_STEPS:
            at = part.astype(float)
        else:
            low, high = self._edges[:-1][part], self._edges[1:][part]
            at = _normal(low + rng.uniform(size=len(part)) * (high - low))
        return at[:, None][:, : self.n_coordinates]

    def decode(self, coordinates: Float[np.ndarray, "n c"]) -> Int[np.ndarray, " n"]:
        """The nearest level, or the one whose part the point lies in."""
        if not self.n_coordinates:
            return np.full(len(coordinates), self._used[0])
        at = coordinates[:, 0]
        if len(self._used) <= _MOST_STEPS:
            part = np.clip(np.round(at), 0, len(self._used) - 1).astype(int)
        else:
            share = (ndtr(at) - _TAIL) / (1 - 2 * _TAIL)
            part = np.searchsorted(self._edges[1:-1], share, side="right")
        return self._used[part]

    @property
    def _used(self) -> Int[np.ndarray, " used"]:
        return np.flatnonzero(self.counts)

    @property
    def _edges(self) -> Float[np.ndarray, " ends"]:
        shares = self.counts[self._used] / self.counts.sum()
        return np.concatenate([[0.0], np.cumsum(shares)])


@dataclass(frozen=True)
class NumberCoding:
    """Numbers as one coordinate of about normal shape."""

    transform: Transform
    knots: Float[np.ndarray, " k"]
    """Mean and deviation; for a power, its exponent too; for quantiles, the quantiles."""

    @classmethod
    def fit(cls, values: Float[np.ndarray, " n"], transform: Transform) -> "NumberCoding":
        """From present values, spread over their cells."""
        if transform == "quantile":
            count = min(_MOST_QUANTILES, len(values))
            every: Any = None  # all rows, not a random part of them
            fitted: Any = QuantileTransformer(n_quantiles=count, subsample=every)
            return cls(transform, fitted.fit(values[:, None]).quantiles_[:, 0])
        scale = np.array([values.mean(), values.std() or 1.0])
        if transform == "plain":
            return cls(transform, scale)
        fitted = PowerTransformer(standardize=False)
        power = fitted.fit((values[:, None] - scale[0]) / scale[1]).lambdas_
        return cls(transform, np.concatenate([scale, power]))

    def encode(self, values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Values to coordinates."""
        if self.transform == "quantile":
            return _normal(self._quantiles().transform(values[:, None])[:, 0])
        z = (values - self.knots[0]) / self.knots[1]
        return z if self.transform == "plain" else self._power().transform(z[:, None])[:, 0]

    def decode(self, coordinates: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Coordinates to values, for coordinates of values that the coding was fitted to."""
        if self.transform == "quantile":
            # The tails that were cut off at the ends belong to the ends.
            share = (ndtr(coordinates) - _TAIL) / (1 - 2 * _TAIL)
            return self._quantiles().inverse_transform(np.clip(share, 0, 1)[:, None])[:, 0]
        z = coordinates
        if self.transform == "power":
            z = self._power().inverse_transform(z[:, None])[:, 0]
        return z * self.knots[1] + self.knots[0]

    def _quantiles(self) -> Any:
        fitted: Any = QuantileTransformer(n_quantiles=len(self.knots))
        fitted.n_features_in_ = 1
        fitted.quantiles_, fitted.n_quantiles_ = self.knots[:, None], len(self.knots)
        fitted.references_ = np.linspace(0, 1, len(self.knots))
        return fitted

    def _power(self) -> Any:
        fitted: Any = PowerTransformer(standardize=False)
        fitted.n_features_in_, fitted.lambdas_ = 1, self.knots[2:]
        return fitted


def _normal(share: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """The normal quantile of shares in [0, 1], with the tails cut off."""
    return ndtri(_TAIL + (1 - 2 * _TAIL) * share)
