"""The page of `bellman evaluate` for a table: figures, columns, pairs, pictures."""

from pathlib import Path

import pandas as pd

from bellman_diffusion.render.page import Picture, Section, Table, write_page
from bellman_diffusion.render.table_figures import draw_marginals, draw_pairs
from bellman_diffusion.tables.evaluation import Distance, Evaluation
from bellman_diffusion.tables.schema import Schema

_SHOWN_PAIRS = 20


def evaluation_table(result: Evaluation) -> Table:
    """The figures of all columns together."""
    rows = [
        _row(Distance("W1", result.w1, result.w1_floor)),
        _row(Distance("W2", result.w2, result.w2_floor)),
        _row(Distance("sliced W2", result.sliced, result.sliced_floor)),
        ("MMD²", f"{result.mmd2:.3g}", f"{result.mmd2_floor:.3g}", ""),
    ]
    use = result.usefulness
    if use is not None:
        name = f"{use.figure} for {use.target}, trained on synthetic rows"
        rows.append((name, f"{use.synthetic:.4g}", f"{use.real:.4g}", ""))
    if result.dcr_share is not None:
        rows.append(("nearer to a row learned from", f"{result.dcr_share:.3f}", "0.5", ""))
    if result.membership_auc is not None:
        rows.append(("membership attack, AUC", f"{result.membership_auc:.3f}", "0.5", ""))
    return Table(("figure", "synthetic", "real", "ratio"), rows, n_names=1)


def write_table_report(
    out: Path,
    result: Evaluation,
    schema: Schema,
    synthetic: pd.DataFrame,
    real: pd.DataFrame,
    command: str,
    name: str,
) -> Path:
    """Draw the pictures and write `evaluation.html`."""
    figures = out / "figures"
    marginals = draw_marginals(figures / "marginals.png", schema, synthetic, real)
    sections = [
        Section("All columns together", _introduction(result), evaluation_table(result)),
        Section(
            "Columns",
            "Numbers and dates: W1 in standard deviations. Categories: total variation.",
            _distances(result.columns, "column"),
            [Picture(marginals, "Each column: held-out real rows and synthetic rows")],
        ),
    ]
    if result.pairs:
        worst = sorted(result.pairs, key=lambda pair: pair.floor - pair.value)
        pairs = draw_pairs(figures / "pairs.png", schema, synthetic, real)
        pictures = [Picture(pairs, "Pairs of numeric columns")] if pairs else []
        sections.append(
            Section(
                "Pairs of columns",
                "Total variation of each two columns together, numbers in five parts. "
                f"The {min(_SHOWN_PAIRS, len(worst))} of {len(worst)} pairs furthest above the floor.",
                _distances(worst[:_SHOWN_PAIRS], "pair"),
                pictures,
            )
        )
    return write_page(out / "evaluation.html", f"Synthetic rows of {name}", command, sections)


def _introduction(result: Evaluation) -> str:
    text = (
        f"Distances between {result.rows} synthetic rows and as many real rows that were held "
        "out; under “real” the same between real rows and real rows: a perfect model is at "
        "that floor. "
    )
    if result.dcr_share is None:
        return text + "This table is not the one learned from, so nothing is said about copying."
    return text + (
        "The share of synthetic rows that are nearer to a row learned from than to one held out (as "
        "many of each) is 0.5 for a model that copies nothing and 1 for one that copies all."
    )


def _distances(distances: list[Distance], name: str) -> Table:
    return Table((name, "synthetic", "real", "ratio"), [_row(d) for d in distances], n_names=1)


def _row(d: Distance) -> tuple[str, str, str, str]:
    ratio = f"{d.value / d.floor:.3g}" if d.floor > 0 else ""
    return d.name, f"{d.value:.4g}", f"{d.floor:.4g}", ratio
