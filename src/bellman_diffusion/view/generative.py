"""A table model as the page shows it: data against samples, the fields, the sampler at work."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.tables import TableModel
from bellman_diffusion.view.packing import pack, pack_points

_N_POINTS = 800
_N_PATHS = 400
_N_FRAMES = 41
_N_GRID = 33
# Of the data's range, on each side of a picture.
_MARGIN = 0.1


def record_model(
    run: Path, seed: int, data: pd.DataFrame | None = None, columns: tuple[str, str] | None = None
) -> dict[str, Any]:
    """Two columns of a table model; its fields too where these are all it has."""
    model = TableModel.load(run)
    names = _two_columns(model, columns)
    samples = model.sample(_N_POINTS, random_state=seed)
    real = None if data is None else _some_rows(data, names, seed)
    places: Any = [model.encoder_.place_of(name) for name in names]
    levels, paths = model.model_.trace(_N_PATHS, _N_FRAMES, seed)
    paths = paths[:, :, places]
    window = _window(paths[-1])
    shown: dict[str, Any] = {
        "kind": "samples",
        "name": run.resolve().name,
        "columns": list(names),
        "n_steps": len(paths),
        "samples": pack_points(_points(samples, names)),
        "data": None if real is None else pack_points(_points(real, names)),
        "paths": pack_points(paths),
        "levels": levels,
        "window": window.tolist(),
        "fields": None,
    }
    if model.encoder_.n_coordinates == 2:
        shown["fields"] = _fields(model, places, window, levels)
    return shown


def _two_columns(model: TableModel, wanted: tuple[str, str] | None) -> tuple[str, str]:
    numeric = [
        c.name
        for c in model.schema_.columns
        if c.kind in ("number", "integer") and model.encoder_.place_of(c.name) is not None
    ]
    if wanted is not None:
        if wanted[0] == wanted[1]:
            raise InvalidInputError(
                f"--columns {wanted[0]} {wanted[1]}: name two different columns"
            )
        for name in wanted:
            if name not in numeric:
                raise InvalidInputError(
                    f"--columns {name!r}: choose two from the model's numbers, {', '.join(numeric)}"
                )
        return wanted
    if len(numeric) < 2:
        raise InvalidInputError(
            "a model with fewer than two columns of numbers cannot be drawn: leave it out, and look at "
            "bellman evaluate's page of it"
        )
    return numeric[0], numeric[1]


def _some_rows(data: pd.DataFrame, names: tuple[str, str], seed: int) -> pd.DataFrame:
    lacking = [name for name in names if name not in data.columns]
    if lacking:
        raise InvalidInputError(f"--data lacks the model's columns {', '.join(lacking)}")
    return data.sample(min(_N_POINTS, len(data)), random_state=seed)


def _points(frame: pd.DataFrame, names: tuple[str, str]) -> Float[np.ndarray, "n 2"]:
    # Marks of missing values that `fit` was told of are no numbers here either.
    pair: Any = frame[list(names)].apply(pd.to_numeric, errors="coerce")
    return pair.replace([np.inf, -np.inf], np.nan).dropna().to_numpy(float)


def _window(points: Float[np.ndarray, "n 2"]) -> Float[np.ndarray, "2 2"]:
    """Lower and upper ends of both coordinates where the paths end."""
    points = points[np.all(np.isfinite(points), axis=1)]
    low, high = np.quantile(points, [0.002, 0.998], axis=0)
    room = _MARGIN * np.maximum(high - low, 1e-9)
    return np.stack([low - room, high + room], axis=1)


def _fields(
    model: TableModel,
    places: list[int],
    window: Float[np.ndarray, "2 2"],
    levels: list[float] | None,
) -> dict[str, Any]:
    """s and the direction of g on a grid, at the noise level of every frame."""
    axes = [np.linspace(low, high, _N_GRID) for low, high in window]
    grid = np.stack(np.meshgrid(*axes, indexing="xy"), axis=-1).reshape(-1, 2)
    # The picture's axes may be the model's in the other order.
    points = grid[:, np.argsort(places)]
    core = model.model_
    scalar, gradient = [], []
    for level in [None] if levels is None else levels:
        s = core.scalar_field(points, sigma=level)
        g = core.gradient_field(points, sigma=level)[:, places]
        scalar.append(s / max(float(s.max()), 1e-300))
        gradient.append(g / max(float(np.linalg.norm(g, axis=1).max()), 1e-300))
    return {
        "n": _N_GRID,
        "scalar": pack(np.stack(scalar).reshape(-1, _N_GRID, _N_GRID)),
        "gradient": pack(np.stack(gradient).reshape(-1, _N_GRID, _N_GRID, 2)),
        "follows_noise": levels is not None,
    }
