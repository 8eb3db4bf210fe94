"""Paths into JSON documents: get, set and delete what is at one.

    $                      all of it
    $.user.name            a field of a field
    $.items[0]   [-1]      the first of a list, and the last
    $["odd name"]          a field with any name

A set makes the last field of a path, and may append to a list at the index after its last; what
lies on the way must be there.
"""

import re
from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec

from flo.model.errors import Conflict, Invalid, NotFound
from flo.model.ids import check_json
from flo.model.kv import PATH_LENGTH_MAX

Step: TypeAlias = str | int

_PART = re.compile(r'\.([A-Za-z_][\w-]*)|\[(-?[0-9]{1,9})\]|\["((?:[^"\\]|\\.)*)"\]')
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def parse_path(path: str) -> tuple[Step, ...]:
    """The fields and indexes along a path."""
    if len(path) > PATH_LENGTH_MAX or not path.startswith("$"):
        raise _invalid(path, 0)
    steps: list[Step] = []
    at = 1
    while at < len(path):
        part = _PART.match(path, at)
        if part is None:
            raise _invalid(path, at)
        name, index, quoted = part.groups()
        if index is not None:
            steps.append(int(index))
        else:
            steps.append(name if name is not None else _unquoted(quoted, path, at))
        at = part.end()
    return tuple(steps)


def parse_document(text: bytes, what: str) -> Any:
    """The JSON in these bytes."""
    try:
        document = _decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Conflict(f"{what} is no JSON: {error}", code="wrong_type") from error
    check_json(document, what)
    return document


def get_at(document: Any, path: str) -> bytes:
    """What is at a path, as JSON."""
    found = document
    for step in parse_path(path):
        found = _inside(found, step, path)
    return _encode(found)


def set_at(document: Any, path: str, value: Any) -> bytes:
    """The document with another value at a path."""
    steps = parse_path(path)
    if not steps:
        return _encode(value)
    parent = _parent(document, steps, path)
    last = steps[-1]
    if isinstance(parent, dict) and isinstance(last, str):
        parent[last] = value
    elif isinstance(parent, list) and isinstance(last, int) and -len(parent) <= last <= len(parent):
        if last == len(parent):
            parent.append(value)
        else:
            parent[last] = value
    else:
        raise _missing(path, last)
    return _encode(document)


def delete_at(document: Any, path: str) -> bytes:
    """The document without what is at a path."""
    steps = parse_path(path)
    parent = _parent(document, steps, path)
    _inside(parent, steps[-1], path)
    del parent[steps[-1]]
    return _encode(document)


def _parent(document: Any, steps: Sequence[Step], path: str) -> Any:
    for step in steps[:-1]:
        document = _inside(document, step, path)
    return document


def _inside(value: Any, step: Step, path: str) -> Any:
    if isinstance(value, dict) and isinstance(step, str) and step in value:
        return value[step]
    if isinstance(value, list) and isinstance(step, int) and -len(value) <= step < len(value):
        return value[step]
    raise _missing(path, step)


def _missing(path: str, step: Step) -> NotFound:
    return NotFound(f"nothing is at {path!r}: {step!r} is not there", code="path_not_found")


def _invalid(path: str, at: int) -> Invalid:
    return Invalid(
        f'expected a path such as $.user.name, $.items[0] or $["odd name"], got {path[:80]!r} '
        f"(see character {at + 1})",
        code="invalid_path",
    )


def _unquoted(quoted: str, path: str, at: int) -> str:
    try:
        return str(_decode(f'"{quoted}"'))
    except msgspec.DecodeError as error:
        raise _invalid(path, at) from error
