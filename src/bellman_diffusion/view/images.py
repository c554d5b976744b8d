"""An image model as the page shows it: codes on their way from noise, decoded at every moment."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from bellman_diffusion.images.model import ImageModel
from bellman_diffusion.render.image_grid import tile
from bellman_diffusion.view.packing import pack_frames

_N_IMAGES = 36
_N_FRAMES = 31
# Small images are enlarged by whole factors to about this width.
_WIDTH = 400


def record_images(run: Path, seed: int) -> dict[str, Any]:
    """A sheet of images in the making."""
    model = ImageModel.load(run)
    levels, sheets = model.trace(_N_IMAGES, _N_FRAMES, seed)
    frames, which = pack_frames(
        [_enlarged(tile(sheet, math.isqrt(len(sheet)))) for sheet in sheets]
    )
    return {
        "kind": "images",
        "name": run.resolve().name,
        "n_steps": len(sheets),
        "n_images": _N_IMAGES,
        "frames": frames,
        "frame": which,
        "levels": levels,
    }


def _enlarged(sheet: np.ndarray) -> np.ndarray:
    factor = max(1, _WIDTH // sheet.shape[1])
    coloured = sheet if sheet.ndim == 3 else np.repeat(sheet[..., None], 3, axis=2)
    return np.repeat(np.repeat(coloured, factor, axis=0), factor, axis=1)
