"""Updates of documents by paths: $set, $unset, $inc, $setOnInsert."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

from flowkit.db.query import Document, Filter


def changed(document: Document, update: Mapping[str, Any], *, inserted: bool) -> Document:
    """A copy of the document with an update carried out."""
    after = deepcopy(document)
    for operator, values in update.items():
        change = _OPERATORS.get(operator)
        if change is None:
            raise ValueError(f"expected one of {', '.join(_OPERATORS)}, got {operator!r}")
        if operator == "$setOnInsert" and not inserted:
            continue
        for path, value in values.items():
            change(after, path, deepcopy(value))
    return after


def of_query(query: Filter) -> Document:
    """The document that an upsert makes of its filter."""
    document: Document = {}
    for path, value in query.items():
        if not path.startswith("$") and not (isinstance(value, Mapping) and "$" in str(value)):
            set_at(document, path, value)
    return document


def set_at(document: Any, path: str, value: Any) -> None:
    *way, last = path.split(".")
    for part in way:
        document = _into(document, part)
    if isinstance(document, list):
        document[int(last)] = value
    else:
        document[last] = value


def _into(document: Any, part: str) -> Any:
    if isinstance(document, list):
        return document[int(part)]
    inner = document.get(part)
    if not isinstance(inner, dict | list):
        inner = document[part] = {}
    return inner


def _at(document: Any, path: str) -> Any:
    for part in path.split("."):
        if isinstance(document, list) and part.isdigit() and int(part) < len(document):
            document = document[int(part)]
        elif isinstance(document, Mapping):
            document = document.get(part)
        else:
            return None
    return document


def _add(document: Document, path: str, by: Any) -> None:
    set_at(document, path, (_at(document, path) or 0) + by)


def _unset(document: Any, path: str, _: Any = None) -> None:
    *way, last = path.split(".")
    holder = _at(document, ".".join(way)) if way else document
    if isinstance(holder, dict):
        holder.pop(last, None)


def _push(document: Document, path: str, value: Any) -> None:
    set_at(document, path, [*(_at(document, path) or []), value])


_OPERATORS: dict[str, Callable[[Document, str, Any], None]] = {
    "$set": set_at,
    "$setOnInsert": set_at,
    "$unset": _unset,
    "$inc": _add,
    "$push": _push,
}
