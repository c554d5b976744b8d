"""The whole paper on one page: the ledger of its claims, then every experiment in its order.

Each experiment has its command and time, what the paper says of it with our finding and verdict, our
figures with their errors, and its pictures.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bellman_diffusion.experiments.paper import PARTS, Part
from bellman_diffusion.report.ablation_report import ablation_table, ablation_verdict
from bellman_diffusion.report.bellman_report import (
    chain_table,
    chain_verdict,
    frozenlake_table,
    frozenlake_verdict,
    linearity_table,
    linearity_verdict,
)
from bellman_diffusion.report.captions import captioned
from bellman_diffusion.report.cartpole_report import cartpole_table, cartpole_verdict
from bellman_diffusion.report.claims.base import LEGEND
from bellman_diffusion.report.convergence_report import (
    convergence_table,
    convergence_verdict,
    errors_table,
    errors_verdict,
)
from bellman_diffusion.report.equivalence_report import (
    equivalence_table,
    equivalence_text,
    pairs_table,
    pairs_text,
)
from bellman_diffusion.report.ledger import ledger_rows, ledger_table, verdict_counts
from bellman_diffusion.report.mnist_report import mnist_table, mnist_verdict
from bellman_diffusion.report.page import Section, Table, bullets, shown_time, write_page
from bellman_diffusion.report.tabular_report import tabular_table, tabular_verdict
from bellman_diffusion.report.toy_report import toy_introduction, toy_table

Summary = dict[str, Any]


class Shown(NamedTuple):
    """How an experiment's results are told."""

    text: Callable[[Summary], str]
    table: Callable[[Summary], Table]


_SHOWN: dict[str, Sequence[Shown]] = {
    "linearity": (Shown(linearity_verdict, linearity_table),),
    "equivalence": (
        Shown(equivalence_text, equivalence_table),
        Shown(pairs_text, pairs_table),
    ),
    "convergence": (
        Shown(convergence_verdict, convergence_table),
        Shown(errors_verdict, errors_table),
    ),
    "toy": (Shown(toy_introduction, toy_table),),
    "tabular": (Shown(tabular_verdict, tabular_table),),
    "frozenlake": (Shown(frozenlake_verdict, frozenlake_table),),
    "cartpole": (Shown(cartpole_verdict, cartpole_table),),
    "chain": (Shown(chain_verdict, chain_table),),
    "mnist": (Shown(mnist_verdict, mnist_table),),
    "ablation": (Shown(ablation_verdict, ablation_table),),
}


def read_results(out: Path, made: Collection[str] | None = None) -> dict[str, Summary]:
    """What the experiments wrote: `NAME/NAME.json` of each, or of those in `made`."""
    found = {}
    for part in PARTS:
        if made is not None and part.name not in made:
            continue
        path = out / part.name / f"{part.name}.json"
        if path.exists():
            found[part.name] = json.loads(path.read_text())
    return found


def write_paper_report(
    out: Path,
    command: str,
    results: Mapping[str, Summary],
    runs: Mapping[str, Mapping[str, Any]],
    *,
    quick: bool,
) -> Path:
    """Write `report.html`; `runs` has each part's command and seconds."""
    rows = ledger_rows(results)
    counts = ", ".join(f"{n} {name}" for name, n in verdict_counts(rows).items())
    head = f"{len(rows)} claims: {counts}. {LEGEND}"
    if quick:
        thinned = bullets([f"`{part.name}`: {part.thinned}" for part in PARTS if part.thinned])
        head += f"\n\nThis is the quick run: its figures are rough. It thinned\n\n{thinned}"
    sections = [Section("Ledger of claims", head, ledger_table(results))]
    for part in PARTS:
        sections += _sections(out, part, results.get(part.name), runs.get(part.name, {}))
    return write_page(out / "report.html", "Bellman Diffusion: the paper", command, sections)


def _sections(
    out: Path, part: Part, summary: Summary | None, run: Mapping[str, Any]
) -> list[Section]:
    if summary is None:
        return [Section(part.title, f"Not run. {run.get('error', '')}")]
    how = f"Made by `{run['command']}`" if "command" in run else ""
    how += f", in {shown_time(run['seconds'])}." if "seconds" in run else "." if how else ""
    return [
        Section(part.title, how, ledger_table({part.name: summary}, part.name)),
        *(Section("", shown.text(summary), shown.table(summary)) for shown in _SHOWN[part.name]),
        Section("", pictures=captioned(out / part.name / "figures")),
    ]
