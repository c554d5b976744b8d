"""Section 5.1: the three synthetic figures, next to score-based models."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from bellman_diffusion.data.toy import TOY_SETS, ToySet
from bellman_diffusion.paper.claims import ACCURATE, Claim, Finding, claim, known, reproduced
from bellman_diffusion.paper.experiment import Experiment, SeededOptions, Summary, Workplace, option
from bellman_diffusion.paper.seeds import means, shown
from bellman_diffusion.paper.toy_cells import Cell, ToyFigures, ToySettings, load_cell
from bellman_diffusion.render.fields import draw_field_row
from bellman_diffusion.render.page import Picture, Section, Table, bullets, counted, with_error

MODELS = ("default", "paper", "score", "score-flow")
# W1 over the floor up to which samples are said to match their data.
_MATCHES = 1.5
# Weights that are off by more are missed.
_WEIGHT_ERROR = 0.05
_MEANT = {
    "default": "`default` is our preset; p̂ is its density and ∇p̂ that times its score at twice the "
    "least noise, where it is smoother.",
    "paper": "`paper` is the paper's recipe as written; p̂ and ∇p̂ are its s and g, scaled to mass 1.",
    "score": "`score` is a score model at one noise level.",
    "score-flow": "`score-flow` is a score model at many noise levels.",
}


@dataclass(frozen=True)
class ToyOptions(SeededOptions):
    """Models and training steps."""

    models: str = option(",".join(MODELS), "Which models, separated by commas; the first leads.")
    max_iter: int | None = option(None, "Training steps; by default each model's own.", min=1)


class ToyRow(ToyFigures, kw_only=True, omit_defaults=True):
    """The mean over seeds."""

    per_seed: list[ToyFigures]


class SetRow(ToyRow, kw_only=True, omit_defaults=True, rename={"score_flow": "score-flow"}):
    """A set: the leading model's figures, and the others' under their names."""

    model: str
    default: ToyRow | None = None
    paper: ToyRow | None = None
    score: ToyRow | None = None
    score_flow: ToyRow | None = None

    def models(self) -> dict[str, ToyRow]:
        """Every model, the leading one first."""
        others = {name: getattr(self, name.replace("-", "_")) for name in MODELS}
        found: dict[str, ToyRow] = {self.model: self}
        return found | {name: row for name, row in others.items() if row is not None}


class WeightErrors(msgspec.Struct, kw_only=True):
    """By how much score models miss the mixture's weights."""

    one_level: float
    many_levels: float


class ToySummary(Summary):
    """Every set."""

    seeds: list[int]
    uniform: SetRow
    mixture: SetRow
    moons: SetRow
    weight_errors: WeightErrors | None

    def of(self, toy: ToySet) -> SetRow:
        """The figures of a set."""
        return getattr(self, toy.name)

    def papers(self) -> dict[str, ToyRow]:
        """The paper's recipe on each set, by the set's title."""
        return {toy.title: known(self.of(toy).paper, "the paper's recipe") for toy in TOY_SETS}


def run(options: ToyOptions, work: Workplace, settings: ToySettings | None = None) -> ToySummary:
    """Run all cells and put their figures together, by set."""
    settings = settings or ToySettings(max_iter=options.max_iter)
    models, seeds = options.chosen("models", MODELS), options.all_seeds
    cells = [Cell(toy, model, seed) for toy in TOY_SETS for model in models for seed in seeds]
    tasks = {cell: partial(load_cell, cell, settings, work.cells) for cell in cells}
    found = work.run_parallel("models on sets", tasks)
    sets: dict[str, SetRow] = {}
    for toy in TOY_SETS:
        per_seed = {m: [found[Cell(toy, m, seed)] for seed in seeds] for m in models}
        rows = {m: ToyRow(**means(cells, seed=None)) for m, cells in per_seed.items()}
        leading = msgspec.structs.asdict(rows.pop(models[0]))
        others: Any = {name.replace("-", "_"): row for name, row in rows.items()}
        sets[toy.name] = SetRow(model=models[0], **leading, **others)
    summary = ToySummary(
        seeds=list(seeds), weight_errors=_weight_errors(sets["mixture"].models()), **sets
    )
    for toy in TOY_SETS:
        _draw_set(work, toy, models, summary)
    return summary


def _weight_errors(models: dict[str, ToyRow]) -> WeightErrors | None:
    if not {"score", "score-flow"} <= models.keys():
        return None
    one, many = (known(models[name].weight_error, "weights") for name in ("score", "score-flow"))
    return WeightErrors(one_level=one, many_levels=many)


