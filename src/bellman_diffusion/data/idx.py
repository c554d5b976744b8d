"""IDX files: arrays of bytes with a short header, as MNIST is published."""

import gzip
import zlib
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from bellman_diffusion.errors import InvalidInputError

_BYTES = 0x08


def read_idx(path: Path) -> UInt8[np.ndarray, "..."]:
    """The array in an IDX file of unsigned bytes, gzipped or not."""
    try:
        content = path.read_bytes()
        if content[:2] == b"\x1f\x8b":
            content = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidInputError(f"cannot read {path}: {error}") from error
    if len(content) < 4 or content[:2] != b"\0\0":
        raise InvalidInputError(f"{path} is not an IDX file: it does not begin with two zero bytes")
    kind, n_axes = content[2], content[3]
    if kind != _BYTES:
        raise InvalidInputError(
            f"{path} holds numbers of kind {kind}: only unsigned bytes are read"
        )
    header = 4 + 4 * n_axes
    cut = len(content) < header
    shape = () if cut else tuple(np.frombuffer(content[4:header], ">u4").astype(int))
    if cut or len(content) - header != int(np.prod(shape, dtype=float)):
        raise InvalidInputError(f"{path} is cut off, or is not what its header says")
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)
