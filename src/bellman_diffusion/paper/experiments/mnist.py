"""Appendix F.1: digits by latent generation, evaluated by a classifier.

One autoencoder and one classifier; then, for each seed, our model and a DDPM on the same latents, and
draws from the autoencoder's own prior. Each part is kept as it is finished.
"""

import io
import time
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import msgspec
import numpy as np
from jaxtyping import UInt8

from bellman_diffusion.baselines import DDPM, DdpmSettings
from bellman_diffusion.data.mnist import Digits, read_mnist
from bellman_diffusion.images.classifier import Classifier
from bellman_diffusion.images.evaluation import CONFIDENT, ImageEvaluator, ImageFigures
from bellman_diffusion.images.model import (
    ImageModel,
    ImageSettings,
    decode,
    draw_latents,
    vae_config,
)
from bellman_diffusion.images.training import fit_classifier, fit_vae
from bellman_diffusion.images.vae import VAE
from bellman_diffusion.paper.cells import load_or_run, training_run
from bellman_diffusion.paper.claims import Finding, claim, reproduced
from bellman_diffusion.paper.experiment import Experiment, SeededOptions, Summary, Workplace, option
from bellman_diffusion.paper.seeds import means, shown
from bellman_diffusion.render.image_grid import draw_grid
from bellman_diffusion.render.image_page import nearest_images
from bellman_diffusion.render.page import Picture, Section, Table, counted
from bellman_diffusion.training.files import write_atomically

MODELS = ("bellman", "ddpm", "prior")
NAMES = [str(digit) for digit in range(10)]
# The best of those tried on another autoencoder and seed; it trains for as many steps as ours.
_DDPM: dict[str, Any] = {"layers": (512, 512, 512), "n_times": 1000, "transform": "quantile"}
# Of the autoencoder and the classifier.
_SEED = 0
_TITLES = {"bellman": "ours", "ddpm": "DDPM, same latents", "prior": "the autoencoder's prior"}
# The paper's figure.
_SIDE = 15
_PAIRS = 15


@dataclass(frozen=True)
class MnistOptions(SeededOptions):
    """Seeds and training steps."""

    seeds: int = option(3, "How many seeds, from --seed on.", min=1)
    vae_steps: int = option(ImageSettings.vae_steps, "Training steps of the autoencoder.", min=1)
    latent_steps: int = option(
        ImageSettings.latent_steps, "Training steps of the models of the codes.", min=1
    )
    classifier_steps: int = option(
        3000, "Training steps of the classifier that evaluates the images.", min=1
    )


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


class ModelFigures(ImageFigures, kw_only=True, omit_defaults=True):
    """One model; `asked_for` is the share of images of a requested digit that are that digit."""

    asked_for: float | None = None
    seconds: float


class ModelRow(ModelFigures, kw_only=True, omit_defaults=True):
    """The mean over seeds."""

    per_seed: list[ModelFigures]


class MnistSummary(Summary):
    """Every model next to real digits."""

    seeds: list[int]
    accuracy: float
    floor: ImageFigures
    bellman: ModelRow
    ddpm: ModelRow
    prior: ModelRow
    seconds: float

    def models(self) -> dict[str, ModelRow]:
        """By name."""
        return {name: getattr(self, name) for name in MODELS}


def run(
    options: MnistOptions, work: Workplace, settings: MnistSettings | None = None
) -> MnistSummary:
    """Run what is missing."""
    start, seeds = time.perf_counter(), list(options.all_seeds)
    images = ImageSettings(vae_steps=options.vae_steps, latent_steps=options.latent_steps)
    settings = settings or MnistSettings(images, options.classifier_steps)
    _, classifier = train_parts(work, settings)
    tasks = {
        (model, seed): partial(run_model, replace(work, quiet=True), model, seed, settings)
        for model in MODELS
        for seed in seeds
    }
    found = work.run_parallel("models", tasks)
    test, train = read_mnist("test"), _training(settings)
    evaluator = ImageEvaluator(classifier, test.images, test.labels)
    # Neither the classifier nor any model has learned from these.
    unseen = read_mnist("train").images[settings.n_train :][: settings.n_drawn]
    summary = MnistSummary(
        seeds=seeds,
        accuracy=evaluator.accuracy,
        floor=evaluator(unseen, train.labels),
        **{model: ModelRow(**means([found[model, seed] for seed in seeds])) for model in MODELS},
        seconds=time.perf_counter() - start,
    )
    _draw(work, seeds[0])
    return summary


