"""What the columns of a table are: numbers, whole numbers, yes or no, categories, dates."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from bellman_diffusion.errors import InvalidInputError

Kind = Literal["number", "integer", "boolean", "category", "date"]
KINDS: tuple[Kind, ...] = get_args(Kind)

# Text is a name and no category where more than this share of the values occur once, in long tables.
_MOST_UNIQUE = 0.9
_LONG = 50
# Text that is half numbers is a column of numbers with a slip in it.
_MOSTLY_NUMBERS = 0.5
# Numbers with at most so many decimals are looked at for a common step.
_MOST_DECIMALS = 6
# Standard deviations from the mean; a normal column of a million rows reaches 5.
_FAR_OUT = 5.0
# A grid's step, in standard deviations, from which on its points are peaks and not a continuum.
_COARSE = 0.1
# The largest magnitude that can be squared and summed.
_LARGEST = 1e100
# The largest whole number up to which float64 has them all.
_LARGEST_WHOLE = 2**53


@dataclass(frozen=True)
class Column:
    """A column: what it is and how its values are written."""

    name: str
    kind: Kind
    dtype: str
    """Of the data frame's column."""
    missing: float = 0.0
    """The share of missing values."""
    step: float = 0.0
    """Numbers and dates: the step that all values are multiples of, from `low` on; 0 for none."""
    low: float = 0.0
    high: float = 0.0
    """Numbers and dates (in days since 1970): the range of the values."""
    levels: tuple[Any, ...] = ()
    """Categories, in the order of their names."""
    form: str = ""
    """Dates that are text: how they are written."""
    categories: tuple[Any, ...] = ()
    """Of pandas' categorical columns: all categories, in their order, those without a row too."""
    ordered: bool = False
    """Of pandas' categorical columns: whether the order means something."""
    deviation: float = 0.0
    """Numbers and dates: the standard deviation."""
    heavy_tailed: bool = False
    """Numbers and dates: whether some values lie far out."""

    @property
    def is_discrete(self) -> bool:
        """Whether the values are levels without an order."""
        return self.kind in ("boolean", "category")

    @property
    def is_coarse(self) -> bool:
        """Whether the values are numbers on a grid that is wide for their spread."""
        return self.step >= _COARSE * self.deviation > 0

    @property
    def has_missing(self) -> bool:
        """Whether a value may be missing."""
        return self.missing > 0


@dataclass(frozen=True)
class Schema:
    """The columns of a table in their order."""

    columns: tuple[Column, ...]

    @property
    def heavy_tailed(self) -> bool:
        """Whether a column has heavy tails to transform."""
        return any(column.heavy_tailed and not column.is_coarse for column in self.columns)

    @property
    def is_discrete(self) -> bool:
        """Whether all columns are levels or stand on coarse grids."""
        return all(column.is_discrete or column.is_coarse for column in self.columns)

    @property
    def names(self) -> list[str]:
        """Of the columns."""
        return [column.name for column in self.columns]

    def __getitem__(self, name: str) -> Column:
        """The column of that name."""
        for column in self.columns:
            if column.name == name:
                return column
        raise InvalidInputError(f"there is no column {name!r}: there are {_listed(self.names)}")

    def to_json(self) -> list[dict[str, Any]]:
        """Plain values."""
        return [asdict(column) for column in self.columns]

    @classmethod
    def from_json(cls, values: list[dict[str, Any]]) -> "Schema":
        """What `to_json` gave."""
        rows: list[dict[str, Any]] = [
            v | {name: tuple(v.get(name, ())) for name in ("levels", "categories")} for v in values
        ]
        return cls(tuple(Column(**row) for row in rows))


def find_schema(frame: pd.DataFrame, kinds: Mapping[str, str] | None = None) -> Schema:
    """The columns of a data frame; `kinds` overrules what is found, by name."""
    kinds = kinds or {}
    names = [str(name) for name in frame.columns]
    for name, kind in kinds.items():
        if name not in names:
            raise InvalidInputError(f"there is no column {name!r}: there are {_listed(names)}")
        if kind not in KINDS:
            raise InvalidInputError(f"column {name!r}: {kind!r} is none of {', '.join(KINDS)}")
    if len(frame) < 2:
        raise InvalidInputError(f"the table has {len(frame)} row: at least 2 are needed")
    return Schema(tuple(_column(frame[name], kinds.get(name)) for name in names))


