"""The report of the synthetic figures: a table and, for each set and model, its panels."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bellman_diffusion.data.toy import TOY_SETS, ToySet
from bellman_diffusion.report.captions import caption
from bellman_diffusion.report.page import Section, Table, bullets, counted, with_error, write_page
from bellman_diffusion.report.toy_figures import Panels, draw_toy_row

_HEADER = (
    "set",
    "model",
    "W1",
    "floor",
    "W1 / floor",
    "error of p",
    "error of ∇p",
    "mode weights",
    "in gaps",
    "lost",
    "seconds",
)

_MEANT = {
    "default": "`default` is our preset; p̂ is its density and ∇p̂ that times its score at twice the "
    "least noise, where it is steadier.",
    "paper": "`paper` is the paper's recipe as written; p̂ and ∇p̂ are its s and g, of mass 1.",
    "score": "`score` is a score model at one noise level.",
    "score-flow": "`score-flow` is a score model at many.",
}


def toy_table(summary: dict[str, Any]) -> Table:
    """One row for each set and model."""
    rows = []
    for toy in TOY_SETS:
        figures = summary[toy.name]
        for model in model_names(summary):
            rows.append(_row(toy, model, figures if model == figures["model"] else figures[model]))
    return Table(_HEADER, rows)


def write_toy_report(out: Path, summary: dict[str, Any], command: str) -> Path:
    """Draw the figures of the first seed and write `report.html`."""
    sections = toy_sections(out, summary)
    return write_page(out / "report.html", "Synthetic sets (Section 5.1)", command, sections)


def toy_sections(out: Path, summary: dict[str, Any]) -> list[Section]:
    """The parts of the report."""
    return [
        Section("Synthetic sets", toy_introduction(summary), toy_table(summary)),
        *(_set_section(out, toy, summary) for toy in TOY_SETS),
    ]


def toy_introduction(summary: dict[str, Any]) -> str:
    """What the columns are, what the models are, and what score models do."""
    points = [
        "W1 is between samples and fresh data, the floor between fresh data and fresh data of the same "
        "size; it is not defined where a path is not finite.",
        "Errors of p and ∇p are ∫|p̂ − p| and ∫|∇p̂ − ∇p|/∫|∇p|, on a grid.",
        "Lost are paths of the sampler that were not finite or left the data's box.",
        *(_MEANT[name] for name in model_names(summary)),
    ]
    text = f"Means over {counted(len(summary['seeds']), 'seed')}; ± is the standard error."
    text = f"{text}\n\n{bullets(points)}"
    errors = summary["weight_errors"]
    if errors is not None:
        text += (
            "\n\nThe paper says that score-based models cannot find modes' weights: the largest error "
            f"of a weight is {errors['one_level']:.2f} at one noise level, where the weights come from "
            f"the paths' starts, and {errors['many_levels']:.3f} with many."
        )
    return text


def _set_section(out: Path, toy: ToySet, summary: dict[str, Any]) -> Section:
    panels = {model: _panels(out, toy, model, summary) for model in model_names(summary)}
    with_fields = [model for model in panels if "s" in panels[model]]
    others = {model: panels[model] for model in panels if model not in with_fields}
    pictures = []
    for i, model in enumerate(with_fields):
        path = out / "figures" / f"{toy.name}-{model}.png"
        lost = _lost(summary[toy.name], model)
        title = f"{toy.title}, {model} preset"
        draw_toy_row(path, title, panels[model], others if i == 0 else {}, lost)
        pictures.append(caption(path))
    return Section(toy.title.capitalize(), pictures=pictures)


def _lost(figures: dict[str, Any], model: str) -> float:
    """Of the seed that is shown."""
    own = figures if model == figures["model"] else figures[model]
    return own["per_seed"][0]["lost"]


def model_names(summary: dict[str, Any]) -> Sequence[str]:
    """The models of a summary, the leading one first."""
    figures = summary[TOY_SETS[0].name]
    others = [key for key, value in figures.items() if isinstance(value, dict)]
    return [figures["model"], *others]


def _panels(out: Path, toy: ToySet, model: str, summary: dict[str, Any]) -> Panels:
    name = f"{toy.name}-{model}-{summary['seeds'][0]}.npz"
    with np.load(out / "cells" / name) as file:
        return dict(file)


def _row(toy: ToySet, model: str, figures: dict[str, Any]) -> tuple[str, ...]:
    weights = figures.get("weights")
    gap, w1, floor = figures.get("gap_share"), figures["w1"], figures["w1_floor"]
    return (
        toy.title,
        model,
        "not finite"
        if w1 is None
        else with_error(w1, [c["w1"] for c in figures["per_seed"]], ".3f"),
        f"{floor:.4g}",
        "" if w1 is None else f"{w1 / floor:.3g}",
        *(_error(figures, name) for name in ("scalar_error", "gradient_error")),
        " ".join(f"{w:.3f}" for w in weights) if weights else "",
        f"{gap:.3f}" if gap is not None else "",
        f"{figures['lost']:.3f}",
        f"{figures['seconds']:.1f}",
    )


def _error(figures: dict[str, Any], name: str) -> str:
    if figures.get(name) is None:
        return ""
    return with_error(figures[name], [c[name] for c in figures["per_seed"]], ".3f")
