"""Settings of a command given as name=value."""

from dataclasses import fields
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from bellman_diffusion.errors import InvalidInputError


def read_pairs(pairs: list[str], option: str) -> dict[str, Any]:
    """`["a=1", "b=true"]` as a dictionary of numbers, truth values and words."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise InvalidInputError(f"{option} {pair!r}: write name=value")
        found[name] = _value(value)
    return found


def read_fields(pairs: list[str], kind: type, option: str) -> dict[str, Any]:
    """The same for the fields of a dataclass, of the fields' types."""
    hints = get_type_hints(kind)
    known = {f.name for f in fields(kind)}
    found: dict[str, Any] = {}
    for name, value in read_pairs(pairs, option).items():
        if name not in known:
            raise InvalidInputError(
                f"{option} {name}: no such setting; see {', '.join(sorted(known))}"
            )
        found[name] = _of_type(name, value, hints[name], option)
    return found


def _of_type(name: str, value: Any, hint: Any, option: str) -> Any:
    kinds = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    if value is None and NoneType in kinds:
        return None
    kind = next(k for k in kinds if k is not NoneType)
    if get_origin(kind) is tuple:
        parts, types = str(value).split(","), get_args(kind)
        wrong = Ellipsis not in types and len(parts) != len(types)
        try:
            found = tuple(types[0](part) for part in parts)
        except ValueError:
            wrong, found = True, ()
        if wrong:
            raise InvalidInputError(f"{option} {name}={value}: give numbers with commas, as {kind}")
        return found
    wanted = kind if kind in (int, float, str, bool) else str
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
        raise InvalidInputError(f"{option} {name}={value}: a {wanted.__name__} is needed")
    return value


def _value(text: str) -> Any:
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