def _draw_set(work: Workplace, toy: ToySet, models: Sequence[str], summary: ToySummary) -> None:
    """The panels of the first seed, one picture for each model that has fields."""
    panels = {}
    for model in models:
        with np.load(Cell(toy, model, summary.seeds[0]).file(work.cells, ".npz")) as file:
            panels[model] = dict(file)
    with_fields = [model for model in models if "s" in panels[model]]
    others = {model: panels[model] for model in models if model not in with_fields}
    for i, model in enumerate(with_fields):
        path = work.figures / f"{toy.name}-{model}.png"
        lost = summary.of(toy).models()[model].per_seed[0].lost
        title = f"{toy.title}, {model} preset"
        draw_field_row(path, title, panels[model], others if i == 0 else {}, lost)


def sections(summary: ToySummary, figures: Path) -> list[Section]:
    """The table, then the pictures of each set."""
    captions = {
        "default": "our default. Data; scalar field and density; gradient field; samples, next to "
        "those of score models where these were run.",
        "paper": "the paper's recipe as written. Data, scalar field, gradient field, samples.",
    }
    found = [Section("Synthetic sets", _text(summary), toy_table(summary))]
    for toy in TOY_SETS:
        title = toy.title.capitalize()
        pictures = [
            Picture(figures / f"{toy.name}-{model}.png", f"{title}: {captions[model]}")
            for model in summary.of(toy).models()
            if model in captions
        ]
        found.append(Section(title, pictures=pictures))
    return found


def _text(summary: ToySummary) -> str:
    """What the columns and models are, and what the paper's recipe and score models do."""
    settings, models = ToySettings(), summary.mixture.models()
    points = [
        f"{settings.n_train:,} training points; W1 is exact, between {settings.n_compare:,} samples "
        "and as many fresh points, the floor between fresh points and fresh points; it is not defined "
        "where a path is not finite.",
        "Errors of p and ∇p are ∫|p̂ − p| and ∫|∇p̂ − ∇p|/∫|∇p|, on a grid.",
        "Lost paths of the sampler were not finite or left the data's box.",
        *(_MEANT[name] for name in models),
    ]
    text = (
        f"Means over {counted(len(summary.seeds), 'seed')}; ± is the standard error. The paper gives "
        f"no figures for these sets, only pictures.\n\n{bullets(points)}"
    )
    if summary.weight_errors is not None:
        errors = summary.weight_errors
        text += (
            "\n\nThe paper says that score-based models cannot find the weights of modes: the largest "
            f"error of a weight is {errors.one_level:.2f} at one noise level, where the weights come "
            f"from the paths' starts, and {errors.many_levels:.3f} with many."
        )
    paper = summary.uniform.models().get("paper")
    if paper is not None and paper.lost > 0.01:
        by_seed = ", ".join(f"{cell.lost:.0%}" for cell in paper.per_seed)
        text += (
            f"\n\nOn the disjoint uniform {by_seed} of the paths of the paper's recipe are lost, by "
            "seed: its loss does not bound g off the data's support. The pictures show the first seed."
        )
    return text


def toy_table(summary: ToySummary) -> Table:
    """One row for each set and model."""
    header = ("set", "model", "W1", "floor", "W1 / floor", "error of p", "error of ∇p",
              "mode weights", "in gaps", "lost", "seconds")  # fmt: skip
    rows = [
        (
            toy.title,
            model,
            shown(row, "w1", ".3f") or "not finite",
            f"{row.w1_floor:.4g}",
            "" if row.w1 is None else f"{row.w1 / row.w1_floor:.3g}",
            shown(row, "scalar_error", ".3f"),
            shown(row, "gradient_error", ".3f"),
            " ".join(f"{w:.3f}" for w in row.weights or []),
            "" if row.gap_share is None else f"{row.gap_share:.3f}",
            f"{row.lost:.3f}",
            f"{row.seconds:.1f}",
        )
        for toy in TOY_SETS
        for model, row in summary.of(toy).models().items()
    ]
    return Table(header, rows)


def _learns(toy: str, text: str, paper_says: str) -> Claim[ToySummary]:
    """That a set is learned: reproduced if the paper's recipe comes near it."""

    @claim("Section 5.1, figure", text, paper_says)
    def find(summary: ToySummary) -> Finding:
        row: SetRow = getattr(summary, toy)
        ratio = known(row.w1, f"W1 on the {toy} set") / row.w1_floor
        paper = known(row.paper, "the paper's recipe")
        as_written = (
            f"{paper.lost:.0%} of its paths are lost"
            if paper.w1 is None or paper.lost > 0.05
            else f"it ends at {paper.w1 / paper.w1_floor:.1f} × the floor"
        )
        extra = ""
        if row.weights is not None:
            weights = ", ".join(f"{w:.3f}" for w in row.weights)
            extra = (
                f" Our weights are {weights}, their largest error (mean over seeds) is "
                f"{row.weight_error:.3f}; the recipe's is {paper.weight_error:.3f}."
            )
        ratios = [cell.w1 / cell.w1_floor for cell in row.per_seed if cell.w1 is not None]
        return Finding(
            f"W1 {with_error(ratio, ratios, '.2f')} × floor",
            reproduced(_matches(row) or _matches(paper), _matches(paper)),
            f"Our default is within {ratio:.2f} × of what fresh data gives; the recipe as written: "
            f"{as_written}.{extra}",
        )

    return find


