"""Tables from and to CSV and Parquet files. What is wrong with a file is said before it is used."""

import csv
import io
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.training.files import write_atomically

_SEPARATORS = (",", ";", "\t", "|")
_PARQUET = (".parquet", ".pq")
_TEXT = (".csv", ".tsv", ".txt", ".data")
_LOOKED_AT = 1_000_000
_LINES_LOOKED_AT = 100


def read_table(
    path: Path,
    *,
    separator: str | None = None,
    encoding: str = "utf-8",
    header: bool = True,
    missing: tuple[str, ...] = (),
) -> pd.DataFrame:
    """A CSV or Parquet file as a data frame.

    The separator of a CSV is found from its first line unless given. `missing` are marks of missing
    values in addition to the usual ones (an empty field, NA, NaN, null).
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InvalidInputError(f"cannot read {path}: {error.strerror or error}") from error
    if path.suffix.lower() in _PARQUET:
        return _checked(_read_parquet(path, content), path)
    text = _decoded(content, path, encoding)
    if not text.strip():
        raise InvalidInputError(f"{path} is empty: a table needs a header and rows")
    separator = _separator(text) if separator is None else _given(separator)
    _check_lines(text, separator, path)
    names = _first_line(text, separator)
    _check_separator(text, separator, names, path)
    if header:
        _check_names(names, path)
    try:
        frame = pd.read_csv(
            io.StringIO(text),
            sep=separator,
            header=0 if header else None,
            names=None if header else [f"column {i + 1}" for i in range(len(names))],
            na_values=list(missing),
            index_col=False,
            skip_blank_lines=len(names) > 1,
            low_memory=False,
        )
    except (ValueError, OverflowError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise InvalidInputError(f"{path} cannot be read as a table: {error}") from error
    return _checked(frame, path)


def check_ending(path: Path) -> None:
    """Rows are written as CSV or Parquet; another ending would lie about what is in the file."""
    if path.suffix.lower() not in (*_PARQUET, *_TEXT):
        raise InvalidInputError(
            f"{path}: rows are written as CSV or Parquet, so name the file .csv or .parquet"
        )


def write_table(frame: pd.DataFrame, path: Path) -> None:
    """A CSV or Parquet file, by the name's ending; all of it or nothing."""
    check_ending(path)
    if path.suffix.lower() in _PARQUET:
        content = io.BytesIO()
        frame.to_parquet(content, index=False)
        write_atomically(path, content.getvalue())
    else:
        between = "\t" if path.suffix.lower() == ".tsv" else ","
        write_atomically(path, frame.to_csv(index=False, sep=between).encode())


def _read_parquet(path: Path, content: bytes) -> pd.DataFrame:
    try:
        return pd.read_parquet(io.BytesIO(content))
    except (ValueError, OSError) as error:  # pyarrow's errors are one or the other
        raise InvalidInputError(f"{path} is no Parquet file: {error}") from error


def _decoded(content: bytes, path: Path, encoding: str) -> str:
    if b"\0" in content[:_LOOKED_AT] and not encoding.lower().startswith("utf-16"):
        raise InvalidInputError(f"{path} holds binary data: a CSV or Parquet file is needed")
    try:
        text = content.decode("utf-8-sig" if encoding.lower() in {"utf-8", "utf8"} else encoding)
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise InvalidInputError(
            f"{path} is not {encoding}: byte {error.start} in line {line} cannot be read. "
            "Say how it is written, for instance --encoding latin-1"
        ) from error
    except LookupError as error:
        raise InvalidInputError(
            f"there is no encoding {encoding!r}: try utf-8 or latin-1"
        ) from error
    return text.replace("\r\n", "\n").replace("\r", "\n").lstrip("\n")


def _separator(text: str) -> str:
    """The sign that cuts the first line into most parts; a comma where none does."""
    return max(_SEPARATORS, key=lambda separator: len(_first_line(text, separator)))


def _given(separator: str) -> str:
    """A separator as typed: a tab is hard to type in a shell."""
    found = {"\\t": "\t", "tab": "\t"}.get(separator, separator)
    if len(found) != 1 or found in '"\r\n':
        raise InvalidInputError(
            f"--separator {separator!r}: one sign is needed, such as ',' or ';' (a tab is 'tab')"
        )
    return found


def _check_separator(text: str, separator: str, names: list[str], path: Path) -> None:
    """One column whose every line another sign cuts alike was separated by the wrong sign."""
    if len(names) != 1:
        return
    lines = [line for line in text[:_LOOKED_AT].split("\n")[:_LINES_LOOKED_AT] if line]
    for other in _SEPARATORS:
        counts = {len(_first_line(line, other)) for line in lines}
        if other != separator and len(counts) == 1 and counts.pop() > 1:
            raise InvalidInputError(
                f"{path} has one column when fields are separated by {separator!r}, and several by "
                f"{other!r}: give --separator {other!r}"
            )


def _first_line(text: str, separator: str) -> list[str]:
    """The fields of the first line, which may be quoted over several."""
    try:
        return next(csv.reader(io.StringIO(text), delimiter=separator), [])
    except csv.Error:
        return []


def _check_lines(text: str, separator: str, path: Path) -> None:
    """Every line has as many fields as the first."""
    width = None
    for number, fields in _field_counts(text, separator, path):
        width = fields if width is None else width
        if fields != width:
            raise InvalidInputError(
                f"line {number} of {path} has {fields} fields where the first has {width}: mend it, or "
                f"give --separator if {separator!r} is not what separates the fields"
            )


def _field_counts(text: str, separator: str, path: Path) -> Iterator[tuple[int, int]]:
    if '"' not in text:
        # Much faster than a parser, and as good where nothing is quoted.
        for number, line in enumerate(text.split("\n"), start=1):
            if line:
                yield number, line.count(separator) + 1
        return
    reader = csv.reader(io.StringIO(text), delimiter=separator)
    try:
        for fields in reader:
            if fields:
                yield reader.line_num, len(fields)
    except csv.Error as error:
        raise InvalidInputError(f"line {reader.line_num} of {path}: {error}") from error


def _check_names(names: list[str], path: Path) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise InvalidInputError(
            f"{path} has more than one column called {', '.join(map(repr, twice))}: rename them, or "
            "give --no-header if the first line is a row"
        )


def _checked(frame: pd.DataFrame, path: Path) -> pd.DataFrame:
    if not len(frame.columns) or not len(frame):
        raise InvalidInputError(f"{path} has no rows")
    frame.columns = [str(name) for name in frame.columns]
    _check_names(list(frame.columns), path)
    return frame
