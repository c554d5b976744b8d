"""`bellman fit` and `bellman sample`: from a table to synthetic rows."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from bellman_diffusion.cli.images import is_image_model, sample_images
from bellman_diffusion.cli.options import Json, Quiet, Seed, finish, print_json, show
from bellman_diffusion.cli.run_settings import read_pairs
from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.recipe import make_recipe
from bellman_diffusion.render.page import Table
from bellman_diffusion.tables import Column, TableModel, read_table, write_table
from bellman_diffusion.tables.model import MODEL_FILE
from bellman_diffusion.tables.reading import check_ending
from bellman_diffusion.training import progress_bar
from bellman_diffusion.training.files import write_json

Separator = Annotated[str | None, typer.Option(help="What separates fields; found if not given.")]
Encoding = Annotated[str, typer.Option(help="How the file's text is written.")]
Header = Annotated[bool, typer.Option(help="Whether the first line has the columns' names.")]
Missing = Annotated[
    list[str] | None, typer.Option(help="A mark of missing values, such as '?'; may be repeated.")
]


ColumnTypes = Annotated[
    list[str] | None,
    typer.Option(
        "--type", help="COLUMN=number, integer, boolean, category or date; may be repeated."
    ),
]


def fit(
    table: Annotated[Path, typer.Argument(help="A CSV or Parquet file.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The model's folder; by default runs/TABLE.")
    ] = None,
    kind: ColumnTypes = None,
    drop: Annotated[
        list[str] | None, typer.Option(help="A column to leave out; may be repeated.")
    ] = None,
    transform: Annotated[
        str, typer.Option(help="Of heavy-tailed numbers: auto, plain, power or quantile.")
    ] = "auto",
    hold_out: Annotated[float, typer.Option(help="The share of rows that is held out.")] = 0.1,
    change: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting of the model, as name=value; may be repeated."),
    ] = None,
    separator: Separator = None,
    encoding: Encoding = "utf-8",
    header: Header = True,
    missing: Missing = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Learn the distribution of a table's rows. Run again with the same options to continue."""
    frame = dropped(reader(separator, encoding, header, missing)(table), drop or [])
    settings = read_pairs(change or [], "--set")
    make_recipe(**dict.fromkeys(settings))  # refuses names that are no settings
    folder = out or Path("runs") / table.stem
    if folder.is_file():
        raise InvalidInputError(f"{folder} is a file: name a folder for the model")
    model = TableModel(
        kinds={str(k): str(v) for k, v in read_pairs(kind or [], "--type").items()},
        transform=transform,
        hold_out=hold_out,
        random_state=seed,
        run_dir=folder,
        **settings,
    )
    model.fit(frame, progress=progress_bar(f"fit {table.name}", quiet=quiet))
    model.save(folder / MODEL_FILE)
    figures: dict[str, Any] = {
        "rows": len(frame),
        "columns": [{"name": c.name, "kind": c.kind} for c in model.schema_.columns],
        "transform": model.transform_,
        "steps": int(model.model_.n_iter_),
        "loss": float(model.model_.loss_),
        "model": str(folder),
    }
    write_json(folder / "figures.json", figures)
    show(_columns(list(model.schema_.columns)), f"{table.name}: columns", quiet=quiet or as_json)
    line = f"Model: {folder}  (bellman sample {folder} -n 1000 -o rows.csv)"
    finish(figures, line, quiet=quiet, as_json=as_json)


def sample(
    model: Annotated[Path, typer.Argument(help="A model's folder or file.")],
    number: Annotated[int, typer.Option("-n", "--number", min=1, help="How many rows.")] = 1000,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="A CSV or Parquet file, stdout if not given; PNG or NPZ for images."
        ),
    ] = None,
    where: Annotated[
        str | None, typer.Option(help='Conditions that all rows meet, as in "Sex=F, Rings>10".')
    ] = None,
    label: Annotated[str | None, typer.Option(help="The class of images to draw.")] = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Draw new rows, or images, from a fitted model."""
    if is_image_model(model):
        if where is not None:
            raise InvalidInputError("--where is for tables: ask for images of a class by --label")
        drawn = sample_images(model, number, out, label, seed)
        if as_json:
            print_json(drawn)
        return
    if label is not None:
        raise InvalidInputError("--label is for images: ask for rows by --where")
    if out is not None:
        check_ending(out)
    loaded = TableModel.load(model)
    figures: dict[str, Any] = {"rows": number}
    if where is None:
        frame = loaded.sample(number, random_state=seed)
    else:
        found = loaded.sample_where(where, number, random_state=seed)
        frame = found.frame
        how = {"conditioned": found.conditioned, "rejected_by": found.rejected_by}
        figures |= how | {"tries": found.tries}
        if not quiet:
            sys.stderr.write(f"{_how(found.conditioned, found.rejected_by, found.tries, number)}\n")
    if out is not None:
        write_table(frame, out)
        figures["out"] = str(out)
    else:
        frame.to_csv(sys.stdout, index=False)
    if as_json:
        print_json(figures)


def reader(
    separator: str | None, encoding: str, header: bool, missing: list[str] | None
) -> Callable[[Path], pd.DataFrame]:
    """Reads tables that are written in the way the options say."""
    marks = tuple(missing or ())
    return partial(read_table, separator=separator, encoding=encoding, header=header, missing=marks)


def dropped(frame: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """The table without some of its columns."""
    for name in names:
        if name not in frame.columns:
            raise InvalidInputError(f"--drop {name!r}: there is no such column")
    kept = frame.drop(columns=names)
    if not len(kept.columns):
        raise InvalidInputError("every column is dropped: keep one at least")
    return kept


def _how(conditioned: list[str], rejected_by: list[str], tries: int, number: int) -> str:
    parts = []
    if conditioned:
        parts.append(f"given to the model: {', '.join(conditioned)}")
    if rejected_by:
        parts.append(f"by rejection: {', '.join(rejected_by)}")
    return f"{'; '.join(parts)}; {tries} rows drawn for {number}"


def _columns(columns: list[Column]) -> Table:
    rows = []
    for c in columns:
        values = f"{len(c.levels)} levels" if c.is_discrete else f"{c.low:.6g} to {c.high:.6g}"
        missing = f"{c.missing:.1%}" if c.has_missing else ""
        rows.append((c.name, c.kind, values, missing))
    return Table(("column", "kind", "values", "missing"), rows)
