"""The learned fields of a synthetic set on a grid, and how far they are from the true ones."""

import numpy as np
from jaxtyping import Float

from bellman_diffusion.data.toy import ToySet
from bellman_diffusion.estimator import BellmanDiffusion


def field_panels(
    model: BellmanDiffusion, data: Float[np.ndarray, "n dim"], n_grid: int
) -> dict[str, np.ndarray]:
    """s, g and, where the model has it, the density, on a grid around the data."""
    low, high = data.min(axis=0), data.max(axis=0)
    low, high = low - 0.1 * (high - low), high + 0.1 * (high - low)
    n_axis = 10 * n_grid if data.shape[1] == 1 else n_grid
    axes = [np.linspace(a, b, n_axis) for a, b in zip(low, high, strict=True)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, data.shape[1])
    panels = {"grid": grid, "s": model.scalar_field(grid), "g": model.gradient_field(grid)}
    if model.recipe_.field == "noise-conditional":
        panels["density"] = np.exp(model.score_samples(grid))
        # At the least noise, the end of what it has learned, the score is rough.
        panels["score"] = model.score_field(grid, sigma=2 * model.recipe_.sigma_min)
    return panels


def field_errors(toy: ToySet, panels: dict[str, np.ndarray]) -> dict[str, float | None]:
    """∫ |p̂ − p| and ∫ |∇p̂ − ∇p| / ∫ |∇p|; None where the density has no gradient.

    Where the model knows the density, p̂ is that, and ∇p̂ is it times the score; else p̂ is s with the
    mass 1 and ∇p̂ is g with the same factor, as the paper has it.
    """
    grid = panels["grid"]
    if "density" in panels:
        density, gradient = panels["density"], panels["density"][:, None] * panels["score"]
    else:
        n_axis = round(len(grid) ** (1 / grid.shape[1]))
        cell = np.prod((grid.max(axis=0) - grid.min(axis=0)) / (n_axis - 1))
        mass = panels["s"].sum() * cell
        density, gradient = panels["s"] / mass, panels["g"] / mass
    true, slope = toy.density(grid), toy.gradient(grid)
    return {
        "scalar_error": float(np.abs(density - true).sum() / true.sum()),
        "gradient_error": None
        if slope is None
        else float(
            np.linalg.norm(gradient - slope, axis=1).sum() / np.linalg.norm(slope, axis=1).sum()
        ),
    }
