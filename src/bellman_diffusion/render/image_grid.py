"""Grids of small images."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from bellman_diffusion.images.reading import Images
from bellman_diffusion.render.figure import new_figure, save_figure

_GAP = 2
_INCHES = 0.45


def tile(images: Images, n_columns: int) -> np.ndarray:
    """One picture of images in rows, as (height, width) or (height, width, 3); white between them."""
    n, channels, side, _ = images.shape
    n_rows = math.ceil(n / n_columns)
    step = side + _GAP
    sheet = np.full((n_rows * step - _GAP, n_columns * step - _GAP, channels), 255, np.uint8)
    for k, image in enumerate(images):
        top, left = step * (k // n_columns), step * (k % n_columns)
        sheet[top : top + side, left : left + side] = np.moveaxis(image, 0, 2)
    return sheet[:, :, 0] if channels == 1 else sheet


def draw_grid(path: Path, images: Images, n_columns: int, title: str) -> Path:
    """A titled grid."""
    n_rows = math.ceil(len(images) / n_columns)
    figure = new_figure(_INCHES * n_columns + 0.2, _INCHES * n_rows + 0.5)
    axes: Any = figure.subplots()
    axes.imshow(tile(images, n_columns), cmap="gray", vmin=0, vmax=255, interpolation="nearest")
    axes.set_axis_off()
    axes.set_title(title, fontsize=9)
    return save_figure(figure, path)
