"""What scikit-learn's estimators take: arrays and data frames, checked."""

from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.utils.validation import validate_data


def validated(
    estimator: Any, X: Any, *, reset: bool, allow_nan: bool = False
) -> Float[np.ndarray, "n dim"]:
    """scikit-learn's checks: numbers, finite, two-dimensional, at least two rows to learn from."""
    rows: Any = validate_data(
        estimator,
        X,
        reset=reset,
        dtype=np.float64,
        ensure_all_finite="allow-nan" if allow_nan else True,
        ensure_min_samples=2 if reset else 1,
    )
    return rows


def feature_names(estimator: Any) -> list[str] | None:
    """The names of the columns that it was fitted to."""
    names = getattr(estimator, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def frame_type(X: Any) -> Any:
    """The data frame class of X, or None for arrays."""
    return type(X) if hasattr(X, "columns") and hasattr(X, "iloc") else None
