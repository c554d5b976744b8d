"""What the results pages share: the files under `results/`, commands, tables, pictures."""

import json
import shutil
from pathlib import Path
from typing import Any

from bellman_diffusion.report.captions import captioned
from bellman_diffusion.render.page import shown_time

DOCS = Path(__file__).parents[1]
RESULTS = DOCS.parent / "results"
# Tables take the room of the page's own contents.
WIDE = "---\nhide: [toc]\n---\n\n"


def published(name: str) -> dict[str, Any] | None:
    """What an experiment wrote, or None where this release publishes nothing of it."""
    path = RESULTS / name / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def unpublished(title: str, name: str) -> str:
    """In the place of figures that there are none of."""
    return f"{title}\n\nNo figures are published for this release; `bellman reproduce {name}` makes them.\n\n"


def command(name: str, options: str = "") -> str:
    """What made an experiment's results, with its time where `reproduce all` noted it."""
    path = RESULTS / "all.json"
    run = json.loads(path.read_text()).get(name, {}) if path.exists() else {}
    words = run.get("command") or f"bellman reproduce {name} {options}".strip()
    took = f"\n\nIt took {shown_time(run['seconds'])} on two CPU cores." if "seconds" in run else ""
    return f"```console\n$ {words} --out results/{name}\n```{took}"


def seeds(summary: dict[str, Any]) -> str:
    """The options that give these seeds."""
    return f"--seed {summary['seeds'][0]} --seeds {len(summary['seeds'])}"


def table(made: Any) -> str:
    """A report's table in Markdown."""
    return markdown_table(made.header, made.rows)


def markdown_table(header: Any, rows: Any) -> str:
    """A table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    # A bar within a cell would end it.
    cells = [[str(cell).replace("|", "\\|") for cell in line] for line in lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in cells)


def pictures(name: str) -> str:
    """Copy a run's pictures beside the pages and show them, each with what it shows."""
    (DOCS / "pictures").mkdir(exist_ok=True)
    shown = []
    for picture, caption in captioned(RESULTS / name / "figures"):
        shutil.copy(picture, DOCS / "pictures" / picture.name)
        shown.append(f"![{caption}](pictures/{picture.name})\n\n*{caption}*")
    return "\n\n".join(shown)
