"""Columns to mean 0 and standard deviation 1, and back."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from bellman_diffusion.errors import InvalidInputError


class Standardiser(NamedTuple):
    """z = (x − mean)/scale."""

    mean: Float[np.ndarray, " dim"]
    scale: Float[np.ndarray, " dim"]

    @classmethod
    def fit(
        cls, x: Float[np.ndarray, "n dim"], names: Sequence[str] | None = None
    ) -> "Standardiser":
        """The mean and standard deviation of each column; a constant column is an error."""
        with np.errstate(over="ignore", invalid="ignore"):
            mean, scale = x.mean(axis=0), x.std(axis=0)
        endless = np.flatnonzero(~np.isfinite(scale))
        if endless.size:
            raise InvalidInputError(
                f"column {_name(endless, names)} has values too large to standardise: rescale it"
            )
        # Rounding leaves a constant column with a spread of about one part in 10¹⁶ of its value.
        constant = np.flatnonzero(scale <= 1e-12 * np.abs(mean) + np.finfo(np.float64).tiny)
        if constant.size:
            raise InvalidInputError(
                f"column {_name(constant, names)} is constant, so it has no density: "
                "drop it before fitting"
            )
        return cls(mean, scale)

    @property
    def log_volume(self) -> float:
        """log of the volume that one unit of z takes up in x."""
        return float(np.sum(np.log(self.scale)))

    def forward(self, x: Float[np.ndarray, "n dim"]) -> Float[np.ndarray, "n dim"]:
        """Data to standardised rows, in float32."""
        return ((x - self.mean) / self.scale).astype(np.float32)

    def backward(self, z: Float[np.ndarray, "n dim"]) -> Float[np.ndarray, "n dim"]:
        """Standardised rows to data, in float64."""
        return z.astype(np.float64) * self.scale + self.mean


def _name(columns: np.ndarray, names: Sequence[str] | None) -> str:
    return ", ".join(repr(names[i]) if names else str(i) for i in columns[:10])
