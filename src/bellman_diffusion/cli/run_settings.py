"""Settings of a command given as name=value."""

from dataclasses import fields
from typing import Any, get_type_hints

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
    wanted = {int: int, float: float, str: str, bool: bool}.get(hint)
    if wanted is None:  # a tuple of numbers
        try:
            return tuple(
                float(v) if "float" in str(hint) else int(v) for v in str(value).split(",")
            )
        except ValueError:
            raise InvalidInputError(f"{option} {name}={value}: give numbers with commas") from None
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
