"""Small square images from a folder, an IDX file or an NPZ file."""

import zipfile
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Integer, UInt8
from PIL import Image

from bellman_diffusion.data.idx import read_idx
from bellman_diffusion.errors import InvalidInputError

Images = UInt8[np.ndarray, "n channels size size"]
LARGEST_SIDE = 64
LEAST_IMAGES = 20
_ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".pgm", ".ppm")
_IMAGE_NAMES = ("images", "x", "x_train", "X", "data", "arr_0")
_LABEL_NAMES = ("labels", "y", "y_train", "arr_1")
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, AttributeError)


class Pictures(NamedTuple):
    """Images with values from 0 to 255, and which class each is of, where that is known."""

    images: Images
    labels: Integer[np.ndarray, " n"] | None
    names: list[str]
    """Of the classes."""


def read_images(path: Path, labels: Path | None = None) -> Pictures:
    """The images of a folder (one folder a class, if there are folders in it), an IDX or an NPZ file.

    `labels` is an IDX file with a number for each image.
    """
    if path.is_dir():
        found = _read_folder(path)
    elif not path.exists():
        raise InvalidInputError(f"there is no folder or file {path}")
    elif path.suffix.lower() == ".npz":
        found = _read_npz(path)
    else:
        found = Pictures(_checked(read_idx(path), path), None, [])
    if labels is not None:
        found = _labelled(found.images, read_idx(labels), labels)
    if len(found.images) < LEAST_IMAGES:
        raise InvalidInputError(
            f"{path} has {len(found.images)} images: at least {LEAST_IMAGES} are needed"
        )
    return found


def _read_folder(path: Path) -> Pictures:
    # Hidden and empty folders are no classes.
    folders = sorted(p for p in path.iterdir() if p.is_dir() and not _hidden(p) and _pictures_in(p))
    sources = [(p, k) for k, folder in enumerate(folders) for p in _pictures_in(folder)]
    labels = np.array([k for _, k in sources])
    loose = _pictures_in(path)
    if sources and loose:
        raise InvalidInputError(
            f"{path} has folders of images and {len(loose)} images next to them: put every image into "
            "the folder of its class"
        )
    sources = sources or [(p, 0) for p in loose]
    if not sources:
        raise InvalidInputError(f"{path} has no images ({', '.join(_ENDINGS)})")
    first = _open(sources[0][0])
    # Before all of a folder of photographs is in memory.
    _checked(first[None], sources[0][0])
    images = [first]
    for file, _ in sources[1:]:
        images.append(_open(file))
        if images[-1].shape[:2] != first.shape[:2]:
            raise InvalidInputError(
                f"{file} is {_size(images[-1])}, but {sources[0][0].name} is {_size(first)}: all "
                "images must have one size; scale them first"
            )
    # One coloured image makes all of them coloured.
    if len({image.ndim for image in images}) > 1:
        images = [np.stack([i] * 3, axis=2) if i.ndim == 2 else i for i in images]
    stacked = _checked(np.stack(images), path)
    return Pictures(stacked, labels if len(labels) else None, [folder.name for folder in folders])


def _pictures_in(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if p.suffix.lower() in _ENDINGS and not _hidden(p))


def _hidden(path: Path) -> bool:
    """As the thumbnails that some systems leave next to images."""
    return path.name.startswith(".")


def _open(file: Path) -> UInt8[np.ndarray, "..."]:
    try:
        with Image.open(file) as image:
            if image.mode.startswith("I"):
                # 16 bits a value; Pillow would clip them to 8.
                return np.clip(np.asarray(image) // 257, 0, 255).astype(np.uint8)
            grey = image.mode in ("1", "L", "LA")
            return np.asarray(image.convert("L" if grey else "RGB"))
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise InvalidInputError(f"cannot read {file} as an image: {error}") from error


def _read_npz(path: Path) -> Pictures:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            content = {name: arrays[name] for name in arrays.files}
    # What NumPy raises for files that are damaged, or are no archives at all.
    except (OSError, ValueError, TypeError, NotImplementedError, *_DAMAGED) as error:
        raise InvalidInputError(f"cannot read {path}: {error}") from error
    name = next((n for n in _IMAGE_NAMES if n in content), None)
    if name is None:
        raise InvalidInputError(
            f"{path} has no array named {', '.join(_IMAGE_NAMES)}; it has {', '.join(content)}"
        )
    images = _checked(_as_bytes(content[name], path), path)
    label = next((n for n in _LABEL_NAMES if n in content), None)
    if label is None:
        return Pictures(images, None, [])
    return _labelled(images, content[label], path)


def _as_bytes(images: np.ndarray, path: Path) -> UInt8[np.ndarray, "..."]:
    if images.dtype.kind not in "bfiu" or not images.size or not np.all(np.isfinite(images)):
        raise InvalidInputError(f"the images of {path} are not finite numbers")
    low, high = float(images.min()), float(images.max())
    if low < 0 or high > 255:
        raise InvalidInputError(
            f"the images of {path} have values from {low:g} to {high:g}: they must lie in [0, 1] or "
            "[0, 255]"
        )
    # Bytes that are all 0 and 1 are black and white.
    scale = 255 if high <= 1 else 1
    if images.dtype == np.uint8 and scale == 1:
        return images
    return np.round(images.astype(np.float32) * scale).astype(np.uint8)


def _checked(images: np.ndarray, path: Path) -> Images:
    """With the channels first; colours may come last."""
    if images.ndim == 3:
        images = images[:, None]
    elif images.ndim == 4 and images.shape[3] in (1, 3):
        images = np.moveaxis(images, 3, 1)
    if images.ndim != 4 or images.shape[1] not in (1, 3):
        raise InvalidInputError(
            f"the images of {path} have the shape {images.shape}: (n, side, side) for grey ones or "
            "(n, side, side, 3) for coloured ones is needed"
        )
    height, width = images.shape[2:]
    if height != width:
        raise InvalidInputError(
            f"the images of {path} are {width} × {height}: crop them to squares"
        )
    if not 8 <= height <= LARGEST_SIDE:
        raise InvalidInputError(
            f"the images of {path} have a side of {height}: sides from 8 to {LARGEST_SIDE} are "
            "learned; scale them first"
        )
    return np.ascontiguousarray(images, np.uint8)


def _labelled(images: Images, labels: np.ndarray, path: Path) -> Pictures:
    if labels.shape != (len(images),):
        raise InvalidInputError(
            f"the labels of {path} have the shape {labels.shape}, but there are {len(images)} images"
        )
    levels, numbers = np.unique(labels, return_inverse=True)
    return Pictures(images, numbers, [str(level) for level in levels])


def _size(image: np.ndarray) -> str:
    return f"{image.shape[1]} × {image.shape[0]}"
