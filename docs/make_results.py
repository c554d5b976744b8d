"""Write the results pages from the files under `results/`. `make docs` runs this first.

The text, tables and pictures of an experiment come from its own `sections`; nothing is written here.
"""

import shutil
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

from bellman_diffusion.paper import Experiment, all_experiments, read_summary
from bellman_diffusion.paper.claims import ledger_table
from bellman_diffusion.paper.report import ledger_rows, ledger_text
from bellman_diffusion.paper.run import Run, read_runs
from bellman_diffusion.render.page import markdown_table, shown_time, to_markdown
from speed_page import speed_page

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "results"
# Wide tables take the room of the table of contents.
FRONT_MATTER = "---\nhide: [toc]\n---\n\n"
# Pages of several experiments; a page of one has the experiment's title.
TITLES = {
    "tables": "Tables (Section 5.2, Appendix F.2)",
    "theorems": "Propositions and theorems",
    "evaluation": "Policy evaluation",
    "planning": "Planning (Sections 2 and 5.3, Appendix D)",
}


def claims_page() -> str:
    """The ledger of the paper's claims."""
    experiments = [experiment for experiment in all_experiments() if experiment.claims]
    rows = ledger_rows({e.name: read_summary(e, RESULTS / e.name) for e in experiments})
    table = ledger_table(rows)
    return f"""# The paper's claims

{ledger_text(rows)}

`bellman reproduce all` makes this ledger and one report of every experiment; see
[Reproducing the paper](reproduce.md).

{markdown_table(table.header, table.rows)}"""


def results_page(page: str, experiments: list[Experiment[Any]]) -> str:
    """The experiments of one page, in their order."""
    runs, alone = read_runs(RESULTS), len(experiments) == 1
    blocks = [f"# {experiments[0].title if alone else TITLES[page]}"]
    for experiment in experiments:
        if not alone:
            blocks.append(f"## {experiment.title}")
        blocks.append(results(experiment, runs.get(experiment.name), level=2 if alone else 3))
    return "\n\n".join(blocks)


def results(experiment: Experiment[Any], run: Run | None, level: int) -> str:
    """The command of one experiment, its time, and its sections."""
    summary = read_summary(experiment, RESULTS / experiment.name)
    if summary is None:
        return f"This release publishes no results; run `bellman reproduce {experiment.name}`."
    words = run.command if run else experiment.command(experiment.options_of(False))
    blocks = [f"```console\n$ {words} --out results/{experiment.name}\n```"]
    if run is not None and run.seconds is not None:
        blocks.append(f"The run took {shown_time(run.seconds)} on two CPU cores.")
    sections = [
        # A heading that repeats the experiment's title is left out.
        replace(section, title="" if section.title in experiment.title else section.title)
        for section in experiment.sections(summary, RESULTS / experiment.name / "figures")
    ]
    return "\n\n".join([*blocks, to_markdown(sections, DOCS / "pictures", level)])


def write(name: str, text: str) -> None:
    """One page of the site."""
    (DOCS / f"results-{name}.md").write_text(f"{FRONT_MATTER}{text.rstrip()}\n")


def main() -> None:
    """Every results page."""
    by_page = sorted(all_experiments(), key=lambda experiment: experiment.page)
    for page, experiments in groupby(by_page, key=lambda experiment: experiment.page):
        write(page, results_page(page, list(experiments)))
    write("claims", claims_page())
    scaling = RESULTS / "bench-planning" / "scaling.png"
    if scaling.exists():
        shutil.copy(scaling, DOCS / "pictures")
    write("speed", speed_page(RESULTS))


if __name__ == "__main__":
    main()
