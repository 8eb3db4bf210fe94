"""Arguments that are one of a few words."""

from enum import Enum
from typing import TypeVar

from flo.model.errors import Invalid

E = TypeVar("E", bound=Enum)


def one_of(kind: type[E], value: E | str, name: str) -> E:
    """The member with this value; Invalid names those that there are."""
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(repr(one.value) for one in kind)
        raise Invalid(f"expected {name} as one of {known}, got {value!r}") from None


def one_if_any(kind: type[E], value: E | str | None, name: str) -> E | None:
    return None if value is None else one_of(kind, value, name)
