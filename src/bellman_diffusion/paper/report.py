"""The whole paper on one page: the ledger of its claims, then every experiment in its order."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bellman_diffusion.paper.claims import LEGEND, LedgerRow, ledger, ledger_table, verdict_counts
from bellman_diffusion.paper.experiment import Experiment, all_experiments
from bellman_diffusion.paper.run import Run
from bellman_diffusion.render.page import Section, bullets, shown_time, write_page


def ledger_rows(summaries: Mapping[str, Any]) -> list[LedgerRow]:
    """Every claim of the paper; `summaries` has those of the experiments that were run."""
    rows: list[LedgerRow] = []
    for experiment in [e for e in all_experiments() if e.in_paper]:
        rows += ledger(experiment.claims, experiment.name, summaries.get(experiment.name))
    return rows


def ledger_text(rows: Sequence[LedgerRow]) -> str:
    """How many claims have which verdict, and what the verdicts mean."""
    counts = ", ".join(f"{n} {name}" for name, n in verdict_counts(rows).items())
    return f"{len(rows)} claims: {counts}. {LEGEND}"


def write_paper_report(
    out: Path, command: str, summaries: Mapping[str, Any], runs: Mapping[str, Run], *, quick: bool
) -> Path:
    """Write `report.html`; `runs` says how each experiment was made."""
    rows = ledger_rows(summaries)
    parts = [experiment for experiment in all_experiments() if experiment.in_paper]
    head = ledger_text(rows)
    if quick:
        thinned = bullets([f"`{part.name}`: {part.thinned}" for part in parts if part.thinned])
        head += f"\n\nThis is the quick run: its figures are rough. It thinned\n\n{thinned}"
    sections = [Section("Ledger of claims", head, ledger_table(rows))]
    for part in parts:
        sections += _sections(out / part.name, part, summaries.get(part.name), runs.get(part.name))
    return write_page(out / "report.html", "Bellman Diffusion: the paper", command, sections)


def _sections(
    folder: Path, part: Experiment[Any], summary: Any | None, run: Run | None
) -> list[Section]:
    if summary is None:
        return [Section(part.title, f"Not run. {(run and run.error) or ''}")]
    claims = ledger_table(ledger(part.claims, part.name, summary))
    took = f", in {shown_time(run.seconds)}" if run and run.seconds is not None else ""
    head = Section(part.title, f"Made by `{run.command}`{took}." if run else "", claims)
    return [head, *part.sections(summary, folder / "figures")]
