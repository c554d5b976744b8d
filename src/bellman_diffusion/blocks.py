"""Run a compiled function over any number of rows in blocks of one size.

One compilation serves every number of rows, and a row's result does not depend on its neighbours.
On a CPU the blocks run on all cores at once: a block is too small for XLA to split it well by itself.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np
from jaxtyping import Shaped


def in_blocks(
    function: Callable[[int, Any], Any], rows: Shaped[np.ndarray, "n ..."], block: int
) -> Any:
    """`function(i, rows of block i)` for each block, its outputs (leading axis: rows) joined.

    The last block is filled up with copies of its last row, whose results are dropped.
    """
    filling = -len(rows) % block
    padded = np.concatenate([rows, np.repeat(rows[-1:], filling, axis=0)])

    def one(i: int) -> Any:
        return jax.block_until_ready(function(i, padded[i * block : (i + 1) * block]))

    with ThreadPoolExecutor(n_cores() if jax.default_backend() == "cpu" else 1) as pool:
        parts = list(pool.map(one, range(len(padded) // block)))
    return jax.tree.map(lambda *leaves: np.concatenate(leaves)[: len(rows)], *parts)


def n_cores() -> int:
    """The cores that this process may use, which a container can make fewer than there are."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1
