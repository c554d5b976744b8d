"""Appendix F.1: digits by latent generation, evaluated by a classifier.

One autoencoder and one classifier; then, for each seed, our model and a DDPM on the same latents, and
draws from the autoencoder's own prior. Each part is kept as it is finished.
"""

import io
import time
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path

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
from bellman_diffusion.paper.claims import Claim, Finding
from bellman_diffusion.paper.experiment import Experiment, SeededOptions, Summary, Workplace, option
from bellman_diffusion.paper.workers import run_parallel
from bellman_diffusion.render.image_grid import draw_grid
from bellman_diffusion.render.image_page import nearest_images
from bellman_diffusion.render.page import Picture, Section, Table, counted, with_error
from bellman_diffusion.training import Progress
from bellman_diffusion.training.files import write_atomically

MODELS = ("bellman", "ddpm", "prior")
NAMES = [str(digit) for digit in range(10)]
# The best of those tried on another autoencoder and seed; it trains for as many steps as ours.
_DDPM = DdpmSettings(layers=(512, 512, 512), n_times=1000, transform="quantile")


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

    def settings(self) -> "MnistSettings":
        """With these steps."""
        images = ImageSettings(vae_steps=self.vae_steps, latent_steps=self.latent_steps)
        return MnistSettings(images, self.classifier_steps)


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


@dataclass(frozen=True)
class Parts:
    """What all seeds share."""

    vae: VAE
    classifier: Classifier


def run(
    options: MnistOptions, work: Workplace, settings: MnistSettings | None = None
) -> MnistSummary:
    """Run what is missing."""
    settings, seeds = settings or options.settings(), list(options.all_seeds)
    start = time.perf_counter()
    parts = train_parts(work.cells, settings, work.bar("autoencoder"), work.bar("classifier"))
    tasks = {
        model: [partial(run_model, work.cells, model, seed, settings) for seed in seeds]
        for model in MODELS
    }
    flat = [task for found in tasks.values() for task in found]
    run_parallel(flat, n_workers=work.n_workers, progress=work.bar("models", ()))
    test, train = read_mnist("test"), _training(settings)
    evaluator = ImageEvaluator(parts.classifier, test.images, test.labels)
    # Neither the classifier nor any model has learned from these.
    unseen = read_mnist("train").images[settings.n_train :][: settings.n_drawn]
    summary = MnistSummary(
        seeds=seeds,
        accuracy=evaluator.accuracy,
        floor=evaluator(unseen, train.labels),
        **{model: _mean([task() for task in found]) for model, found in tasks.items()},
        seconds=time.perf_counter() - start,
    )
    _draw(work, seeds[0])
    return summary


def _mean(cells: list[ModelFigures]) -> ModelRow:
    names = [n for n in ModelFigures.__struct_fields__ if getattr(cells[0], n) is not None]
    means = {name: float(np.mean([getattr(cell, name) for cell in cells])) for name in names}
    return ModelRow(**means, per_seed=cells)


def train_parts(cells: Path, settings: MnistSettings, *progress: Progress) -> Parts:
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
        run=training_run(cells / "vae", config),
        progress=progress[0] if progress else None,
    )
    config = {"images": config["images"], "seed": settings.seed, "steps": settings.classifier_steps}
    classifier = fit_classifier(
        train.images,
        train.labels,
        n_steps=settings.classifier_steps,
        seed=settings.seed,
        run=training_run(cells / "classifier", config),
        progress=progress[1] if len(progress) > 1 else None,
    )
    return Parts(vae, classifier)


def run_model(cells: Path, model: str, seed: int, settings: MnistSettings) -> ModelFigures:
    """The figures of one model and seed."""
    path = cells / f"{model}-{seed}.json"
    run_now = partial(_run, cells, model, seed, settings)
    return load_or_run(path, asdict(settings), ModelFigures, run_now)


def _run(cells: Path, model: str, seed: int, settings: MnistSettings) -> ModelFigures:
    start = time.perf_counter()
    parts, train, test = train_parts(cells, settings), _training(settings), read_mnist("test")
    evaluator = ImageEvaluator(parts.classifier, test.images, test.labels)
    asked_for = None
    if model == "bellman":
        fitted = ImageModel(settings.images, seed)
        fitted.fit_latents(parts.vae, train.images, train.labels, NAMES)
        drawn = fitted.sample(settings.n_drawn)
        asked_for = _agreement(fitted, evaluator, settings.n_of_each)
    elif model == "ddpm":
        drawn = _by_ddpm(parts.vae, train, seed, settings)
    else:
        shape = (settings.n_drawn, parts.vae.latent_dim)
        drawn = decode(parts.vae, np.asarray(jax.random.normal(jax.random.key(seed), shape)))
    seconds = time.perf_counter() - start
    _keep(cells / f"{model}-{seed}.npy", drawn[:1000])
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
    ddpm = DDPM(replace(settings.ddpm, max_iter=settings.images.latent_steps), seed)
    ddpm.fit(rows[n_held_out:], validation=rows[:n_held_out])
    drawn = ddpm.sample(settings.n_drawn, seed)[:, : latents.shape[1]]
    return decode(vae, drawn.astype(np.float32))


def _agreement(fitted: ImageModel, evaluator: ImageEvaluator, n: int) -> float:
    """The share of images of a requested digit that the classifier takes for it."""
    shares = [
        np.mean(evaluator.classes(fitted.sample(n, label=name, random_state=k)) == k)
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
    return [Section("Digits", text, _table(summary), pictures)]


def _table(summary: MnistSummary) -> Table:
    header = ("images", "Fréchet distance", f"confidence ≥ {CONFIDENT}",
              "largest error of a digit's share", "requested digits")  # fmt: skip
    rows = [_row(_TITLES[name], row, row.per_seed) for name, row in summary.models().items()]
    return Table(header, [*rows, _row("real (floor)", summary.floor, [])], n_names=1)


def _row(name: str, row: ImageFigures, cells: list[ModelFigures]) -> tuple[str, ...]:
    def shown(key: str, form: str) -> str:
        value = getattr(row, key, None)
        return "" if value is None else with_error(value, [getattr(c, key) for c in cells], form)

    forms = {"frechet": ".2f", "confident": ".1%", "histogram_error": ".3f", "asked_for": ".1%"}
    return name, *(shown(key, form) for key, form in forms.items())


def _high_quality(summary: MnistSummary) -> Finding:
    ours, others = summary.bellman, (summary.ddpm.frechet, summary.prior.frechet)
    good = ours.confident >= 0.85 and ours.histogram_error <= 0.03
    good = good and ours.frechet < min(others)
    frechet = with_error(ours.frechet, [cell.frechet for cell in ours.per_seed], ".2f")
    return Finding(
        f"{ours.confident:.0%} recognised, Fréchet {frechet}",
        "reproduced" if good else "not reproduced",
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
    claims=(
        Claim(
            "Appendix F.1, figure",
            "Most latent MNIST images are of high quality",
            "by eye",
            _high_quality,
        ),
    ),
    published={"seed": 900, "seeds": 3},
    quick={"seeds": 1, "vae_steps": 1000, "latent_steps": 1000, "classifier_steps": 800},
    thinned="one seed of three, a sixth to a quarter of the training steps",
)
