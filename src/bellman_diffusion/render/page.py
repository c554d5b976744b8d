"""Sections of text, tables and pictures, as one HTML page or as Markdown: the one page writer."""

import base64
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, select_autoescape
from markupsafe import Markup, escape
from scipy.stats import sem

from bellman_diffusion.training.files import write_atomically


@dataclass(frozen=True)
class Table:
    """Rows of text under a heading."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    of_words: bool = False
    """Sentences read from the left; numbers stand under each other."""
    n_names: int = 2
    """How many of the first columns are names, which read from the left too."""


class Picture(NamedTuple):
    """A PNG file and what it shows."""

    path: Path
    caption: str


@dataclass(frozen=True)
class Section:
    """A heading, a few sentences, a table, pictures."""

    title: str
    text: str = ""
    """Paragraphs, lists of lines that begin with "- ", `code` and **bold**, as in Markdown."""
    table: Table | None = None
    pictures: Sequence[Picture] = ()


def write_page(path: Path, title: str, command: str, sections: Sequence[Section]) -> Path:
    """Write the page with its pictures inside; it opens from a file, with no other request."""
    environment = Environment(
        loader=PackageLoader("bellman_diffusion.render"), autoescape=select_autoescape()
    )
    environment.filters |= {"data_uri": _data_uri, "prose": _prose}
    page = environment.get_template("page.html").render(
        title=title, command=command, sections=sections
    )
    write_atomically(path, page.encode())
    return path


def to_markdown(sections: Sequence[Section], pictures: Path, level: int = 2) -> str:
    """The same in Markdown; pictures are copied into the folder `pictures`."""
    blocks = []
    for section in sections:
        if section.title:
            blocks.append(f"{'#' * level} {section.title}")
        if section.text:
            blocks.append(section.text)
        if section.table is not None:
            blocks.append(markdown_table(section.table.header, section.table.rows))
        for picture in section.pictures:
            pictures.mkdir(exist_ok=True)
            shutil.copy(picture.path, pictures / picture.path.name)
            link = f"{pictures.name}/{picture.path.name}"
            blocks.append(f"![{picture.caption}]({link})\n\n*{picture.caption}*")
    return "\n\n".join(blocks)


def markdown_table(header: Sequence[Any], rows: Sequence[Sequence[Any]]) -> str:
    """A table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    # A bar within a cell would end it.
    cells = [[str(cell).replace("|", "\\|") for cell in line] for line in lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in cells)


def _data_uri(picture: Path) -> str:
    return "data:image/png;base64," + base64.b64encode(picture.read_bytes()).decode()


def _prose(text: str) -> Markup:
    """The little of Markdown that a section's text may have."""
    blocks = []
    for block in text.strip().split("\n\n"):
        lines = block.splitlines()
        if all(line.startswith("- ") for line in lines):
            items = Markup("").join(
                Markup("<li>{}</li>").format(_inline(line[2:])) for line in lines
            )
            blocks.append(Markup("<ul>{}</ul>").format(items))
        else:
            blocks.append(Markup("<p>{}</p>").format(_inline(block)))
    return Markup("\n").join(blocks)


def _inline(text: str) -> Markup:
    """`code` and **what must not be missed**."""
    marked = re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text)))
    return Markup(re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", marked))


def bullets(sentences: Sequence[str]) -> str:
    """A list for a section's text."""
    return "\n".join(f"- {sentence}" for sentence in sentences)


def counted(n: int, what: str) -> str:
    """A number with its noun: 1 seed, 2 seeds."""
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def shown_range(values: Sequence[float], form: str) -> str:
    """The least and the largest, or one number where they look the same."""
    low, high = f"{min(values):{form}}", f"{max(values):{form}}"
    return low if low == high else f"{low} to {high}"


def shown_share(value: float) -> str:
    """A relative error: beyond ten times its figure says nothing."""
    return f"{value:.0%}" if value < 10 else "more than ten times"


def with_error(mean: float, values: Sequence[float | None], form: str) -> str:
    """A mean over seeds, with its standard error where there are two seeds or more."""
    known = [value for value in values if value is not None]
    if len(known) < max(2, len(values)):
        return f"{mean:{form}}"
    return f"{mean:{form}} ± {sem(known):{form}}"


def shown_time(seconds: float) -> str:
    """How long something took."""
    return f"{seconds:.1f} seconds" if seconds < 100 else f"{seconds / 60:.0f} minutes"
