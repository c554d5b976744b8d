"""Arrays and pictures as text that a page can hold."""

import base64
import io
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8
from PIL import Image

_LARGEST = 2**15 - 1
_WIDEST_FRAME = 420


def pack(values: Float[np.ndarray, "..."]) -> dict[str, Any]:
    """Numbers as 16 bits each of the largest one: fine enough for a line on a screen."""
    finite = np.nan_to_num(np.asarray(values, float), posinf=0.0, neginf=0.0)
    scale = float(np.max(np.abs(finite), initial=0.0)) or 1.0
    return _packed(finite / scale) | {"scale": scale / _LARGEST}


def pack_points(values: Float[np.ndarray, "... 2"]) -> dict[str, Any]:
    """As `pack`, each coordinate from its middle and by its own reach: columns differ in units."""
    places = np.asarray(values, float)
    flat = places.reshape(-1, 2)
    seen = flat[np.all(np.isfinite(flat), axis=1)]
    ends = np.array([seen.min(axis=0), seen.max(axis=0)]) if len(seen) else np.zeros((2, 2))
    middle, reach = ends.mean(axis=0), np.diff(ends, axis=0)[0] / 2
    reach[reach == 0] = 1.0
    inside = np.nan_to_num((places - middle) / reach, posinf=0.0, neginf=0.0)
    units = {"scale": (reach / _LARGEST).tolist(), "offset": middle.tolist()}
    return _packed(np.clip(inside, -1, 1)) | units


def _packed(shares: Float[np.ndarray, "..."]) -> dict[str, Any]:
    whole = np.round(shares * _LARGEST).astype("<i2")
    return {"shape": list(shares.shape), "data": base64.b64encode(whole.tobytes()).decode()}


def rounded(values: Any, digits: int = 5) -> Any:
    """Nested lists of numbers with so many figures; None for what is not finite."""
    array = np.asarray(values, float)
    with np.errstate(divide="ignore"):
        size = np.floor(np.log10(np.abs(array)))
    places = np.where(np.isfinite(size), digits - 1 - size, 0)
    scale = 10.0 ** np.clip(places, -300, 300)
    found = np.round(array * scale) / scale
    plain = found.astype(object)
    plain[~np.isfinite(found)] = None
    return plain.tolist()


def pack_frames(frames: list[UInt8[np.ndarray, "h w 3"]]) -> tuple[list[str], list[int]]:
    """The different pictures as data addresses, and which of them each frame is."""
    places: dict[bytes, int] = {}
    pictures: list[str] = []
    which = []
    for frame in frames:
        key = frame.tobytes()
        if key not in places:
            places[key] = len(pictures)
            pictures.append(_picture(frame))
        which.append(places[key])
    return pictures, which


def _picture(frame: UInt8[np.ndarray, "h w 3"]) -> str:
    image = Image.fromarray(frame)
    if image.width > _WIDEST_FRAME:
        height = round(image.height * _WIDEST_FRAME / image.width)
        image = image.resize((_WIDEST_FRAME, height), Image.Resampling.LANCZOS)
    content = io.BytesIO()
    image.save(content, "webp", quality=80)
    return "data:image/webp;base64," + base64.b64encode(content.getvalue()).decode()
