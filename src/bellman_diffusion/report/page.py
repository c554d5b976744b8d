"""A self-contained HTML page of figures and tables."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from jinja2 import Environment, PackageLoader, select_autoescape

from bellman_diffusion.training.files import write_atomically


@dataclass(frozen=True)
class Table:
    """Rows of text under a heading."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    of_words: bool = False
    """Sentences read from the left; numbers stand under each other."""


@dataclass(frozen=True)
class Section:
    """A heading, a few sentences, a table, pictures."""

    title: str
    text: str = ""
    table: Table | None = None
    pictures: Sequence[tuple[Path, str]] = field(default_factory=tuple)


def write_page(path: Path, title: str, command: str, sections: Sequence[Section]) -> Path:
    """Write the page with its pictures inside; it opens from a file, with no other request."""
    environment = Environment(
        loader=PackageLoader("bellman_diffusion.report"), autoescape=select_autoescape()
    )
    environment.filters["data_uri"] = _data_uri
    page = environment.get_template("page.html").render(
        title=title, command=command, sections=sections
    )
    write_atomically(path, page.encode())
    return path


def _data_uri(picture: Path) -> str:
    return "data:image/png;base64," + base64.b64encode(picture.read_bytes()).decode()


def with_error(mean: float, values: Sequence[float | None], form: str) -> str:
    """A mean over seeds, with its standard error where there are two seeds or more."""
    known = [value for value in values if value is not None]
    if len(known) < max(2, len(values)):
        return f"{mean:{form}}"
    error = np.std(known, ddof=1) / np.sqrt(len(known))
    return f"{mean:{form}} ± {error:{form}}"


def shown_time(seconds: float) -> str:
    """How long something took."""
    return f"{seconds:.1f} seconds" if seconds < 100 else f"{seconds / 60:.0f} minutes"