def train_parts(work: Workplace, settings: MnistSettings) -> tuple[VAE, Classifier]:
    """The autoencoder and the classifier, which all seeds share, or what of them is kept."""
    train, c = _training(settings), settings.images
    config = vae_config(c, train.images, _SEED)
    vae = fit_vae(
        train.images,
        latent_dim=c.latent_dim,
        kl_weight=c.kl_weight,
        n_steps=c.vae_steps,
        seed=_SEED,
        run=training_run(work.cells / "vae", config),
        progress=work.bar("autoencoder"),
    )
    config = {"images": config["images"], "seed": _SEED, "steps": settings.classifier_steps}
    classifier = fit_classifier(
        train.images,
        train.labels,
        n_steps=settings.classifier_steps,
        seed=_SEED,
        run=training_run(work.cells / "classifier", config),
        progress=work.bar("classifier"),
    )
    return vae, classifier


def run_model(work: Workplace, model: str, seed: int, settings: MnistSettings) -> ModelFigures:
    """The figures of one model and seed."""
    path = work.cells / f"{model}-{seed}.json"
    run_now = partial(_run, work, model, seed, settings)
    return load_or_run(path, asdict(settings) | {"ddpm": _DDPM}, ModelFigures, run_now)


def _run(work: Workplace, model: str, seed: int, settings: MnistSettings) -> ModelFigures:
    start = time.perf_counter()
    train, test = _training(settings), read_mnist("test")
    # They are trained by now, and only read.
    vae, classifier = train_parts(work, settings)
    evaluator = ImageEvaluator(classifier, test.images, test.labels)
    asked_for = None
    if model == "bellman":
        fitted = ImageModel(settings.images, seed)
        fitted.fit_latents(vae, train.images, train.labels, NAMES)
        drawn = fitted.sample(settings.n_drawn)
        n = settings.n_of_each
        asked = [fitted.sample(n, label=name, random_state=k) for k, name in enumerate(NAMES)]
        # The share of images of a requested digit that the classifier takes for it.
        right = [evaluator.classes(images) == k for k, images in enumerate(asked)]
        asked_for = float(np.mean(right))
    elif model == "ddpm":
        drawn = _by_ddpm(vae, train, seed, settings)
    else:
        shape = (settings.n_drawn, vae.latent_dim)
        drawn = decode(vae, np.asarray(jax.random.normal(jax.random.key(seed), shape)))
    seconds = time.perf_counter() - start
    content = io.BytesIO()
    np.save(content, drawn[:1000])
    write_atomically(work.cells / f"{model}-{seed}.npy", content.getvalue())
    figures = msgspec.to_builtins(evaluator(drawn, train.labels))
    return ModelFigures(**figures, asked_for=asked_for, seconds=seconds)


def _by_ddpm(
    vae: VAE, train: Digits, seed: int, settings: MnistSettings
) -> UInt8[np.ndarray, "m channels size size"]:
    """As ours, it learns the codes together with the digits, here as columns of zeros and ones."""
    latents = draw_latents(vae, train.images, seed)
    digits = np.eye(len(NAMES), dtype=latents.dtype)[train.labels]
    rows = np.concatenate([latents, digits], axis=1)
    n_held_out = len(rows) // 10
    ddpm = DDPM(DdpmSettings(**_DDPM, max_iter=settings.images.latent_steps), seed)
    ddpm.fit(rows[n_held_out:], validation=rows[:n_held_out])
    drawn = ddpm.sample(settings.n_drawn, seed)[:, : latents.shape[1]]
    return decode(vae, drawn.astype(np.float32))


def _training(settings: MnistSettings) -> Digits:
    digits = read_mnist("train")
    return digits._replace(
        images=digits.images[: settings.n_train], labels=digits.labels[: settings.n_train]
    )


