"""The page of an image model: samples, reconstructions, interpolations, nearest images learned from."""

from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from bellman_diffusion.errors import BellmanError
from bellman_diffusion.images.model import ImageModel
from bellman_diffusion.images.reading import Images, Pictures
from bellman_diffusion.render.image_grid import draw_grid
from bellman_diffusion.render.page import Picture, Section, write_page

_SIDE = 10
_LINES = 6
_BLOCK = 2000


def write_image_report(
    out: Path, model: ImageModel, pictures: Pictures, command: str, seed: int
) -> Path:
    """Draw the grids and write `report.html`."""
    images, figures = pictures.images, out / "figures"
    rng = np.random.default_rng(seed)
    some = images[rng.permutation(len(images))[: 2 * _LINES]]
    samples = model.sample(_SIDE**2, random_state=seed)
    shown, half = samples[: 2 * _LINES], len(some) // 2
    lines = model.interpolate(some[:half], some[half : 2 * half], _SIDE)

    def section(
        title: str, text: str, caption: str, rows: np.ndarray, across: int, heading: str
    ) -> Section:
        path = draw_grid(figures / f"{caption.split(maxsplit=1)[0]}.png", rows, across, heading)
        return Section(title, text, pictures=[Picture(path, caption)])

    sections = [
        section("Samples", "", "samples", samples, _SIDE, "new images"),
        section(
            "Reconstructions",
            "Images above their reconstructions.",
            "reconstructions",
            np.concatenate([some, model.reconstruct(some)]),
            len(some),
            "images, coded and decoded",
        ),
        section(
            "Interpolations",
            "On straight lines between the latent codes of two images.",
            "interpolations",
            lines.reshape(-1, *lines.shape[2:]),
            _SIDE,
            "from one image to another",
        ),
        section(
            "Nearest images learned from",
            "Samples above the images that are nearest to them, value by value.",
            "nearest images",
            np.concatenate([shown, nearest_images(shown, images)]),
            len(shown),
            "samples, nearest images",
        ),
    ]
    if model.names_:
        sections.insert(1, _classes(figures, model, seed))
    return write_page(out / "report.html", "Images", command, sections)


def nearest_images(samples: Images, images: UInt8[np.ndarray, "m channels size size"]) -> Images:
    """For each sample the image with the least squared distance."""
    mine = samples.reshape(len(samples), -1).astype(np.float32)
    # In blocks: all images as numbers would take four times their bytes, twice.
    least, place = np.full(len(samples), np.inf), np.zeros(len(samples), int)
    for start in range(0, len(images), _BLOCK):
        block = images[start : start + _BLOCK]
        flat = block.reshape(len(block), -1).astype(np.float32)
        distance = np.sum(flat**2, axis=1)[None] - 2 * mine @ flat.T
        nearest = distance.argmin(axis=1)
        here = distance[np.arange(len(samples)), nearest]
        place = np.where(here < least, start + nearest, place)
        least = np.minimum(least, here)
    return images[place]


def _classes(figures: Path, model: ImageModel, seed: int) -> Section:
    shown = model.names_[:_SIDE]
    rows, rare = [], []
    for name in shown:
        try:
            rows.append(model.sample(_SIDE, label=name, random_state=seed))
        except BellmanError:
            # The few images of a class may all be among those held out.
            rare.append(name)
    text = f"Too few images to learn from: {', '.join(rare)}." if rare else ""
    if not rows:
        return Section("Classes", text)
    path = draw_grid(
        figures / "classes.png", np.concatenate(rows), _SIDE, "a row for each class asked for"
    )
    return Section("Classes", text, pictures=[Picture(path, "classes")])
