"""Place: which parts of a value a subschema is for, seen from the value itself.

Two subschemas of one schema may both be for the same part of a value. Whether they can be decides
if a schema that refers to itself twice looks at one part twice (and at what is in that four times),
or at two parts once each.
"""

from typing import NamedTuple

from flo.engine.actions.cost.patterns import may_fit

PATTERNS_MAX = 5
"""So many patterns are tried with a name; it is taken to fit none of the others."""

MEMBER, ELEMENT, NAME = "member", "element", "name"


class Place(NamedTuple):
    kind: str
    name: str | None = None
    """The one member it is for."""
    pattern: str | None = None
    """It is for the members whose names fit this."""
    not_names: frozenset[str] = frozenset()
    not_patterns: tuple[str, ...] = ()
    """It is for the other members."""
    first: int = 0
    """Elements: it is for those from this one on …"""
    last: int | None = None
    """… up to this one."""

    def has_member(self, name: str) -> bool:
        if self.name is not None:
            return self.name == name
        if self.pattern is not None:
            return may_fit(self.pattern, name)
        return name not in self.not_names and not any(
            may_fit(pattern, name) for pattern in self.not_patterns[:PATTERNS_MAX]
        )


def may_meet(one: Place, other: Place) -> bool:
    """Whether both can be for the same part of a value."""
    if one.kind != other.kind:
        return False
    if one.kind == ELEMENT:
        ends = [place.last for place in (one, other) if place.last is not None]
        return not ends or max(one.first, other.first) <= min(ends)
    if one.name is not None:
        return other.has_member(one.name)
    if other.name is not None:
        return one.has_member(other.name)
    return one.pattern not in other.not_patterns and other.pattern not in one.not_patterns