def _draw(work: Workplace, seed: int) -> None:
    """The grids of the first seed, and the training images nearest to ours."""
    drawn = {m: np.load(work.cells / f"{m}-{seed}.npy") for m in MODELS}
    for model, images in drawn.items():
        path = work.figures / f"mnist-{model}.png"
        draw_grid(path, images[: _SIDE**2], _SIDE, _TITLES[model])
    some = drawn["bellman"][:_PAIRS]
    pairs = np.concatenate([some, nearest_images(some, read_mnist("train").images)])
    title = "ours, and the nearest training images"
    draw_grid(work.figures / "mnist-nearest.png", pairs, _PAIRS, title)


def sections(summary: MnistSummary, figures: Path) -> list[Section]:
    """One row for each model, real images last; the grids."""
    nearest = min(summary.ddpm.frechet, summary.prior.frechet)
    below = "below" if summary.bellman.frechet < nearest else "not below"
    text = f"""\
Means over {counted(len(summary.seeds), "seed")}. A convolutional autoencoder codes 50,000 training digits by 16
numbers; our model and a DDPM learn the distribution of the same codes, each together with the digit. A classifier,
trained on the same digits, compares 10,000 images of each with the 10,000 test digits: Fréchet distance of its features,
share of images that it is at least 90 % sure of, largest error of a digit's share. The floor is that of the other 10,000
training digits, which neither has seen. The weight of the autoencoder's divergence was tuned with our model, the DDPM's
settings for it, both on another autoencoder and seed. *Requested digits* is the share of images drawn for a digit
(`--label`) that the classifier takes for it.

The classifier (accuracy {summary.accuracy:.3f} on test digits) is confident of {summary.bellman.confident:.0%} of our
images; their Fréchet distance is {below} both others'. The autoencoder's divergence has half its weight: better for models
of the codes, worse for its prior."""
    captions = {
        "bellman": "Our model: the first 225 images drawn, none chosen.",
        "ddpm": "DDPM on the same codes.",
        "prior": "The autoencoder's prior.",
        "nearest": "Our images above the training images nearest to them.",
    }
    pictures = [Picture(figures / f"mnist-{name}.png", said) for name, said in captions.items()]
    header = ("images", "Fréchet distance", f"confidence ≥ {CONFIDENT}",
              "largest error of a digit's share", "requested digits")  # fmt: skip
    forms = {"frechet": ".2f", "confident": ".1%", "histogram_error": ".3f"}
    rows = [
        (_TITLES[name], *(shown(row, *form) for form in (*forms.items(), ("asked_for", ".1%"))))
        for name, row in summary.models().items()
    ]
    floor = [f"{getattr(summary.floor, name):{form}}" for name, form in forms.items()]
    table = Table(header, [*rows, ("real (floor)", *floor, "")], n_names=1)
    return [Section("Digits", text, table, pictures)]


@claim("Appendix F.1, figure", "Most latent MNIST images are of high quality", "by eye")
def _high_quality(summary: MnistSummary) -> Finding:
    ours, others = summary.bellman, (summary.ddpm.frechet, summary.prior.frechet)
    good = ours.confident >= 0.85 and ours.histogram_error <= 0.03
    return Finding(
        f"{ours.confident:.0%} recognised, Fréchet {shown(ours, 'frechet', '.2f')}",
        reproduced(good and ours.frechet < min(others)),
        f"A classifier (accuracy {summary.accuracy:.3f}) is sure of {ours.confident:.0%} of our "
        f"images, whose digits' shares are off by {ours.histogram_error:.3f} at most; Fréchet "
        f"distance {ours.frechet:.2f}, DDPM {others[0]:.2f}, prior {others[1]:.2f}, real "
        f"{summary.floor.frechet:.2f}. Ours is the default, not the recipe as written.",
    )


EXPERIMENT = Experiment(
    name="mnist",
    title="Digits (Appendix F.1)",
    about="Digits by latent generation (Appendix F.1), next to DDPM and the autoencoder's prior.",
    options=MnistOptions,
    summary=MnistSummary,
    run=run,
    sections=sections,
    order=90,
    page="mnist",
    claims=(_high_quality,),
    published={"seed": 900, "seeds": 3},
    quick={"seeds": 1, "vae_steps": 1000, "latent_steps": 1000, "classifier_steps": 800},
    thinned="one seed of three, a sixth to a quarter of the training steps",
)
