"""NaN and Infinity, which JSON cannot hold: found, and named by where they are."""

from math import isfinite
from typing import Any, NamedTuple

from flo.model.errors import Invalid

NUMBER_NOT_FINITE = "number_not_finite"

_LOOKED_INTO = (float, dict, list, tuple)


class FoundNumber(NamedTuple):
    path: str
    number: float


def check_numbers(value: Any, name: str) -> None:
    """Invalid if a number in these plain values (dicts, lists, numbers …) is not finite."""
    found = _find(value) if isinstance(value, _LOOKED_INTO) else None
    if found is not None:
        raise Invalid(
            f"{name}{found.path} is {_spelled(found.number)}: JSON has no such number",
            code=NUMBER_NOT_FINITE,
        )


def _find(value: Any) -> FoundNumber | None:
    if isinstance(value, float):
        return None if isfinite(value) else FoundNumber("", value)
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, one in items:
        if isinstance(one, _LOOKED_INTO) and (found := _find(one)) is not None:
            return FoundNumber(_step(key) + found.path, found.number)
    return None


def _step(key: Any) -> str:
    return f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{key!r}]"


def _spelled(number: float) -> str:
    if number != number:
        return "NaN"
    return "Infinity" if number > 0 else "-Infinity"
