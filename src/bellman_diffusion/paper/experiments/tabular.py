"""Section 5.2, Table 1: five UCI tables, our model and seven others, each at its best.

For each seed a fifth of the rows is held out for the figures; of the others an eighth is for early
stopping. Every model learns coordinates of the same rows and is decoded alike. How heavy-tailed columns
are transformed is chosen on validation rows: for ours as `bellman fit` does it, for the others by short
trainings on a separate split. Each cell (table, model, seed) is written at once: a run that was stopped
continues with the cells that are missing.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from bellman_diffusion.metrics.aggregate import paired_difference
from bellman_diffusion.paper.claims import Claim, Finding, claim, known, reproduced, require
from bellman_diffusion.paper.experiment import Experiment, SeededOptions, Summary, Workplace, option
from bellman_diffusion.paper.table_evaluation import OURS, TableRow, TabularSettings, run_model
from bellman_diffusion.paper.table_models import MODELS
from bellman_diffusion.paper.uci_cases import CASES
from bellman_diffusion.render.figure import new_figure, save_figure
from bellman_diffusion.render.page import Picture, Section, Table, counted, shown_range

# Splits by subject and whole tables, which the paper does not have, are made with these.
MAIN_MODELS = (OURS, "ddpm")
_TITLES = {
    "bellman": "ours (default)",
    "ddpm": "DDPM",
    "score": "score, probability flow",
    "stabilised": "paper preset, stabilised",
    "paper": "paper preset, as written",
    "kernel": "kernel density",
    "mixture": "Gaussian mixture",
    "interpolation": "interpolation (SMOTE)",
}
# A share of rows nearer to the training rows up to which a model does not copy; few rows allow more.
_MOST_COPIED = 0.55
_MOST_COPIED_FEW = {"parkinsons": 0.60, "parkinsons-whole": 0.60}
# W1 over the floor up to which rows are said to match the data.
_MATCHES = 1.5
# Tables of five on which the paper's model is nearer than its DDPM, by either metric.
_PAPER_WINS = 3
# A difference that matters, as a share of the distance.
_MATTERS = 0.02


@dataclass(frozen=True)
class TabularOptions(SeededOptions):
    """Tables, models and training steps."""

    seeds: int = option(5, "How many seeds, from --seed on.", min=1)
    tables: str = option(",".join(CASES), "Which tables, separated by commas.")
    models: str = option(",".join(MODELS), "Which models, separated by commas.")
    max_iter: int | None = option(None, "Training steps; by default each model's own.", min=1)


class TabularSummary(Summary):
    """Rows by table and model."""

    flat: ClassVar[str | None] = "tables"
    seeds: list[int]
    tables: dict[str, dict[str, TableRow]]

    def cases(self) -> dict[str, dict[str, TableRow]]:
        """The tables in the paper's order."""
        return {name: self.tables[name] for name in CASES if name in self.tables}

    def in_paper(self) -> dict[str, dict[str, TableRow]]:
        """The rows of the paper's table."""
        return {name: rows for name, rows in self.cases().items() if CASES[name].in_paper}


def run(
    options: TabularOptions, work: Workplace, settings: TabularSettings | None = None
) -> TabularSummary:
    """Run what is missing, one process a core."""
    settings = settings or TabularSettings(max_iter=options.max_iter)
    seeds, tables = list(options.all_seeds), options.chosen("tables", CASES)
    tasks = {
        (name, model): partial(run_model, work.cells, name, model, seeds, settings)
        for model in options.chosen("models", MODELS)
        for name in tables
        if model in MAIN_MODELS or CASES[name].in_paper
    }
    found: dict[str, dict[str, TableRow]] = {name: {} for name in tables}
    for (name, model), cells in work.run_parallel("models on tables", tasks).items():
        found[name][model] = TableRow.of(cells)
    summary = TabularSummary(seeds=seeds, tables=found)
    _draw(work.figures / "tabular.png", summary)
    return summary


def is_even(name: str, row: TableRow) -> bool:
    """Whether a model's rows are as near to the rows learned from as to others."""
    most = _MOST_COPIED_FEW.get(name, _MOST_COPIED)
    return row.dcr_share is not None and 1 - most <= row.dcr_share <= most


def copies(name: str, row: TableRow) -> bool:
    """Whether a model's rows are nearer to the rows learned from than they should be.

    Where the held-out rows are other people's, any model's are, and nothing is said.
    """
    most = _MOST_COPIED_FEW.get(name, _MOST_COPIED)
    return not CASES[name].by_subject and row.dcr_share is not None and row.dcr_share > most


