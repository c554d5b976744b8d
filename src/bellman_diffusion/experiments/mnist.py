"""Appendix F.1: digits by latent generation, judged by a classifier.

One autoencoder and one classifier; then, for each seed, our model and a DDPM on the same latents, and
draws from the autoencoder's own prior. Each part is kept as it is finished.
"""

import io
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import UInt8

from bellman_diffusion.baselines import DDPM, DdpmSettings
from bellman_diffusion.data.mnist import Digits, read_mnist
from bellman_diffusion.experiments.cells import load_or_run, training_run
from bellman_diffusion.experiments.workers import run_side_by_side
from bellman_diffusion.images.classifier import Classifier
from bellman_diffusion.images.judge import Judge
from bellman_diffusion.images.model import (
    ImageModel,
    ImageSettings,
    decode,
    draw_latents,
    vae_config,
)
from bellman_diffusion.images.training import fit_classifier, fit_vae
from bellman_diffusion.images.vae import VAE
from bellman_diffusion.training import NoProgress, Progress
from bellman_diffusion.training.files import write_atomically, write_json

MODELS = ("bellman", "ddpm", "prior")
NAMES = [str(digit) for digit in range(10)]
# The best of those tried on another autoencoder and seed; it trains for as many steps as ours.
_DDPM = DdpmSettings(layers=(512, 512, 512), n_times=1000, transform="quantile")


@dataclass(frozen=True)
class MnistSettings:
    """The sizes of the experiment. Tests use smaller ones."""

    images: ImageSettings = field(default_factory=ImageSettings)
    classifier_steps: int = 3000
    n_train: int = 50_000
    """Digits to learn from; the floor is that of the others."""
    n_drawn: int = 10_000
    n_of_each: int = 100
    """Images drawn of each digit."""
    ddpm: DdpmSettings = _DDPM
    seed: int = 0
    """Of the autoencoder and the classifier."""


@dataclass(frozen=True)
class Parts:
    """What all seeds share."""

    vae: VAE
    classifier: Classifier


def run_mnist(
    out: Path,
    seeds: Sequence[int],
    *,
    settings: MnistSettings | None = None,
    n_workers: int | None = None,
    progress: Sequence[Progress] = (),
) -> dict[str, Any]:
    """Run what is missing, write `mnist.json`, and return it; `progress` has a bar for each stage."""
    settings = settings or MnistSettings()
    bars = [*progress, *[NoProgress()] * 3]
    start = time.perf_counter()
    parts = train_parts(out, settings, bars[0], bars[1])
    tasks = [partial(run_model, out, model, seed, settings) for model in MODELS for seed in seeds]
    run_side_by_side(tasks, n_workers=n_workers, progress=bars[2])
    test, train = read_mnist("test"), _training(settings)
    judge = Judge(parts.classifier, test.images, test.labels)
    # Neither the classifier nor any model has learned from these.
    unseen = read_mnist("train").images[settings.n_train :][: settings.n_drawn]
    summary: dict[str, Any] = {
        "seeds": list(seeds),
        "accuracy": judge.accuracy,
        "floor": judge(unseen, train.labels),
    }
    for model in MODELS:
        cells = [run_model(out, model, seed, settings) for seed in seeds]
        summary[model] = {
            name: float(np.mean([cell[name] for cell in cells])) for name in cells[0]
        } | {"per_seed": cells}
    summary["seconds"] = time.perf_counter() - start
    write_json(out / "mnist.json", summary)
    return summary


def train_parts(out: Path, settings: MnistSettings, *progress: Progress) -> Parts:
    """The autoencoder and the classifier, or what of them is kept."""
    train = _training(settings)
    c = settings.images
    config = vae_config(c, train.images, settings.seed)
    vae = fit_vae(
        train.images,
        latent_dim=c.latent_dim,
        kl_weight=c.kl_weight,
        n_steps=c.vae_steps,
        seed=settings.seed,
        run=training_run(out / "cells" / "vae", config),
        progress=progress[0] if progress else None,
    )
    config = {
        "images": config["images"],
        "seed": settings.seed,
        "steps": settings.classifier_steps,
    }
    classifier = fit_classifier(
        train.images,
        train.labels,
        n_steps=settings.classifier_steps,
        seed=settings.seed,
        run=training_run(out / "cells" / "classifier", config),
        progress=progress[1] if len(progress) > 1 else None,
    )
    return Parts(vae, classifier)


def run_model(out: Path, model: str, seed: int, settings: MnistSettings) -> dict[str, float]:
    """The figures of one model and seed."""
    path = out / "cells" / f"{model}-{seed}.json"
    return load_or_run(path, asdict(settings), partial(_run, out, model, seed, settings))


def _run(out: Path, model: str, seed: int, settings: MnistSettings) -> dict[str, float]:
    start = time.perf_counter()
    parts, train, test = train_parts(out, settings), _training(settings), read_mnist("test")
    judge = Judge(parts.classifier, test.images, test.labels)
    more: dict[str, float] = {}
    if model == "bellman":
        fitted = ImageModel(settings.images, seed)
        fitted.fit_latents(parts.vae, train.images, train.labels, NAMES)
        drawn = fitted.sample(settings.n_drawn)
        more["asked_for"] = _agreement(fitted, judge, settings.n_of_each)
    elif model == "ddpm":
        drawn = _by_ddpm(parts.vae, train, seed, settings)
    else:
        shape = (settings.n_drawn, parts.vae.latent_dim)
        drawn = decode(parts.vae, np.asarray(jax.random.normal(jax.random.key(seed), shape)))
    seconds = time.perf_counter() - start
    _keep(out / "cells" / f"{model}-{seed}.npy", drawn[:1000])
    return judge(drawn, train.labels) | more | {"seconds": seconds}


def _by_ddpm(
    vae: VAE, train: Digits, seed: int, settings: MnistSettings
) -> UInt8[np.ndarray, "m channels size size"]:
    """As ours, it learns the codes together with the digits, here as columns of zeros and ones."""
    latents = draw_latents(vae, train.images, seed)
    digits = np.eye(len(NAMES), dtype=latents.dtype)[train.labels]
    rows = np.concatenate([latents, digits], axis=1)
    n_held_out = len(rows) // 10
    ddpm = DDPM(replace(settings.ddpm, max_iter=settings.images.latent_steps), seed)
    ddpm.fit(rows[n_held_out:], validation=rows[:n_held_out])
    drawn = ddpm.sample(settings.n_drawn, seed)[:, : latents.shape[1]]
    return decode(vae, drawn.astype(np.float32))


def _agreement(fitted: ImageModel, judge: Judge, n: int) -> float:
    """The share of images of a digit that was asked for that the classifier takes for it."""
    shares = [
        np.mean(judge.classes(fitted.sample(n, label=name, random_state=k)) == k)
        for k, name in enumerate(NAMES)
    ]
    return float(np.mean(shares))


def _training(settings: MnistSettings) -> Digits:
    digits = read_mnist("train")
    return digits._replace(
        images=digits.images[: settings.n_train], labels=digits.labels[: settings.n_train]
    )


def _keep(path: Path, images: UInt8[np.ndarray, "n channels size size"]) -> None:
    content = io.BytesIO()
    np.save(content, images)
    write_atomically(path, content.getvalue())
