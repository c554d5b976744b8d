"""`bellman images`: from a folder of small images to new ones."""

import io
import math
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from PIL import Image

from bellman_diffusion.cli.options import Json, Quiet, Seed, command_line, finish
from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.images.model import VAE_FILE, ImageModel, ImageSettings
from bellman_diffusion.images.reading import read_images
from bellman_diffusion.render.image_grid import tile
from bellman_diffusion.render.image_page import write_image_report
from bellman_diffusion.training import progress_bar
from bellman_diffusion.training.files import write_atomically, write_json


def images(
    source: Annotated[
        Path, typer.Argument(help="A folder of images (a folder a class), an IDX or an NPZ file.")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The model's folder; by default runs/SOURCE.")
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="An IDX file with the class of each image.")
    ] = None,
    latent_dim: Annotated[int, typer.Option(min=1, help="Numbers that an image is coded by.")] = (
        ImageSettings.latent_dim
    ),
    vae_steps: Annotated[int, typer.Option(min=1, help="Training steps of the autoencoder.")] = (
        ImageSettings.vae_steps
    ),
    latent_steps: Annotated[
        int, typer.Option(min=1, help="Training steps of the model of the codes.")
    ] = ImageSettings.latent_steps,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Learn the distribution of small square images (up to 64 × 64) and draw new ones.

    Run again with the same options to continue where it stopped.
    """
    pictures = read_images(source, labels)
    folder = out or Path("runs") / source.resolve().stem
    if folder.resolve() == source.resolve():
        raise InvalidInputError(f"{folder} holds the images: name another folder for the model")
    if folder.is_file():
        raise InvalidInputError(f"{folder} is a file: name a folder for the model")
    settings = ImageSettings(latent_dim=latent_dim, vae_steps=vae_steps, latent_steps=latent_steps)
    bars = (progress_bar("autoencoder", quiet=quiet), progress_bar("codes", quiet=quiet))
    model = ImageModel(settings, seed).fit(*pictures, run_dir=folder, progress=bars)
    model.save(folder)
    report = write_image_report(folder, model, pictures, command_line(), seed)
    figures = {
        "images": len(pictures.images),
        "size": pictures.images.shape[2],
        "channels": pictures.images.shape[1],
        "classes": pictures.names,
        "model": str(folder),
        "report": str(report),
    }
    write_json(folder / "figures.json", figures)
    line = f"Model: {folder}  (bellman sample {folder} -n 100 -o new.png)"
    finish(figures, line, f"Report: {report}", quiet=quiet, as_json=as_json)


def is_image_model(path: Path) -> bool:
    """Whether a folder is one that `bellman images` wrote."""
    return (path / VAE_FILE).exists()


def sample_images(
    model: Path, number: int, out: Path | None, label: str | None, seed: int
) -> dict[str, Any]:
    """Draw images and write them as one picture or as an array."""
    if out is None or out.suffix.lower() not in (".png", ".npz"):
        raise InvalidInputError("name a file for the images: -o FILE.png or -o FILE.npz")
    drawn = ImageModel.load(model).sample(number, label=label, random_state=seed)
    content = io.BytesIO()
    if out.suffix.lower() == ".png":
        Image.fromarray(tile(drawn, math.ceil(math.sqrt(number)))).save(content, "png")
    else:
        np.savez_compressed(content, images=np.moveaxis(drawn, 1, 3))
    write_atomically(out, content.getvalue())
    return {"images": number, "label": label, "out": str(out)}