def _matches(row: ToyRow) -> bool:
    """Near the data by W1, and with the modes' weights where there are some."""
    near = row.w1 is not None and row.w1 < _MATCHES * row.w1_floor
    return near and (row.weight_error or 0.0) < _WEIGHT_ERROR


@claim("Abstract, Section 5.1", "Estimates the density and its gradient accurately", "by eye")
def _fields_are_accurate(summary: ToySummary) -> Finding:
    """Accurate if the largest error of a field over the sets is small."""
    ours = _worst_errors([summary.of(toy) for toy in TOY_SETS])
    paper = _worst_errors(list(summary.papers().values()))
    return Finding(
        f"p off by {ours[0]:.0%} at most, ∇p by {ours[1]:.0%}",
        reproduced(max(ours) < ACCURATE, max(paper) < ACCURATE),
        "∫|p̂ − p| and ∫|∇p̂ − ∇p|/∫|∇p| on the worst set, of our density and score; s and g of the "
        f"recipe as written, scaled to mass 1, are off by {paper[0]:.0%} and {paper[1]:.0%}.",
    )


def _worst_errors(rows: Sequence[ToyRow]) -> tuple[float, float]:
    """The worst errors of p and of ∇p, where it has one."""
    slopes = [row.gradient_error for row in rows if row.gradient_error is not None]
    return max(known(row.scalar_error, "the fields") for row in rows), max(slopes)


@claim("Section 3.3", "Langevin dynamics on g/s is unstable, dx = g dt + √s dw is not", "argued")
def _langevin_is_unstable(summary: ToySummary) -> Finding:
    """Reproduced if the paper's dynamics comes nearer, or loses fewer paths, on every set."""
    rows = summary.papers()
    worse = [name for name, row in rows.items() if _beats_langevin(row)]
    said = [f"{name} {row.langevin_lost:.1%} against {row.lost:.1%}" for name, row in rows.items()]
    return Finding(
        f"paths lost: {'; '.join(said)}",
        reproduced(len(worse) == len(rows)),
        "Langevin dynamics on g/s, with s kept above 0.001, against dx = g dt + √s dw on the fields of "
        f"the recipe as written: worse on {len(worse)} of {len(rows)} sets (by W1, or by paths lost "
        "where some are not finite).",
    )


def _beats_langevin(row: ToyRow) -> bool:
    """Whether the paper's dynamics did better than Langevin's on the same fields."""
    if row.w1 is None or row.langevin_w1 is None:
        return row.lost < known(row.langevin_lost, "Langevin dynamics")
    return row.w1 < row.langevin_w1


@claim("Introduction, Section 5.1", "Score-based models miss such weights", "argued")
def _score_misses_weights(summary: ToySummary) -> Finding:
    errors, error = known(summary.weight_errors, "the score models"), summary.mixture.weight_error
    found = errors.many_levels < _WEIGHT_ERROR
    return Finding(
        f"weights off by {errors.one_level:.2f} (one noise level), {errors.many_levels:.3f} (many)",
        "claim wrong" if found else "reproduced",
        "Largest errors, means over seeds. True of a score model at one noise level with Langevin "
        "dynamics; one that learns many levels, as score-based models do, finds the weights as ours "
        f"does ({error:.3f})."
        if found
        else f"A score model misses them with many noise levels too; ours is off by {error:.3f}.",
    )


EXPERIMENT = Experiment(
    name="toy",
    title="Synthetic sets (Section 5.1)",
    about="The synthetic figures (Section 5.1): disjoint uniform, unbalanced mixture, two moons.",
    options=ToyOptions,
    summary=ToySummary,
    run=run,
    sections=sections,
    order=40,
    page="toy",
    claims=(
        _fields_are_accurate,
        _langevin_is_unstable,
        _learns(
            "uniform", "Learns a uniform distribution on disjoint intervals", "nearly matching"
        ),
        _learns("mixture", "Learns a mixture with unbalanced weights", "recovers 0.45, 0.45, 0.1"),
        _score_misses_weights,
        _learns("moons", "Learns two moons", "accurately"),
    ),
    published={"seed": 300, "seeds": 3},
    quick={"seeds": 1, "max_iter": 2000},
    thinned="one seed of three, 2,000 training steps",
)
