"""The report of the digits: the paper's grid, the figures, the nearest training images."""

from pathlib import Path
from typing import Any

import numpy as np

from bellman_diffusion.data.mnist import read_mnist
from bellman_diffusion.experiments.mnist import MODELS
from bellman_diffusion.images.judge import CONFIDENT
from bellman_diffusion.report.captions import caption
from bellman_diffusion.report.image_figures import draw_grid
from bellman_diffusion.report.image_report import nearest_images
from bellman_diffusion.report.page import Section, Table, counted, with_error, write_page

_TITLES = {"bellman": "ours", "ddpm": "DDPM, same latents", "prior": "the autoencoder's prior"}
# The paper's figure.
_SIDE = 15
_SHOWN = 15


def mnist_table(summary: dict[str, Any]) -> Table:
    """One row for each model, real images last."""
    header = (
        "images",
        "Fréchet distance",
        f"confidence ≥ {CONFIDENT}",
        "largest error of a digit's share",
        "digits asked for",
    )
    rows = [_row(_TITLES[model], summary[model]) for model in MODELS]
    return Table(header, [*rows, _row("real (floor)", summary["floor"])], n_names=1)


def mnist_verdict(summary: dict[str, Any]) -> str:
    """What the figures say of "most generated images are high-quality"."""
    ours = summary["bellman"]
    others = [summary[model]["frechet"] for model in MODELS[1:]]
    nearest = "below" if ours["frechet"] < min(others) else "not below"
    return (
        f"The classifier (accuracy {summary['accuracy']:.3f} on test digits) is confident of "
        f"{ours['confident']:.0%} of our images; their Fréchet distance is {nearest} both others'. The "
        "autoencoder's divergence has half its weight: better for models of the codes, worse for its "
        "prior."
    )


def write_mnist_report(out: Path, summary: dict[str, Any], command: str) -> Path:
    """Draw the grids of the first seed and write `report.html`."""
    seed, figures = summary["seeds"][0], out / "figures"
    drawn = {m: np.load(out / "cells" / f"{m}-{seed}.npy") for m in MODELS}
    pictures = [
        caption(draw_grid(figures / f"mnist-{m}.png", images[: _SIDE**2], _SIDE, _TITLES[m]))
        for m, images in drawn.items()
    ]
    some = drawn["bellman"][:_SHOWN]
    pairs = np.concatenate([some, nearest_images(some, read_mnist("train").images)])
    near = draw_grid(
        figures / "mnist-nearest.png", pairs, _SHOWN, "ours, and the nearest training images"
    )
    sections = [
        Section(
            "Digits",
            f"Means over {counted(len(summary['seeds']), 'seed')}. {mnist_verdict(summary)}",
            mnist_table(summary),
            pictures,
        ),
        Section("Copies?", "", pictures=[caption(near)]),
    ]
    return write_page(out / "report.html", "Digits (Appendix F.1)", command, sections)


def _row(name: str, figures: dict[str, Any]) -> tuple[str, ...]:
    cells = figures.get("per_seed", [])

    def shown(key: str, form: str) -> str:
        return with_error(figures[key], [cell[key] for cell in cells], form)

    return (
        name,
        shown("frechet", ".2f"),
        shown("confident", ".1%"),
        shown("histogram_error", ".3f"),
        shown("asked_for", ".1%") if "asked_for" in figures else "",
    )
