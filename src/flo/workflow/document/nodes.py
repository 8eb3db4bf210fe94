"""The nodes of a document: scalars, mappings and sequences, each with its place.

text ──▸ yaml_nodes.py ─┐
     └─▸ json_nodes.py ─┴─▸ Node ──▸ parse.py ──▸ Definition
"""

import re
from bisect import bisect_right
from typing import Any, Final, NamedTuple, TypeAlias

from flo.workflow.document.problem import DocumentPosition, Problem, problem, shown

TEXT_LENGTH_MAX: Final = 1024 * 1024
"""Bytes of a document."""
NODES_MAX: Final = 50_000
DEPTH_MAX: Final = 50

_LINE_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_UNPRINTABLE = re.compile(
    "[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)


class Scalar(NamedTuple):
    value: str | int | float | bool | None
    text: str
    """As it is written: `1.0` is the number 1, and a fine version."""
    place: DocumentPosition
    inside: DocumentPosition | None = None
    """Where the text itself begins, if the document writes it on one line and without escapes."""


class Entry(NamedTuple):
    key: str
    place: DocumentPosition
    node: "Node"


class Mapping(NamedTuple):
    entries: tuple[Entry, ...]
    place: DocumentPosition
    repeated: tuple[Entry, ...] = ()
    """Entries whose keys stand among the others already."""


class Sequence(NamedTuple):
    nodes: "tuple[Node, ...]"
    place: DocumentPosition


Node: TypeAlias = Scalar | Mapping | Sequence


class Composed(NamedTuple):
    """The root of a document, and what was wrong with it."""

    root: Node
    problems: tuple[Problem, ...]


class DocumentRefused(Exception):
    """The text cannot be read beyond this problem."""

    def __init__(self, found: Problem) -> None:
        super().__init__(found.message)
        self.problem = found


class Lines:
    """Turns offsets into places."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(found.end() for found in _LINE_BREAK.finditer(text))]

    def place(self, offset: int) -> DocumentPosition:
        line = bisect_right(self._starts, offset)
        return DocumentPosition(line, offset - self._starts[line - 1] + 1)


def split_lines(text: str) -> list[str]:
    return _LINE_BREAK.split(text)


def check_length(text: str) -> None:
    if len(text) > TEXT_LENGTH_MAX or len(text.encode(errors="replace")) > TEXT_LENGTH_MAX:
        raise DocumentRefused(
            problem(
                "E111",
                f"expected a document of at most {TEXT_LENGTH_MAX} bytes, got more",
                DocumentPosition(1, 1),
            )
        )


def check_printable(text: str) -> None:
    """Refuse characters that YAML does not allow; JSON may hold some of them."""
    if found := _UNPRINTABLE.search(text):
        raise DocumentRefused(
            problem(
                "E110",
                f"expected printable characters, got U+{ord(found.group()):04X}",
                Lines(text).place(found.start()),
            )
        )


def kind_of(node: Node) -> str:
    """What a node is, as messages say it."""
    match node:
        case Mapping():
            return "a mapping"
        case Sequence():
            return "a list"
        case Scalar(value=None):
            return "nothing"
        case Scalar(value=bool()):
            return f"the boolean {node.text}"
        case Scalar(value=int() | float()):
            return f"the number {shown(node.text)[1:-1]}"
        case _:
            return f"the text {shown(node.value)}"


def plain(node: Node) -> Any:
    """The node as plain values, for the places where any JSON may stand."""
    match node:
        case Mapping():
            return {entry.key: plain(entry.node) for entry in node.entries}
        case Sequence():
            return [plain(inner) for inner in node.nodes]
        case _:
            return node.value
