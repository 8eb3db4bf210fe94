"""Reads a graph document field by field; what is wrong is collected, and taken as absent."""

from collections.abc import Mapping
from math import isfinite
from typing import Any

from flo.model.errors import Invalid
from flo.model.pipelines.names import NAME_LENGTH_MAX

PROBLEMS_MAX = 100


class GraphProblems:
    """What is wrong with a graph, but could be lived with."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def add(self, problem: str) -> None:
        if len(self.found) < PROBLEMS_MAX:
            self.found.append(problem)

    def fatal(self, problem: str) -> None:
        """Refuse the graph: nothing can be made of it."""
        raise Invalid(f"the graph cannot be read: {problem}", code="invalid_graph")


class GraphFields:
    """The fields of one object in the document."""

    def __init__(self, values: Mapping[str, Any], what: str, problems: GraphProblems) -> None:
        self.values = values
        self._what = what
        self._problems = problems

    @classmethod
    def of(cls, value: Any, what: str, problems: GraphProblems) -> "GraphFields":
        if not isinstance(value, Mapping):
            problems.fatal(f"{what}: expected an object, got {_kind(value)}")
        return cls(value, what, problems)

    def called(self, what: str) -> None:
        """How problems name it from now on."""
        self._what = what

    def problem(self, text: str) -> None:
        self._problems.add(f"{self._what}: {text}")

    def has(self, field: str) -> bool:
        return self.values.get(field) is not None

    def only(self, known: frozenset[str]) -> None:
        for field in sorted(self.values.keys() - known):
            self.problem(f"there is no field {str(field)[:80]!r}")

    def name(self, field: str) -> str:
        """A text that must be there."""
        value = self.values.get(field)
        if not isinstance(value, str) or not 1 <= len(value) <= NAME_LENGTH_MAX or "\0" in value:
            self._problems.fatal(
                f"{self._what}: expected a {field} of 1 to {NAME_LENGTH_MAX} characters, "
                f"got {str(value)[:80]!r}"
            )
        return str(value)

    def text(self, field: str, default: str) -> str:
        value = self.values.get(field)
        if value is None:
            return default
        if not isinstance(value, str):
            self.problem(f"expected {field} to be text, got {_kind(value)}")
            return default
        return value

    def names(self, field: str) -> tuple[str, ...]:
        value = self.values.get(field)
        if value is None:
            return ()
        if not isinstance(value, list | tuple) or not all(isinstance(one, str) for one in value):
            self.problem(f"expected {field} to be a list of texts, got {str(value)[:80]}")
            return ()
        return tuple(dict.fromkeys(value))

    def items(self, field: str, most: int) -> list[Any]:
        value = self.values.get(field)
        if value is None:
            return []
        if not isinstance(value, list | tuple):
            self._problems.fatal(f"{self._what}: expected {field} to be a list, got {_kind(value)}")
        if len(value) > most:
            self._problems.fatal(f"expected at most {most} {field}, got {len(value)}")
        return list(value)

    def inner(self, field: str) -> "GraphFields":
        value = self.values.get(field)
        if value is not None and not isinstance(value, Mapping):
            self.problem(f"expected {field} to be an object, got {_kind(value)}")
            value = None
        return GraphFields(value or {}, f"{self._what}, {field}", self._problems)

    def count(self, field: str, least: int = 1) -> int | None:
        """A whole number; None if there is none."""
        value = self.values.get(field)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            self.problem(f"expected {field} to be a number of {least} or more, got {value!r:.80}")
            return None
        return value

    def number(self, field: str, default: float, most: float) -> float:
        value = self.values.get(field)
        if value is None:
            return default
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not isfinite(value) or not 0 <= value <= most:
            self.problem(f"expected {field} to be a number from 0 to {most:g}, got {value!r:.80}")
            return default
        return float(value)


def _kind(value: Any) -> str:
    return "nothing" if value is None else type(value).__name__