def _column(values: Any, kind: Any) -> Column:
    name, present = str(values.name), values.dropna()
    if present.empty:
        raise InvalidInputError(
            f"column {name!r} is empty in every row: leave it out (--drop {name!r})"
        )
    chosen = kind or _kind(present)
    missing = 1 - len(present) / len(values)
    dtype = str(values.dtype)
    if chosen in ("boolean", "category"):
        levels, categories, ordered = _levels(present), (), False
        if isinstance(values.dtype, pd.CategoricalDtype):
            categories, ordered = tuple(_plain(values.dtype.categories)), bool(values.dtype.ordered)
        return Column(
            name, chosen, dtype, missing, levels=levels, categories=categories, ordered=ordered
        )
    form = _date_form(present) if chosen == "date" else ""
    numbers = as_numbers(present, name, chosen, form)
    if chosen == "integer" and np.abs(numbers).max() >= _LARGEST_WHOLE:
        raise InvalidInputError(
            f"column {name!r} holds whole numbers beyond 2⁵³, which cannot be told apart: leave it out "
            f"(--drop {name}), or give --type {name}=category where they name things"
        )
    return Column(
        name,
        chosen,
        dtype,
        missing,
        step=_step(numbers, chosen),
        low=float(numbers.min()),
        high=float(numbers.max()),
        form=form,
        deviation=float(numbers.std()),
        heavy_tailed=_is_heavy_tailed(numbers),
    )


def as_numbers(present: pd.Series, name: str, kind: str, form: str = "") -> np.ndarray:
    """Numbers and dates as float64, dates in days since 1970."""
    try:
        if kind == "date":
            moments: Any = pd.to_datetime(present, format=form or "mixed").dt.tz_localize(None)
            return moments.to_numpy("datetime64[us]").astype(np.int64) / _DAY
        numbers = np.asarray(pd.to_numeric(present), np.float64)
    except (ValueError, TypeError, OverflowError, AttributeError) as error:
        raise InvalidInputError(f"column {name!r} cannot be read as {kind}: {error}") from error
    if not np.all(np.abs(numbers) <= _LARGEST):
        worst = numbers[~(np.abs(numbers) <= _LARGEST)][0]
        raise InvalidInputError(
            f"column {name!r} holds {worst:g}: values beyond ±{_LARGEST:g} have no use as numbers. "
            f"Mend them, or mark them as missing (--missing {worst:g})"
        )
    return numbers


