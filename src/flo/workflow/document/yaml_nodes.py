"""YAML text to nodes, with the plain scalars of YAML 1.2 and a bound on everything.

The parser of PyYAML gives events; what they mean is decided here. `no`, `on`, `1:30` and `010` are
texts, as nobody knows what else they might be. An alias counts as everything it stands for, so a
document cannot grow beyond its bounds by repeating itself.
"""

import re
from collections.abc import Iterator
from typing import Any, Final, NoReturn

import yaml

from flo.workflow.document.nodes import (
    DEPTH_MAX,
    NODES_MAX,
    Composed,
    DocumentRefused,
    Entry,
    Mapping,
    Node,
    Scalar,
    Sequence,
    kind_of,
    split_lines,
)
from flo.workflow.document.problem import DocumentPosition, Problems, problem

_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TEXT_TAGS: Final = ("!", "tag:yaml.org,2002:str")

_CONSTANTS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]{0,30})")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]{1,4})?")


def compose_yaml(text: str) -> Composed:
    """The one document of the text; raises Refused where it cannot be read on."""
    composer = _YamlComposer(text)
    root = composer.document()
    return Composed(root, tuple(composer.problems))


class _YamlComposer:
    def __init__(self, text: str) -> None:
        self.problems = Problems()
        self._text = text
        self._events = self._read_events()
        self._anchors: dict[str, tuple[Node, int, int] | None] = {}
        """None while the node is under way; otherwise also how many nodes it is, and how deep."""

    def document(self) -> Node:
        next(self._events)  # the stream begins
        event = next(self._events)
        if isinstance(event, yaml.StreamEndEvent):
            self._refuse("E112", "expected a workflow, got an empty text", DocumentPosition(1, 1))
        root, _, _ = self._node(next(self._events), 0)
        next(self._events)  # the document ends
        event = next(self._events)
        if not isinstance(event, yaml.StreamEndEvent):
            self._refuse(
                "E112",
                "expected one document, got several",
                _place(event),
                hint="put each workflow in a file of its own",
            )
        return root

    def _read_events(self) -> Iterator[Any]:
        try:
            yield from yaml.parse(self._text, Loader=_LOADER)
        except yaml.MarkedYAMLError as error:
            self._refuse_syntax(error)
        except yaml.YAMLError as error:
            self._refuse("E110", f"expected YAML or JSON: {error}", DocumentPosition(1, 1))

    def _refuse_syntax(self, error: yaml.MarkedYAMLError) -> NoReturn:
        mark = error.problem_mark or error.context_mark
        place = DocumentPosition(mark.line + 1, mark.column + 1) if mark else DocumentPosition(1, 1)
        lines = split_lines(self._text)
        if place.line > len(lines):  # the end of the text, seen as a line of its own
            place = DocumentPosition(len(lines), len(lines[-1]) + 1)
        character = lines[place.line - 1][place.column - 1 : place.column]
        if character == "\t":
            hint = "indent with spaces only"
            self._refuse("E110", "expected spaces, got a tab", place, hint)
        if character in ("@", "`"):
            hint = f'put it in quotes: "{character}…"'
            self._refuse("E110", f"a value cannot begin with {character}", place, hint)
        message = ", ".join(part for part in (error.context, error.problem) if part)
        self._refuse("E110", f"expected YAML or JSON: {message}", place)

    def _node(self, event: Any, depth: int) -> tuple[Node, int, int]:
        """The node that begins with this event, how many nodes it is, and how deep it goes."""
        if depth > DEPTH_MAX:
            self._refuse("E111", f"expected at most {DEPTH_MAX} levels of nesting", _place(event))
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        node, size, height = self._fresh(event, depth)
        if size > NODES_MAX:
            self._refuse("E111", f"expected at most {NODES_MAX} values", _place(event))
        if event.anchor is not None:
            self._anchors[event.anchor] = (node, size, height)
        return node, size, height

    def _alias(self, event: Any) -> tuple[Node, int, int]:
        if event.anchor not in self._anchors:
            self._refuse(
                "E110", f"expected an anchor &{event.anchor} before *{event.anchor}", _place(event)
            )
        found = self._anchors[event.anchor]
        if found is None:
            self._refuse("E111", f"*{event.anchor} stands inside of itself", _place(event))
        return found

    def _fresh(self, event: Any, depth: int) -> tuple[Node, int, int]:
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event), 1, 0
        self._check_tag(event)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(event, depth)
        return self._mapping(event, depth)

    def _sequence(self, start: Any, depth: int) -> tuple[Node, int, int]:
        nodes: list[Node] = []
        size, height = 1, 0
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            node, inner_size, inner_height = self._node(event, depth + 1)
            size, height = self._grow(start, depth, size + inner_size, max(height, inner_height))
            nodes.append(node)
        return Sequence(tuple(nodes), _place(start)), size, height + 1

    def _mapping(self, start: Any, depth: int) -> tuple[Node, int, int]:
        entries: dict[str, Entry] = {}
        repeated: list[Entry] = []
        size, height = 1, 0
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key, key_size, _ = self._node(event, depth + 1)
            node, inner_size, inner_height = self._node(next(self._events), depth + 1)
            size += key_size
            size, height = self._grow(start, depth, size + inner_size, max(height, inner_height))
            self._keep(entries, repeated, key, _place(event), node)
        kept = Mapping(tuple(entries.values()), _place(start), tuple(repeated))
        return kept, size, height + 1

    def _grow(self, start: Any, depth: int, size: int, height: int) -> tuple[int, int]:
        if size > NODES_MAX:
            self._refuse(
                "E111", f"expected at most {NODES_MAX} values, aliases included", _place(start)
            )
        if depth + height > DEPTH_MAX:
            self._refuse("E111", f"expected at most {DEPTH_MAX} levels of nesting", _place(start))
        return size, height

    def _keep(
        self,
        entries: dict[str, Entry],
        repeated: list[Entry],
        key: Node,
        place: DocumentPosition,
        node: Node,
    ) -> None:
        match key:
            case Scalar(value=str() as name) if name in entries:
                repeated.append(Entry(name, place, node))
            case Scalar(value="<<") if key.inside == key.place:  # without quotes
                self._note("E114", "merge keys (<<) are not part of the format", place)
            case Scalar(value=str() as name):
                entries[name] = Entry(name, place, node)
            case Scalar(text=text):
                message = f"expected a text for a key, got {kind_of(key)}"
                self._note("E116", message, place, f'write it in quotes: "{text}"')
            case _:
                self._note("E116", f"expected a text for a key, got {kind_of(key)}", place)

    def _scalar(self, event: Any) -> Scalar:
        text, place = event.value, _place(event)
        if event.implicit[0] and event.tag is None:
            return Scalar(plain_value(text), text, place, place)
        self._check_tag(event)
        begin, end = event.start_mark, event.end_mark
        verbatim = begin.line == end.line and end.column - begin.column == len(text) + 2
        return Scalar(
            text, text, place, DocumentPosition(place.line, place.column + 1) if verbatim else None
        )

    def _check_tag(self, event: Any) -> None:
        if event.tag is not None and event.tag not in _TEXT_TAGS:
            self._note("E116", f"tags are not part of the format, got {event.tag}", _place(event))

    def _note(self, code: str, message: str, place: DocumentPosition, hint: str = "") -> None:
        self.problems.add(problem(code, message, place, hint=hint))

    def _refuse(self, code: str, message: str, place: DocumentPosition, hint: str = "") -> NoReturn:
        raise DocumentRefused(problem(code, message, place, hint=hint))


def plain_value(text: str) -> str | int | float | bool | None:
    """What a scalar without quotes is."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    return text


def _place(event: Any) -> DocumentPosition:
    return DocumentPosition(event.start_mark.line + 1, event.start_mark.column + 1)
