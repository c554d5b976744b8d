"""From images to new images: an autoencoder, and a model of its latents."""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Float, Integer, UInt8

from bellman_diffusion.blocks import in_blocks
from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.images.reading import Images
from bellman_diffusion.images.training import as_numbers, fit_vae
from bellman_diffusion.images.vae import VAE
from bellman_diffusion.tables import TableModel
from bellman_diffusion.training import Progress, RunFolder
from bellman_diffusion.training.checkpoint import Header, read_checkpoint, write_checkpoint

_KIND = "image model"
_BLOCK = 256
LABEL = "label"
VAE_FILE, LATENTS_FILE = "vae.bellman", "latents.bellman"


@dataclass(frozen=True)
class ImageSettings:
    """What an image model is made of."""

    latent_dim: int = 16
    kl_weight: float = 0.5
    """Of the latent's divergence in the autoencoder's loss."""
    vae_steps: int = 6000
    latent_steps: int = 6000


_DEFAULT = ImageSettings()


class ImageHeader(Header, frozen=True, kw_only=True):
    """The autoencoder's sizes, and the classes."""

    size: int
    channels: int
    latent_dim: int
    names: list[str]
    random_state: int


class ImageModel:
    """Learns the distribution of small images, and of their classes where these are given."""

    def __init__(self, settings: ImageSettings = _DEFAULT, random_state: int = 0) -> None:
        self.settings = settings
        self.random_state = random_state

    def fit(
        self,
        images: np.ndarray,
        labels: Integer[np.ndarray, " m"] | None = None,
        names: Sequence[str] = (),
        *,
        run_dir: str | os.PathLike[str] | None = None,
        progress: tuple[Progress | None, Progress | None] = (None, None),
    ) -> "ImageModel":
        """Train the autoencoder, then the model of its latents; `progress` has a bar for each.

        `names` are those of the classes, by default their numbers.

        With `run_dir`, a run that was stopped continues.
        """
        _check(images, labels, names)
        c = self.settings
        folder = None if run_dir is None else Path(run_dir)
        run = folder and RunFolder(folder / "vae", vae_config(c, images, self.random_state))
        vae = fit_vae(
            images,
            latent_dim=c.latent_dim,
            kl_weight=c.kl_weight,
            n_steps=c.vae_steps,
            seed=self.random_state,
            run=run,
            progress=progress[0],
        )
        latents = folder and folder / "latents"
        return self.fit_latents(vae, images, labels, names, run_dir=latents, progress=progress[1])

    def fit_latents(
        self,
        vae: VAE,
        images: np.ndarray,
        labels: Integer[np.ndarray, " m"] | None = None,
        names: Sequence[str] = (),
        *,
        run_dir: str | os.PathLike[str] | None = None,
        progress: Progress | None = None,
    ) -> "ImageModel":
        """As `fit`, with an autoencoder that is trained already."""
        _check(images, labels, names)
        self.vae_ = vae
        self.names_ = _names(labels, names)
        latents = draw_latents(vae, images, self.random_state)
        table = pd.DataFrame(latents, columns=[f"z{k}" for k in range(latents.shape[1])])
        if labels is not None:
            table[LABEL] = [self.names_[k] for k in labels]
        self.latents_ = TableModel(
            kinds={LABEL: "category"} if labels is not None else {},
            transform="plain",
            random_state=self.random_state,
            run_dir=run_dir,
            max_iter=self.settings.latent_steps,
            # Codes are as smooth as a table of numbers, although there is a class column.
            learning_rate=2e-3,
            sigma_min=0.08,
        ).fit(table, progress=progress)
        return self

    def sample(
        self, n: int, *, label: str | None = None, random_state: int | None = None
    ) -> Images:
        """New images; with `label`, of that class."""
        if label is not None and not self.names_:
            raise InvalidInputError("the model was fitted without labels: it knows no classes")
        if label is not None and label not in self.names_:
            raise InvalidInputError(f"no class {label!r}: there are {', '.join(self.names_)}")
        # Quoted, so that a name may have commas in it.
        where = None if label is None else f'"{LABEL}={label.replace(chr(34), chr(34) * 2)}"'
        return self._decode_rows(self.latents_.sample(n, where=where, random_state=random_state))

    def trace(
        self, n: int, n_frames: int, random_state: int | None = None
    ) -> tuple[list[float] | None, list[Images]]:
        """The sampler at work: n images at about `n_frames` moments, and the codes' noise levels."""
        levels, paths = self.latents_.model_.trace(n, n_frames, random_state)
        return levels, [self._decode_rows(self.latents_.encoder_.decode(p)) for p in paths]

    def _decode_rows(self, rows: pd.DataFrame) -> Images:
        """The images of a table of codes, whatever their classes."""
        latents = rows.drop(columns=LABEL, errors="ignore").to_numpy(np.float32)
        return decode(self.vae_, latents)

    def reconstruct(self, images: Images) -> Images:
        """Images to their latent means and back."""
        return decode(self.vae_, encode(self.vae_, images))

    def interpolate(
        self, first: Images, second: Images, n_steps: int = 8
    ) -> UInt8[np.ndarray, "n steps channels size size"]:
        """Images on the straight lines between the latents of two images."""
        a, b = encode(self.vae_, first), encode(self.vae_, second)
        shares = np.linspace(0, 1, n_steps, dtype=np.float32)[None, :, None]
        line = a[:, None] * (1 - shares) + b[:, None] * shares
        flat = decode(self.vae_, line.reshape(-1, a.shape[1]))
        return flat.reshape(len(a), n_steps, *flat.shape[1:])

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the model to a folder, with no image in it."""
        header = ImageHeader(
            size=self.vae_.size,
            channels=self.vae_.channels,
            latent_dim=self.vae_.latent_dim,
            names=self.names_,
            random_state=self.random_state,
        )
        write_checkpoint(Path(folder) / VAE_FILE, _KIND, self.vae_, header)
        self.latents_.save(Path(folder) / LATENTS_FILE)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> "ImageModel":
        """The model that `save` wrote."""
        vae, header = read_checkpoint(Path(folder) / VAE_FILE, _KIND, ImageHeader, _structure)
        loaded = cls(random_state=header.random_state)
        loaded.names_ = header.names
        loaded.vae_ = vae
        loaded.latents_ = TableModel.load(Path(folder) / LATENTS_FILE)
        return loaded


def vae_config(settings: ImageSettings, images: Images, seed: int) -> dict[str, Any]:
    """What an autoencoder depends on: a run continues only with the images that it was started with."""
    return {
        "images": [*images.shape, hashlib.sha256(images.tobytes()).hexdigest()[:16]],
        "seed": seed,
        "latent_dim": settings.latent_dim,
        "kl_weight": settings.kl_weight,
        "vae_steps": settings.vae_steps,
    }


def draw_latents(vae: VAE, images: Images, seed: int) -> Float[np.ndarray, "n latent"]:
    """A draw from the posterior of every image's latent."""
    return encode(vae, images, jax.random.fold_in(jax.random.key(seed), 3))