def _draw(path: Path, summary: TabularSummary) -> None:
    """W1 over the floor of every model, a line for each table."""
    tables = summary.cases()
    figure = new_figure(11, 0.9 + 1.0 * len(tables))
    axes = figure.subplots()
    models = [m for m in MODELS if any(m in rows for rows in tables.values())]
    for k, model in enumerate(models):
        for i, (name, rows) in enumerate(tables.items()):
            row = rows.get(model)
            if row is None or row.w1_over_floor is None:
                continue
            fill = "none" if copies(name, row) else f"C{k}"
            y = i + 0.08 * (k - len(models) / 2)
            axes.plot(row.w1_over_floor, y, "o", color=f"C{k}", mfc=fill)
        # A model may have no rows on a table, or hollow ones.
        axes.plot([], [], "o", color=f"C{k}", label=_TITLES[model])
    axes.axvline(1.0, color="k", lw=0.8)
    axes.axvline(1.08, color="k", lw=0.8, ls=":")
    axes.set_yticks(np.arange(len(tables)), [CASES[name].title for name in tables])
    axes.set(ylim=(len(tables) - 0.4, -0.6), xscale="log")
    axes.xaxis.set_major_formatter("{x:g}")
    marked = (0.9, 1.0, 1.5, 2.0, 3.0, 5.0, 20.0)
    axes.xaxis.set_minor_formatter(lambda x, _=None: f"{x:g}" if round(x, 6) in marked else "")
    axes.set_xlabel("W1 / floor (dotted: 1.08); hollow: nearer to rows learned from than to others")
    figure.legend(loc="outside right upper", frameon=False, fontsize=8)
    save_figure(figure, path)


def sections(summary: TabularSummary, figures: Path) -> list[Section]:
    """One table of all models, and the picture."""
    text = f"""\
{counted(len(summary.seeds), "held-out seed")}: no setting was tuned on them. A fifth of the rows is held out for the
figures; of the others an eighth is for early stopping. W1 is exact, on columns in standard deviations, between held-out
rows and as many synthetic ones; the floor is between held-out rows and as many training rows. *Nearer to training rows*
is the share of synthetic rows that are nearer to a training row than to a held-out one, out of as many of each; 0.5 is
ideal. Equal rows of measurements are kept on one side of the split, and counted once for copying. Split by subject, the
held-out rows are those of other people: there any model of the training people is nearer to these, and the share says
nothing about copying.

The paper says neither which columns it took nor how they were scaled, so its distances are not in our units: only its
order of the models can be compared. Our columns are listed in `bellman_diffusion.data.uci`, with the rule behind them.
*Stabilised* adds fresh noise of 0.3 standard deviations to the points of the paper's losses, and nothing else; *as
written* is one seed.

{_verdict(summary)}"""
    caption = "W1 over its floor; hollow: the model's rows are nearer to rows it learned from."
    return [Section("Table 1", text, _table(summary), [Picture(figures / "tabular.png", caption)])]


def _table(summary: TabularSummary) -> Table:
    header = ("table", "model", "W1", "floor", "W1 / floor", "MMD² (10⁻³)", "floor",
              "nearer to training rows", "paper: W, MMD (10⁻³)")  # fmt: skip
    rows = []
    for name, models in summary.cases().items():
        case, paper = CASES[name], CASES[name].table.paper
        own = f"{paper.bellman_w:.3f}, {paper.bellman_mmd:.2f}"
        published = {"stabilised": own, "paper": own}
        published["ddpm"] = f"{paper.ddpm_w:.3f}, {paper.ddpm_mmd:.2f}"
        for model in [model for model in MODELS if model in models]:
            row, figures = models[model], [""] * 5
            if row.w1 is not None:
                share = f"{row.dcr_share:.3f}" + (" (copies)" if copies(name, row) else "")
                floors = (f"{row.w1_floor:.3f}", f"{row.w1_over_floor:.3f}")
                figures = [*floors, row.shown("mmd", ".2f"), f"{row.mmd_floor:.2f}", share]
            theirs = published.get(model, "") if case.in_paper else ""
            rows.append((case.title, _TITLES[model], row.shown("w1", ".3f"), *figures, theirs))
    return Table(header, rows)


def _verdict(summary: TabularSummary) -> str:
    """How many tables we match, win and lead."""
    tables = {name: rows for name, rows in summary.in_paper().items() if OURS in rows}
    ratios = [rows[OURS].w1_over_floor for rows in tables.values()]
    near = sum(ratio is not None and ratio <= 1.08 for ratio in ratios)
    better = sum("ddpm" in rows and _w1(rows[OURS]) < _w1(rows["ddpm"]) for rows in tables.values())
    first = sum(_is_first(name, rows) for name, rows in tables.items())
    fair = sum(is_even(name, rows[OURS]) for name, rows in tables.items())
    return (
        f"Ours is within 1.08 × of the floor on {near} of {len(tables)} tables, nearer than DDPM on "
        f"{better}, and the nearest of all models that do not copy on {first}. Its rows are as near to "
        f"held-out rows as to those learned from on {fair} (a share of 0.45 to 0.55 nearer to the "
        "latter; 0.40 to 0.60 on Parkinsons, which has 195 rows)."
    )


