"""Filters, projections and cursors over documents, as Mongo has them."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from copy import deepcopy
from typing import Any, Self

Document = dict[str, Any]
Filter = Mapping[str, Any]

_MISSING = object()


def matches(document: Any, query: Filter | None) -> bool:
    """Whether a document has what a filter asks for."""
    return all(_holds(document, key, wanted) for key, wanted in (query or {}).items())


def _holds(document: Any, key: str, wanted: Any) -> bool:
    if key == "$and":
        return all(matches(document, one) for one in wanted)
    if key == "$or":
        return any(matches(document, one) for one in wanted)
    if key == "$nor":
        return not any(matches(document, one) for one in wanted)
    return _is_met(values_at(document, key), wanted)


def values_at(document: Any, path: str) -> list[Any]:
    """Everything at a dotted path; a list on the way stands for each of its items."""
    found = [document]
    for part in path.split("."):
        found = [value for one in found for value in _step(one, part)]
    return found


def _step(value: Any, part: str) -> list[Any]:
    if isinstance(value, Mapping):
        return [value[part]] if part in value else []
    if isinstance(value, list | tuple):
        if part.isdigit() and int(part) < len(value):
            return [value[int(part)]]
        return [one for item in value if isinstance(item, Mapping) for one in _step(item, part)]
    return []


def _is_met(found: list[Any], wanted: Any) -> bool:
    if isinstance(wanted, Mapping) and wanted and all(key.startswith("$") for key in wanted):
        return all(
            _OPERATORS[operator](found, operand)
            for operator, operand in wanted.items()
            if operator != "$options"
        )
    return _equals(found, wanted)


def _equals(found: list[Any], wanted: Any) -> bool:
    if wanted is None and not found:
        return True
    return any(
        value == wanted or (isinstance(value, list | tuple) and wanted in value) for value in found
    )


def _compared(compare: Callable[[Any, Any], bool]) -> Callable[[list[Any], Any], bool]:
    def holds(found: list[Any], operand: Any) -> bool:
        for value in found:
            try:
                if value is not None and compare(value, operand):
                    return True
            except TypeError:
                continue
        return False

    return holds


_OPERATORS: dict[str, Callable[[list[Any], Any], bool]] = {
    "$eq": _equals,
    "$ne": lambda found, operand: not _equals(found, operand),
    "$in": lambda found, operand: any(_equals(found, one) for one in operand),
    "$nin": lambda found, operand: not any(_equals(found, one) for one in operand),
    "$exists": lambda found, operand: bool(found) is bool(operand),
    "$not": lambda found, operand: not _is_met(found, operand),
    "$gt": _compared(lambda value, operand: value > operand),
    "$gte": _compared(lambda value, operand: value >= operand),
    "$lt": _compared(lambda value, operand: value < operand),
    "$lte": _compared(lambda value, operand: value <= operand),
    "$regex": _compared(lambda value, operand: re.search(operand, value) is not None),
    "$size": _compared(lambda value, operand: len(value) == operand),
    "$elemMatch": lambda found, operand: any(
        matches(item, operand) for value in found if isinstance(value, list) for item in value
    ),
}


def projected(document: Document, projection: Mapping[str, Any] | None) -> Document:
    """Only the fields that are asked for, or all but those that are not wanted."""
    wanted = {path: keep for path, keep in (projection or {}).items() if path != "_id"}
    if not wanted:
        return document
    if not any(wanted.values()):
        shown = deepcopy(document)
        for path in wanted:
            _remove(shown, path.split("."))
        return shown
    return _included(document, [path.split(".") for path, keep in wanted.items() if keep])


def _included(document: Mapping[str, Any], paths: list[list[str]]) -> Document:
    shown: Document = {}
    for name in dict.fromkeys(path[0] for path in paths):
        if name not in document:
            continue
        deeper = [path[1:] for path in paths if path[0] == name]
        shown[name] = document[name] if [] in deeper else _inside(document[name], deeper)
    return shown


def _inside(value: Any, paths: list[list[str]]) -> Any:
    if isinstance(value, Mapping):
        return _included(value, paths)
    if isinstance(value, list):
        return [_included(item, paths) for item in value if isinstance(item, Mapping)]
    return {}


def _remove(document: Any, path: list[str]) -> None:
    for part in path[:-1]:
        document = document.get(part) if isinstance(document, dict) else None
    if isinstance(document, dict):
        document.pop(path[-1], None)


class Cursor:
    """The documents of a query, read when they are asked for."""

    def __init__(self, rows: Callable[[], Awaitable[list[Document]]]) -> None:
        self._rows = rows
        self._order: list[tuple[str, int]] = []
        self._skipped = 0
        self._most: int | None = None

    def sort(self, key: str | list[tuple[str, int]], direction: int = 1) -> Self:
        self._order = [(key, direction)] if isinstance(key, str) else list(key)
        return self

    def skip(self, count: int) -> Self:
        self._skipped = count
        return self

    def limit(self, count: int) -> Self:
        self._most = count or None
        return self

    async def to_list(self, length: int | None = None) -> list[Document]:
        rows = await self._rows()
        for key, direction in reversed(self._order):
            rows.sort(key=lambda row: _sortable(row, key), reverse=direction < 0)
        end = None if self._most is None else self._skipped + self._most
        return rows[self._skipped : end][:length]

    def __aiter__(self) -> AsyncIterator[Document]:
        return self._iterate()

    async def _iterate(self) -> AsyncIterator[Document]:
        for row in await self.to_list():
            yield row


def _sortable(row: Document, key: str) -> tuple[bool, Any]:
    found = values_at(row, key)
    return (True, found[0]) if found and found[0] is not None else (False, 0)
