"""`bellman view`: a page to look inside runs."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from bellman_diffusion.cli.options import Json, Quiet, Seed, command_line, finish
from bellman_diffusion.cli.tables import Encoding, Header, Missing, Separator, reader
from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.training import progress_bar
from bellman_diffusion.view.episode import LONGEST
from bellman_diffusion.view.page import render_view, write_view
from bellman_diffusion.view.record import holds_table_model, record_run
from bellman_diffusion.view.server import make_server


def view(
    runs: Annotated[
        list[Path], typer.Argument(help="Folders of bellman train, plan, fit or images.")
    ],
    html: Annotated[
        Path | None, typer.Option(help="Write one self-contained page here, and serve nothing.")
    ] = None,
    steps: Annotated[
        int, typer.Option(min=1, max=LONGEST, help="The longest part of an episode to show.")
    ] = 200,
    data: Annotated[
        Path | None, typer.Option(help="The table to show next to a table model's rows.")
    ] = None,
    columns: Annotated[
        tuple[str, str] | None, typer.Option(help="Two columns of a table model to draw.")
    ] = None,
    separator: Separator = None,
    encoding: Encoding = "utf-8",
    header: Header = True,
    missing: Missing = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Of the server on loopback; 0 takes a free one.")
    ] = 0,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Look inside runs: an episode with the return density of every action, or a model at work."""
    if html is not None and html.suffix.lower() not in (".html", ".htm"):
        raise InvalidInputError(f"--html {html}: name the page .html")
    if (data or columns) and not any(holds_table_model(run) for run in runs):
        raise InvalidInputError(
            "--data and --columns are for the models of bellman fit, and none is among these runs: "
            "leave them out, or name its folder"
        )
    if html is None:
        # A port that cannot be had is told before anything is recorded.
        make_server("", port).server_close()
    table = None if data is None else reader(separator, encoding, header, missing)(data)
    bar = progress_bar("record", quiet=quiet, shown=())
    parts = []
    with bar:
        for k, run in enumerate(runs):
            parts += record_run(run, seed=seed, steps=steps, data=table, columns=columns)
            bar.update(k + 1, len(runs), {})
    figures = {"runs": [{k: p[k] for k in ("kind", "name", "run", "n_steps")} for p in parts]}
    if html is None:
        _serve(parts, figures, port, as_json)
        return
    write_view(html, parts, command_line())
    finish(figures | {"html": str(html)}, f"Page: {html}", quiet=quiet, as_json=as_json)


def _serve(parts: list[Any], figures: dict[str, Any], port: int, as_json: bool) -> None:
    """Until Ctrl-C."""
    with make_server(render_view(parts, command_line()), port) as server:
        address = f"http://127.0.0.1:{server.server_port}/"
        line = f"{address}  (Ctrl-C ends it)"
        finish(figures | {"address": address}, line, quiet=False, as_json=as_json)
        sys.stdout.flush()
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return
