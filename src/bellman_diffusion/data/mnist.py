"""The MNIST digits (LeCun et al. 1998)."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Integer, UInt8

from bellman_diffusion.data.fetch import PublicFile, find_file
from bellman_diffusion.data.idx import read_idx

_ADDRESS = "https://ossci-datasets.s3.amazonaws.com/mnist/"
# What the files of a part are called, and the SHA-256 of the images and of the labels.
_PARTS = {
    "train": (
        "train",
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    ),
    "test": (
        "t10k",
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    ),
}


class Digits(NamedTuple):
    """Images of 28 × 28 grey values from 0 to 255, and which digits they are."""

    images: UInt8[np.ndarray, "n 1 28 28"]
    labels: Integer[np.ndarray, " n"]


def read_mnist(part: str) -> Digits:
    """The 60,000 digits of `train` or the 10,000 of `test`."""
    name, *digests = _PARTS[part]
    names = (f"{name}-images-idx3-ubyte.gz", f"{name}-labels-idx1-ubyte.gz")
    files = (PublicFile.under(_ADDRESS, *pair) for pair in zip(names, digests, strict=True))
    images, labels = (read_idx(find_file(file)) for file in files)
    return Digits(images[:, None], labels.astype(int))
