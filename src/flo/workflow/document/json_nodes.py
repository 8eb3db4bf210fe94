"""JSON text to nodes, with the surrogate escapes that YAML does not have."""

import json
import re
from typing import Any, Final

from flo.workflow.document.nodes import (
    DEPTH_MAX,
    NODES_MAX,
    Composed,
    DocumentRefused,
    Entry,
    Lines,
    Mapping,
    Node,
    Scalar,
    Sequence,
)
from flo.workflow.document.problem import DocumentPosition, problem

_SPACE = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,30})(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{1,4})?")
_CONSTANTS: Final[dict[str, bool | None]] = {"null": None, "true": True, "false": False}
_CONSTANT = re.compile("null|true|false")
_DECODER: Final = json.JSONDecoder()


class NotJson(Exception):
    """The text may be YAML all the same."""


def compose_json(text: str) -> Composed:
    """The document of the text; raises NotJson, or Refused for JSON that is past a bound."""
    return Composed(_JsonComposer(text).document(), ())


class _JsonComposer:
    def __init__(self, text: str) -> None:
        self._text = text
        self._lines = Lines(text)
        self._at = 0
        self._nodes = 0

    def document(self) -> Node:
        root = self._node(0)
        self._skip()
        if self._at != len(self._text):
            raise NotJson
        return root

    def _node(self, depth: int) -> Node:
        self._skip()
        place = self._lines.place(self._at)
        self._nodes += 1
        if depth > DEPTH_MAX:
            raise DocumentRefused(
                problem("E111", f"expected at most {DEPTH_MAX} levels of nesting", place)
            )
        if self._nodes > NODES_MAX:
            raise DocumentRefused(problem("E111", f"expected at most {NODES_MAX} values", place))
        match self._text[self._at : self._at + 1]:
            case "{":
                return self._mapping(place, depth)
            case "[":
                return self._sequence(place, depth)
            case '"':
                return self._quoted(place)
            case _:
                return self._bare(place)

    def _mapping(self, place: DocumentPosition, depth: int) -> Node:
        entries: dict[str, Entry] = {}
        repeated: list[Entry] = []
        self._at += 1
        if self._take("}"):
            return Mapping((), place)
        while True:
            self._skip()
            key_place = self._lines.place(self._at)
            key = self._string()
            self._expect(":")
            node = self._node(depth + 1)
            entry = Entry(key, key_place, node)
            if key in entries:
                repeated.append(entry)
            else:
                entries[key] = entry
            if self._take("}"):
                return Mapping(tuple(entries.values()), place, tuple(repeated))
            self._expect(",")

    def _sequence(self, place: DocumentPosition, depth: int) -> Node:
        nodes: list[Node] = []
        self._at += 1
        if self._take("]"):
            return Sequence((), place)
        while True:
            nodes.append(self._node(depth + 1))
            if self._take("]"):
                return Sequence(tuple(nodes), place)
            self._expect(",")

    def _quoted(self, place: DocumentPosition) -> Scalar:
        begin = self._at
        text = self._string()
        verbatim = self._at - begin == len(text) + 2
        inside = DocumentPosition(place.line, place.column + 1) if verbatim else None
        return Scalar(text, text, place, inside)

    def _string(self) -> str:
        if self._text[self._at : self._at + 1] != '"':
            raise NotJson
        try:
            value, self._at = _DECODER.raw_decode(self._text, self._at)
            value.encode()  # half of a surrogate pair cannot be kept
        except (json.JSONDecodeError, UnicodeEncodeError) as error:
            raise NotJson from error
        return str(value)

    def _bare(self, place: DocumentPosition) -> Scalar:
        if found := _CONSTANT.match(self._text, self._at):
            value: Any = _CONSTANTS[found.group()]
        elif found := _NUMBER.match(self._text, self._at):
            value = json.loads(found.group())
        else:
            raise NotJson
        self._at = found.end()
        return Scalar(value, found.group(), place, place)

    def _skip(self) -> None:
        space = _SPACE.match(self._text, self._at)
        assert space is not None
        self._at = space.end()

    def _take(self, mark: str) -> bool:
        self._skip()
        taken = self._text.startswith(mark, self._at)
        self._at += len(mark) if taken else 0
        return taken

    def _expect(self, mark: str) -> None:
        if not self._take(mark):
            raise NotJson