def encode(vae: VAE, images: Images, key: Any = None) -> Float[np.ndarray, "n latent"]:
    """The latent means of images; with a key, draws from their posteriors."""
    mean, deviation = in_blocks(lambda _, rows: _encode(vae, rows), images, _BLOCK)
    if key is None:
        return mean
    return mean + deviation * np.asarray(jax.random.normal(key, mean.shape))


def decode(vae: VAE, latents: Float[np.ndarray, "n latent"]) -> Images:
    """The images of latents."""
    (images,) = in_blocks(lambda _, rows: (_decode(vae, rows),), latents, _BLOCK)
    return images


@eqx.filter_jit
def _encode(vae: VAE, images: UInt8[Array, "n channels size size"]) -> Any:
    return jax.vmap(vae.encode)(as_numbers(images))


@eqx.filter_jit
def _decode(vae: VAE, latents: Float[Array, "n latent"]) -> UInt8[Array, "n channels size size"]:
    values = jax.nn.sigmoid(jax.vmap(vae.decode)(latents))
    return jnp.round(255 * values).astype(jnp.uint8)


def _check(images: np.ndarray, labels: np.ndarray | None, names: Sequence[str]) -> None:
    """Before hours of training, not after them."""
    if images.ndim != 4 or images.dtype != np.uint8:
        raise InvalidInputError(
            f"images of shape {images.shape} and type {images.dtype}: give bytes from 0 to 255 of "
            "shape (n, channels, side, side)"
        )
    if labels is None:
        return
    known = _names(labels, names)
    if len(labels) != len(images) or labels.min() < 0 or labels.max() >= len(known):
        raise InvalidInputError(
            f"labels must be {len(images)} whole numbers from 0 to {len(known) - 1}, one for each image"
        )
    for name in known:
        if not name.strip() or name != name.strip() or name[0] in "=<>!":
            raise InvalidInputError(f"{name!r} cannot name a class: rename it")


def _names(labels: np.ndarray | None, names: Sequence[str]) -> list[str]:
    """The classes' names; by default their numbers."""
    if labels is None:
        return []
    return list(names) or [str(k) for k in range(int(labels.max()) + 1)]


def _structure(header: ImageHeader) -> VAE:
    sizes = {"size": header.size, "channels": header.channels, "latent_dim": header.latent_dim}
    return eqx.filter_eval_shape(lambda key: VAE.create(key, **sizes), jax.random.key(0))