_DAY = 86_400e6
# The usual ways to write a date; where several fit all values, the first.
_DATE_FORMS = tuple(
    date + time
    for date in ("%Y-%m-%d", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d.%m.%Y", "%d-%m-%Y", "%m-%d-%Y")
    for time in ("", " %H:%M", " %H:%M:%S", "T%H:%M:%S")
)


def from_days(days: np.ndarray, column: Column) -> pd.Series:
    """Days since 1970, NaN for missing, as the column has its dates."""
    moments: Any = pd.Series(pd.to_datetime(np.round(days * _DAY), unit="us"))
    if column.dtype.startswith("datetime64"):
        dtype: Any = pd.api.types.pandas_dtype(column.dtype)
        zone = getattr(dtype, "tz", None)
        if zone is not None:
            # An hour that a change of clocks leaves out is the next that there is.
            moments = moments.dt.tz_localize(zone, ambiguous=True, nonexistent="shift_forward")
        return moments.astype(dtype)
    whole = column.step == round(column.step) and column.low == round(column.low)
    form = column.form or ("%Y-%m-%d" if whole else "%Y-%m-%d %H:%M:%S")
    return moments.dt.strftime(form).astype(column.dtype)


def _date_form(present: pd.Series) -> str:
    if pd.api.types.is_datetime64_any_dtype(present):
        return ""
    for form in _DATE_FORMS:
        if pd.to_datetime(present, format=form, errors="coerce").notna().all():
            return form
    return ""


def _kind(present: pd.Series) -> Kind:
    if pd.api.types.is_bool_dtype(present):
        return "boolean"
    if isinstance(present.dtype, pd.CategoricalDtype):
        return "category"
    if pd.api.types.is_datetime64_any_dtype(present):
        return "date"
    if pd.api.types.is_integer_dtype(present):
        return "integer"
    if pd.api.types.is_numeric_dtype(present):
        return _kind_of_numbers(present.to_numpy(np.float64))
    return _kind_of_text(present)


def _kind_of_numbers(numbers: np.ndarray) -> Kind:
    """Very large ones are all whole, which says nothing."""
    whole = np.all(numbers == np.round(numbers)) and np.abs(numbers).max() < _LARGEST_WHOLE
    return "integer" if whole else "number"


def _kind_of_text(present: pd.Series) -> Kind:
    name, text = present.name, present.astype(str).str.strip()
    if set(text.str.lower().unique()) <= {"true", "false"}:
        return "boolean"
    numbers: Any = pd.to_numeric(text, errors="coerce")
    share = float(numbers.notna().mean())
    if share == 1:
        return _kind_of_numbers(numbers.to_numpy(np.float64))
    if share >= _MOSTLY_NUMBERS:
        bad = text[numbers.isna()]
        raise InvalidInputError(
            f"column {name!r} holds numbers, but {bad.iloc[0]!r} in row {bad.index[0]}: mend it, mark "
            f"it as missing (--missing {bad.iloc[0]!r}), or give --type {name}=category"
        )
    if _are_dates(text):
        return "date"
    if len(text) >= _LONG and text.nunique() > _MOST_UNIQUE * len(text):
        raise InvalidInputError(
            f"column {name!r} has another text in nearly every row: it names the rows and cannot be "
            f"learned. Leave it out (--drop {name})"
        )
    return "category"


def _are_dates(text: pd.Series) -> bool:
    # Dates have digits; without this, words such as "may" would be read as months.
    if not text.str.contains(r"\d", regex=True).all() or not text.str.contains(r"[-/:.]").all():
        return False
    first = text.drop_duplicates().head(200)
    return bool(pd.to_datetime(first, errors="coerce", format="mixed").notna().all())


def _plain(values: Any) -> list[Any]:
    return [v.item() if isinstance(v, np.generic) else v for v in values.tolist()]


def _levels(present: pd.Series) -> tuple[Any, ...]:
    try:
        values = _plain(present.unique())
    except TypeError as error:
        raise InvalidInputError(
            f"column {present.name!r} holds {type(present.iloc[0]).__name__}s, which are no values of "
            f"a table: leave it out (--drop {present.name})"
        ) from error
    strange = [v for v in values if not isinstance(v, str | bool | int | float)]
    if strange:
        raise InvalidInputError(
            f"column {present.name!r} holds {strange[0]!r} as a category: make text of its values, or "
            f"give --type {present.name}=date where they are dates"
        )
    try:
        return tuple(sorted(values))
    except TypeError:  # numbers and text in one column
        return tuple(sorted(values, key=str))


def _step(numbers: np.ndarray, kind: str) -> float:
    """The common step of the values; 0 where there is none to speak of."""
    distinct = np.unique(numbers)
    if len(distinct) < 2:
        return 1.0 if kind == "integer" else 0.0
    offsets = distinct - distinct[0]
    for decimals in range(_MOST_DECIMALS + 1):
        scaled = offsets * 10**decimals
        whole = np.round(scaled)
        if np.allclose(scaled, whole, rtol=0, atol=1e-6 * max(1.0, 10**decimals * 1e-9)):
            if whole[-1] >= 2**53:
                return 0.0
            common = math.gcd(*(int(v) for v in whole[1:]))
            return common / 10**decimals
    return 0.0


def _is_heavy_tailed(numbers: np.ndarray) -> bool:
    deviation = numbers.std()
    return bool(deviation > 0 and np.abs(numbers - numbers.mean()).max() > _FAR_OUT * deviation)


def _listed(names: list[str]) -> str:
    shown = ", ".join(map(repr, names[:20]))
    return shown + (" …" if len(names) > 20 else "")