def _is_first(name: str, rows: dict[str, TableRow]) -> bool:
    ours = rows[OURS]
    if ours.w1 is None or copies(name, ours):
        return False
    return all(copies(name, row) or ours.w1 <= _w1(row) for row in rows.values())


def _w1(row: TableRow) -> float:
    """Infinite where there are no rows."""
    return np.inf if row.w1 is None else row.w1


def _competitive(metric: Literal["w1", "mmd"], text: str) -> Claim[TabularSummary]:
    """By one of the two metrics: competitive if no table is lost significantly."""

    @claim("Section 5.2, Table 1", text, "nearer on 3 of 5")
    def find(summary: TabularSummary) -> Finding:
        tables = summary.in_paper()
        names = [n for n in CASES if CASES[n].in_paper]
        require(len(tables) == len(names), ", ".join(n for n in names if n not in tables))
        require(len(summary.seeds) > 1, "several seeds")
        pairs = [(rows[OURS], known(rows.get("ddpm"), "DDPM")) for rows in tables.values()]
        for row in (row for pair in pairs for row in pair):
            known(getattr(row, metric), metric)
        wins = sum(getattr(a, metric) < getattr(b, metric) for a, b in pairs)
        lost = sum(_clearly_less(b, a, metric) for a, b in pairs)
        won = sum(_clearly_less(a, b, metric) for a, b in pairs)
        alone = wins >= _PAPER_WINS and not _recipe_matches(summary)
        return Finding(
            f"nearer on {wins} of {len(names)}, significantly nearer on {won}, significantly farther "
            f"on {lost}",
            reproduced(not lost, recipe_too=won <= _PAPER_WINS and not alone),
            f"Our default against DDPM, each at its best. {_recipe(summary)}",
        )

    return find


def _clearly_less(one: TableRow, other: TableRow, metric: str) -> bool:
    """Significantly and by more than 2 %; both models of a seed have the same split of the rows."""
    pairs = zip(one.per_seed, other.per_seed, strict=True)
    gain = paired_difference([getattr(b, metric) - getattr(a, metric) for a, b in pairs])
    return gain.mean > gain.margin + _MATTERS * abs(getattr(other, metric))


def _ratios(summary: TabularSummary, model: str) -> list[float | None]:
    tables = summary.in_paper().values()
    return [rows[model].w1_over_floor for rows in tables if model in rows]


def _recipe_matches(summary: TabularSummary) -> bool:
    """Whether the recipe as it is written comes near the data on every table."""
    written = _ratios(summary, "paper")
    return bool(written) and all(w is not None and w < _MATCHES for w in written)


def _recipe(summary: TabularSummary) -> str:
    """What became of the paper's own recipe."""
    written, least = (_ratios(summary, name) for name in ("paper", "stabilised"))
    parts, some = [], [w for w in written if w is not None]
    if written:
        none = f"{len(written) - len(some)} of {len(written)}"
        ends = f", and ends at {_floors(some)} elsewhere" if some else ""
        parts.append(f"The recipe as written yields no rows on {none} tables{ends}.")
    if some := [w for w in least if w is not None]:
        parts.append(f"With the least noise that keeps its paths it ends at {_floors(some)}.")
    return " ".join(parts)


def _floors(ratios: list[float]) -> str:
    return f"{shown_range(ratios, '.1f')} × the floor (W1)"


@claim("Section 5.2, text", "Falls short of diffusion on Telemonitoring by just 0.139", "0.139")
def _telemonitoring(summary: TabularSummary) -> Finding:
    """Known without a run: the sentence contradicts the paper's own table."""
    del summary
    paper = CASES["telemonitoring"].table.paper
    ahead = paper.ddpm_w - paper.bellman_w
    return Finding(
        f"ahead by {ahead:.3f} in the paper's table",
        "claim wrong",
        f"Table 1 has {paper.bellman_w:g} for the paper's model and {paper.ddpm_w:g} for diffusion; "
        "0.139 is what it falls short by on Mushroom.",
    )


EXPERIMENT = Experiment(
    name="tabular",
    title="Tables (Section 5.2, Table 1)",
    about="Table 1 (Section 5.2): five UCI tables, our model next to DDPM and others.",
    options=TabularOptions,
    summary=TabularSummary,
    run=run,
    sections=sections,
    order=50,
    page="tables",
    claims=(
        _competitive("w1", "Competitive with DDPM on five tables, by Wasserstein distance"),
        _competitive("mmd", "and by MMD"),
        _telemonitoring,
    ),
    published={"seed": 1300, "seeds": 5},
    quick={
        "seeds": 1,
        "tables": "abalone,wine",
        "models": "bellman,ddpm,stabilised,interpolation",
        "max_iter": 1500,
    },
    thinned="two tables of five, none split by subject or whole, four models of eight, one seed of "
    "five, 1,500 training steps",
)
