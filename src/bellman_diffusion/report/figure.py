"""Figures for files, without pyplot: a user's own windows and backends are left alone."""

import io
from pathlib import Path

from matplotlib.figure import Figure

from bellman_diffusion.training.files import write_atomically


def new_figure(width: float, height: float) -> Figure:
    """An empty figure whose parts keep out of each other's way."""
    return Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: Figure, path: Path) -> Path:
    """Write a PNG, whole or not at all."""
    content = io.BytesIO()
    figure.savefig(content, dpi=110, format="png")
    write_atomically(path, content.getvalue())
    return path
