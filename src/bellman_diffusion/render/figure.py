"""Figures for files, without pyplot: a user's own windows and backends are left alone."""

import io
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from bellman_diffusion.training.files import write_atomically

COLOURS = ("#1f5f99", "#c2571a", "#3c8d40", "#7d4fa0", "#8c6d31")
# Under the learned curve, wide and pale: what sticks out is the error.
EXACT_STYLE: dict[str, Any] = {"color": "0.8", "linewidth": 5, "zorder": 0}


def new_figure(width: float, height: float) -> Figure:
    """An empty figure whose parts keep out of each other's way."""
    return Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: Figure, path: Path) -> Path:
    """Write a PNG, whole or not at all."""
    content = io.BytesIO()
    figure.savefig(content, dpi=110, format="png")
    write_atomically(path, content.getvalue())
    return path
