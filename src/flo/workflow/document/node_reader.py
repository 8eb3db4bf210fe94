"""Reads the parts that many fields share: mappings, tables of named things, texts, JSON.

What is wrong is noted as a Problem, and where things stand in Places.
"""

import re
from collections.abc import Callable
from typing import Any, TypeVar

from flo.model.ids import NOT_FIRST
from flo.workflow.document.nodes import Entry, Mapping, Node, Scalar, Sequence, kind_of
from flo.workflow.document.places import Path, Places, dotted
from flo.workflow.document.problem import DocumentPosition, Problems, nearest, problem, shown
from flo.workflow.document.values import WrongValue, json_text
from flo.workflow.field_types import NAME_LENGTH_MAX
from flo.workflow.mapping import MARK

T = TypeVar("T")

_PATH_IN_JSON = re.compile(r'"(\$\.[^"]*)"')


class NodeReader:
    def __init__(self, places: Places) -> None:
        self.problems = Problems()
        self._places = places

    def _note(
        self, code: str, message: str, place: DocumentPosition, path: Path, hint: str = ""
    ) -> None:
        self.problems.add(problem(code, message, place, dotted(path), hint=hint))

    def _mapping(self, node: Node, path: Path, twice: str = "E113") -> Mapping | None:
        if isinstance(node, Mapping):
            self._check_repeated(node, path, twice)
            return node
        self._note("E115", f"expected a mapping, got {kind_of(node)}", node.place, path)
        return None

    def _named(
        self,
        node: Node,
        path: Path,
        read: Callable[[Node, Path], T],
        pattern: re.Pattern[str],
        twice: str,
    ) -> dict[str, T] | None:
        """A table of named things, each read by the same function."""
        mapping = self._mapping(node, path, twice)
        if mapping is None:
            return None
        found: dict[str, T] = {}
        for entry in mapping.entries:
            inner = (*path, entry.key)
            self._places.note(inner, entry.place, entry.node.place)
            if len(entry.key) > NAME_LENGTH_MAX or not pattern.fullmatch(entry.key):
                message = (
                    f"expected a name of letters, digits, _ and -, {NOT_FIRST}, "
                    f"got {shown(entry.key)}"
                )
                self._note("E119", message, entry.place, inner)
            found[entry.key] = read(entry.node, inner)
        return found

    def _texts(self, node: Node, path: Path) -> tuple[str, ...] | None:
        nodes = node.nodes if isinstance(node, Sequence) else (node,)
        found = []
        for inner in nodes:
            if isinstance(inner, Scalar) and isinstance(inner.value, str) and inner.value:
                found.append(inner.value)
            else:
                message = f"expected a list of texts, got {kind_of(inner)}"
                self._note("E115", message, inner.place, path)
        return tuple(found)

    def _json(self, node: Node, path: Path) -> str | None:
        self._check_json(node, path)
        try:
            return json_text(node)
        except WrongValue as wrong:
            self._note("E115", str(wrong), node.place, path)
            return None

    def _check_json(self, node: Node, path: Path) -> None:
        match node:
            case Mapping():
                self._check_repeated(node, path)
                for entry in node.entries:
                    self._check_json(entry.node, path)
            case Sequence():
                for inner in node.nodes:
                    self._check_json(inner, path)
            case Scalar(value=str()):
                self._note_paths(node, path)
            case Scalar():
                pass

    def _note_paths(self, node: Scalar, path: Path) -> None:
        """Remember where the paths of a text stand, if that is known."""
        if node.text.startswith(MARK):
            self._places.note_text(path, node.text, node.place)
        elif node.inside is not None:
            line, column = node.inside
            for found in _PATH_IN_JSON.finditer(node.text):
                place = DocumentPosition(line, column + found.start(1))
                self._places.note_text(path, found.group(1), place)

    def _check_repeated(self, mapping: Mapping, path: Path, code: str = "E113") -> None:
        first = {entry.key: entry.place.line for entry in mapping.entries}
        for entry in mapping.repeated:
            self._note(
                code,
                f"{shown(entry.key)} stands here twice",
                entry.place,
                (*path, entry.key),
                hint=f"it stands in line {first[entry.key]} already" if entry.key in first else "",
            )

    def _unknown(self, entry: Entry, path: Path, known: Any) -> None:
        if self.problems.full:
            return
        message = f"unknown key {shown(entry.key)}" + (f" at {dotted(path)}" if path else "")
        hint = nearest(entry.key, known) or f"known are {', '.join(_first_spellings(known))}"
        self._note("E114", message, entry.place, (*path, entry.key), hint=hint)


def _first_spellings(known: Any) -> list[str]:
    if not isinstance(known, dict):
        return list(known)
    return list(dict.fromkeys(field.key for field in known.values()))
