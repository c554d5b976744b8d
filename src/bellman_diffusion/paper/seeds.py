"""Figures over seeds: rows whose `per_seed` are the figures of each."""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from bellman_diffusion.render.page import with_error


def means(cells: Sequence[msgspec.Struct], **changes: Any) -> dict[str, Any]:
    """A row: the mean of each figure that is a number or a list of them, None where a seed lacks it."""
    found: dict[str, Any] = {"per_seed": cells}
    for name in cells[0].__struct_fields__:
        values = [getattr(cell, name) for cell in cells]
        known = not any(value is None or isinstance(value, str) for value in values)
        found[name] = np.mean(values, axis=0).tolist() if known else None
    return found | changes


def shown(row: Any, name: str, form: str) -> str:
    """The mean of a figure with its standard error; nothing where there is none."""
    value = getattr(row, name)
    if value is None:
        return ""
    return with_error(value, [getattr(cell, name) for cell in row.per_seed], form)
