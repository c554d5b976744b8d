"""One self-contained page: it opens from a file and asks nobody for anything."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, select_autoescape
from markupsafe import Markup

from bellman_diffusion.training.files import write_atomically


def render_view(runs: Sequence[dict[str, Any]], command: str) -> str:
    """The page of some recorded runs, next to each other."""
    environment = Environment(
        loader=PackageLoader("bellman_diffusion.view"), autoescape=select_autoescape()
    )
    # "<" would let a run's text end the script element that holds it.
    content = json.dumps({"runs": list(runs)}, allow_nan=False).replace("<", "\\u003c")
    return environment.get_template("view.html").render(
        title=_title(runs),
        command=command,
        content=Markup(content),
        style=Markup(_source(environment, "view.css")),
        script=Markup(_source(environment, "view.js")),
    )


def write_view(path: Path, runs: Sequence[dict[str, Any]], command: str) -> Path:
    """Write the page, whole or not at all."""
    write_atomically(path, render_view(runs, command).encode())
    return path


def _source(environment: Environment, name: str) -> str:
    assert environment.loader is not None
    return environment.loader.get_source(environment, name)[0]


def _title(runs: Sequence[dict[str, Any]]) -> str:
    names = dict.fromkeys(run.get("env_id") or run["name"] for run in runs)
    return " and ".join(names)
