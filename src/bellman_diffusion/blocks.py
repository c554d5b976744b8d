"""Run a compiled function over any number of rows in blocks of one size.

One compilation serves every number of rows, and a row's result does not depend on its neighbours.
"""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import Float


def in_blocks(
    function: Callable[[int, Any], Any],
    rows: Float[np.ndarray, "n dim"],
    block: int,
) -> Any:
    """`function(i, rows of block i)` for each block, its outputs (leading axis: rows) joined.

    The last block is filled up with copies of its last row, whose results are dropped.
    """
    parts = []
    for i in range(0, len(rows), block):
        part = rows[i : i + block]
        padded = np.concatenate([part, np.repeat(part[-1:], block - len(part), axis=0)])
        parts.append(function(i // block, padded))
    return jax.tree.map(lambda *leaves: np.concatenate(leaves)[: len(rows)], *parts)
