"""YAML text to Definition, reporting every mistake with its line.

    text ──compose──▸ Node ──▸ fields_of(struct) says what may stand there ──▸ Definition
                                    └──▸ Problem, and on with a placeholder

One mistake does not hide the next: a part that cannot be read is noted and replaced by a
placeholder, so that what refers to it can still be checked.
"""

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from flo.model.base import Record
from flo.workflow import definition as d
from flo.workflow.document.fields import (
    EXACTLY_ONE,
    STEP_KINDS,
    TARGETS,
    Field,
    fields_by_key,
    fields_of,
)
from flo.workflow.document.json_nodes import NotJson, compose_json
from flo.workflow.document.nodes import (
    Composed,
    DocumentRefused,
    Entry,
    Mapping,
    Node,
    Scalar,
    Sequence,
    check_length,
    check_printable,
    kind_of,
)
from flo.workflow.document.places import Path, Places, dotted
from flo.workflow.document.problem import (
    DocumentPosition,
    Problem,
    Problems,
    in_order,
    nearest,
    problem,
    shown,
)
from flo.workflow.document.values import (
    NAME,
    PLAN_NAME,
    VALUES,
    Wrong,
    goal_of,
    json_text,
    target_of,
)
from flo.workflow.document.yaml_nodes import compose_yaml
from flo.workflow.mapping import MARK

T = TypeVar("T")

KIND: Final = "Workflow"

BRANCH_TRANSITIONS: Final = {"success": "flo.Completed", "failure": "flo.Failed"}
"""Of a branch that is a single step and says nothing else."""

_PATH_IN_JSON = re.compile(r'"(\$\.[^"]*)"')

UNKNOWN: Final = d.Target(kind=d.TargetKind.ACTION, name="?")

_PLACEHOLDERS: Final[dict[str, Any]] = {
    "text": "?",
    "path": "$.input",
    "template": "",
    "target": UNKNOWN,
    "json": "null",
    "structs": (),
    "integer": 1,
    "step": d.RunStep(run=UNKNOWN),
}

_CODE_OF_MISSING: Final[dict[tuple[type[Record], str], str]] = {
    (d.Definition, "name"): "E101",
    (d.Definition, "version"): "E102",
    (d.Definition, "start"): "E103",
    (d.Plan, "executors"): "E104",
    (d.Cache, "key"): "E404",
}

_CODE_OF_BOUNDS: Final[dict[type[Record], str]] = {
    d.Retry: "E401",
    d.Breaker: "E402",
    d.RateLimit: "E403",
    d.Cache: "E404",
    d.Health: "E405",
    d.Poll: "E406",
    d.Schedule: "E407",
    d.Trigger: "E408",
    d.Concurrency: "E409",
    d.ForEach: "E410",
    d.Parallel: "E410",
}

_SHORT: Final[dict[type[Record], str]] = {
    d.Rollback: "run",
    d.Concurrency: "max",
    d.Terminal: "status",
    d.Sleep: "duration_ms",
}
"""The field that a single value stands for: `rollback: "@actions/refund"`."""


class Parsed(NamedTuple):
    """What was read. With errors among the problems, the definition has placeholders in it."""

    definition: d.Definition | None
    problems: tuple[Problem, ...]
    places: Places


def parse(text: str) -> Parsed:
    """Read a document; never raises for what is in it."""
    places = Places()
    try:
        composed = compose(text.removeprefix("\ufeff"))
    except DocumentRefused as refused:
        return Parsed(None, (refused.problem,), places)
    reader = _Reader(places)
    definition = reader.document(composed.root)
    return Parsed(definition, in_order([*composed.problems, *reader.problems]), places)


def compose(text: str) -> Composed:
    """The text as nodes: JSON if it is JSON, otherwise YAML."""
    check_length(text)
    if text.lstrip(" \t\r\n").startswith("{"):
        try:
            return compose_json(text)
        except NotJson:
            pass
    check_printable(text)
    return compose_yaml(text)


class _Reader:
    def __init__(self, places: Places) -> None:
        self.problems = Problems()
        self._places = places
        self._kinds: dict[str, Callable[[Node, Path, Field, type[Record]], Any]] = {
            "struct": lambda node, path, field, _: self._struct(node, path, field.kind.type),
            "structs": self._structs,
            "table": self._table,
            "step": lambda node, path, *_: self._step(node, path),
            "steps": lambda node, path, *_: self._steps(node, path),
            "branches": lambda node, path, *_: self._branches(node, path),
            "transitions": lambda node, path, *_: self._transitions(node, path),
            "texts": lambda node, path, *_: self._texts(node, path),
            "json": lambda node, path, *_: self._json(node, path),
            "target": lambda node, path, _, struct: self._target(node, path, struct),
        }

    # ── structs ──

    def document(self, root: Node) -> d.Definition | None:
        if not isinstance(root, Mapping):
            self._note("E115", f"expected a workflow, got {kind_of(root)}", root.place, ())
            return None
        self._check_kind(root)
        entries = tuple(entry for entry in root.entries if entry.key != "kind")
        found = self._struct(root._replace(entries=entries), (), d.Definition)
        assert isinstance(found, d.Definition)
        return found

    def _check_kind(self, root: Mapping) -> None:
        entry = next((entry for entry in root.entries if entry.key == "kind"), None)
        if entry is None:
            self._note("E108", "expected kind: Workflow", root.place, ("kind",))
        elif not isinstance(entry.node, Scalar) or entry.node.value != KIND:
            message = f"expected kind: {KIND}, got {kind_of(entry.node)}"
            self._note("E108", message, entry.node.place, ("kind",))

    def _struct(self, node: Node, path: Path, struct: type[Record]) -> Record | None:
        """The struct that the node writes; None if too little of it is there."""
        mapping = self._mapping(_long_form(node, struct), path)
        if mapping is None:
            return None
        known = fields_by_key(struct)
        values: dict[str, Any] = {}
        seen: dict[str, Entry] = {}
        for entry in mapping.entries:
            field = known.get(entry.key)
            if field is None:
                self._unknown(entry, path, known)
            elif field.name in seen:
                self._same_twice(entry, seen[field.name], path)
            else:
                seen[field.name] = entry
                self._take(entry, path, field, struct, values)
        self._check_one_of(mapping, path, struct, seen)
        return self._build(mapping, path, struct, seen, values)

    def _take(
        self, entry: Entry, path: Path, field: Field, struct: type[Record], values: dict[str, Any]
    ) -> None:
        inner = (*path, field.key)
        self._places.note(inner, entry.place, entry.node.place)
        if isinstance(entry.node, Scalar) and entry.node.value is None:
            if field.required:
                self._missing(struct, field, entry.place, inner)
            return
        value = self._value(entry.node, inner, field, struct)
        if value is not None:
            values[field.name] = value

    def _build(
        self,
        mapping: Mapping,
        path: Path,
        struct: type[Record],
        seen: dict[str, Entry],
        values: dict[str, Any],
    ) -> Record | None:
        for field in fields_of(struct):
            if not field.required or field.name in values:
                continue
            if field.name not in seen:
                self._missing(struct, field, mapping.place, (*path, field.key))
            if field.kind.word not in _PLACEHOLDERS:
                return None
            values[field.name] = _PLACEHOLDERS[field.kind.word]
        return struct(**values)

    def _value(self, node: Node, path: Path, field: Field, struct: type[Record]) -> Any:
        if reader := self._kinds.get(field.kind.word):
            return reader(node, path, field, struct)
        try:
            return VALUES[field.kind.word](node, field)
        except Wrong as wrong:
            code = wrong.code or _CODE_OF_BOUNDS.get(struct, "E119")
            if not wrong.code and (struct, field.name) in _CODE_OF_MISSING:
                code = _CODE_OF_MISSING[struct, field.name]
            self._note(code, str(wrong), node.place, path, hint=wrong.hint)
            return None

    def _structs(self, node: Node, path: Path, field: Field, _: type[Record]) -> Any:
        if not isinstance(node, Sequence):
            self._note("E115", f"expected a list, got {kind_of(node)}", node.place, path)
            return None
        found = []
        for number, inner in enumerate(node.nodes):
            inner_path = (*path, f"[{number}]")
            self._places.note(inner_path, inner.place, inner.place)
            found.append(self._struct(inner, inner_path, field.kind.type))
        if field.kind.type is d.Executor and not node.nodes:
            self._note("E104", "expected at least one executor", node.place, path)
        return tuple(one for one in found if one is not None)

    def _table(self, node: Node, path: Path, field: Field, _: type[Record]) -> Any:
        struct = field.kind.type
        stand_in = d.Plan(executors=()) if struct is d.Plan else struct()
        twice = "E107" if struct is d.Terminal else "E113"

        def read(inner: Node, at: Path) -> Record:
            return self._struct(inner, at, struct) or stand_in

        return self._named(node, path, read, PLAN_NAME, twice)

    # ── steps ──

    def _step(self, node: Node, path: Path) -> d.Step:
        mapping = self._mapping(node, path)
        if mapping is None:
            return d.RunStep(run=UNKNOWN)
        struct = self._kind_of_step(mapping, path)
        if struct is None:
            return self._stand_in(mapping, path)
        found = self._struct(mapping._replace(repeated=()), path, struct)
        if found is None:
            return _Reader(self._places)._stand_in(mapping, path)  # its problems are known
        assert isinstance(found, d.Step)
        return found

    def _kind_of_step(self, mapping: Mapping, path: Path) -> type[Record] | None:
        by_key = {
            key: struct
            for first, struct in STEP_KINDS.items()
            for key in fields_by_key(struct)
            if key == first or fields_by_key(struct)[key].key == first
        }
        found = [entry for entry in mapping.entries if entry.key in by_key]
        if not found:
            expected = ", ".join(STEP_KINDS)
            message = f"expected a step with one of {expected}"
            hints = (nearest(entry.key, by_key) for entry in mapping.entries)
            self._note("E117", message, mapping.place, path, hint=next(filter(None, hints), ""))
            return None
        for other in found[1:]:
            if by_key[other.key] is not by_key[found[0].key]:
                message = f"a step has one of {found[0].key} and {other.key}, got both"
                self._note("E120", message, other.place, (*path, other.key))
                return None
        return by_key[found[0].key]

    def _stand_in(self, mapping: Mapping, path: Path) -> d.RunStep:
        """For a step that cannot be read: its transitions may still be checked."""
        inner = (*path, "transitions")
        for entry in mapping.entries:
            if entry.key == "transitions":
                self._places.note(inner, entry.place, entry.node.place)
                found = self._transitions(entry.node, inner) or {}
                return d.RunStep(run=UNKNOWN, transitions=found)
        return d.RunStep(run=UNKNOWN)

    def _steps(self, node: Node, path: Path) -> dict[str, d.Step] | None:
        found = self._named(node, path, self._step, NAME, "E105")
        if found is not None and len(found) > d.STEPS_MAX:
            message = f"expected at most {d.STEPS_MAX} steps, got {len(found)}"
            self._note("E111", message, node.place, path)
        return found

    def _transitions(self, node: Node, path: Path) -> dict[str, str] | None:
        mapping = self._mapping(node, path)
        if mapping is None:
            return None
        if len(mapping.entries) > d.TRANSITIONS_MAX:
            message = f"expected at most {d.TRANSITIONS_MAX} transitions"
            self._note("E111", message, mapping.place, path)
        found: dict[str, str] = {}
        for entry in mapping.entries:
            inner = (*path, entry.key)
            self._places.note(inner, entry.place, entry.node.place)
            try:
                found[entry.key] = goal_of(entry.node)
            except Wrong as wrong:
                self._note(wrong.code or "E119", str(wrong), entry.node.place, inner)
        return found

    # ── branches ──

    def _branches(self, node: Node, path: Path) -> dict[str, d.ParallelBranch] | None:
        found = self._named(node, path, self._branch, NAME, "E105")
        if found is not None and not 1 <= len(found) <= d.BRANCHES_MAX:
            message = f"expected 1 to {d.BRANCHES_MAX} branches, got {len(found)}"
            self._note("E410", message, node.place, path)
        return found

    def _branch(self, node: Node, path: Path) -> d.ParallelBranch:
        if isinstance(node, Scalar):
            node = Mapping((Entry("run", node.place, node),), node.place)
        if isinstance(node, Mapping) and any(entry.key == "start" for entry in node.entries):
            return self._graph(node, path)
        step = self._flat(self._step(node, path), path)
        if isinstance(node, Mapping) and not any(e.key == "transitions" for e in node.entries):
            step = _with_transitions(step)
        return d.ParallelBranch(start=step)

    def _graph(self, node: Mapping, path: Path) -> d.ParallelBranch:
        start: d.FlatStep = d.RunStep(run=UNKNOWN)
        steps: dict[str, d.FlatStep] = {}
        self._check_repeated(node, path)
        for entry in node.entries:
            inner = (*path, entry.key)
            self._places.note(inner, entry.place, entry.node.place)
            if entry.key == "start":
                start = self._flat(self._step(entry.node, inner), inner)
            elif entry.key == "steps":
                found = self._steps(entry.node, inner) or {}
                steps = {name: self._flat(step, (*inner, name)) for name, step in found.items()}
            else:
                self._unknown(entry, path, ("start", "steps"))
        return d.ParallelBranch(start=start, steps=steps)

    def _flat(self, step: d.Step, path: Path) -> d.FlatStep:
        if not isinstance(step, d.ParallelStep):
            return step
        place = self._places.key((*path, "parallel"))
        hint = 'make it a workflow of its own: run: "@workflow/name"'
        self._note("E410", "a branch cannot hold a parallel step", place, path, hint=hint)
        return d.RunStep(run=UNKNOWN, transitions=step.transitions)

    # ── smaller things ──

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
            if len(entry.key) > d.NAME_LENGTH_MAX or not pattern.fullmatch(entry.key):
                message = f"expected a name of letters, digits, _ and -, got {shown(entry.key)}"
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
        except Wrong as wrong:
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
        """Remember where the paths of a text stand, if that can be told."""
        if node.text.startswith(MARK):
            self._places.note_text(path, node.text, node.place)
        elif node.inside is not None:
            line, column = node.inside
            for found in _PATH_IN_JSON.finditer(node.text):
                place = DocumentPosition(line, column + found.start(1))
                self._places.note_text(path, found.group(1), place)

    def _target(self, node: Node, path: Path, struct: type[Record]) -> d.Target | None:
        try:
            return target_of(node, TARGETS.get(struct, tuple(d.TargetKind)))
        except Wrong as wrong:
            self._note(wrong.code, str(wrong), node.place, path, hint=wrong.hint)
            return None

    def _mapping(self, node: Node, path: Path, twice: str = "E113") -> Mapping | None:
        if isinstance(node, Mapping):
            self._check_repeated(node, path, twice)
            return node
        self._note("E115", f"expected a mapping, got {kind_of(node)}", node.place, path)
        return None

    # ── what can be wrong ──

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

    def _check_one_of(
        self, mapping: Mapping, path: Path, struct: type[Record], seen: dict[str, Entry]
    ) -> None:
        names = EXACTLY_ONE.get(struct, ())
        keys = [field.key for field in fields_of(struct) if field.name in names]
        given = [entry for name, entry in seen.items() if name in names]
        if names and not given:
            self._note("E117", f"expected one of {', '.join(keys)}", mapping.place, path)
        for entry in given[1:]:
            message = f"expected only one of {', '.join(keys)}, got {entry.key} too"
            self._note("E120", message, entry.place, (*path, entry.key))

    def _unknown(self, entry: Entry, path: Path, known: Any) -> None:
        if self.problems.full:
            return
        message = f"unknown key {shown(entry.key)}" + (f" at {dotted(path)}" if path else "")
        hint = nearest(entry.key, known) or f"known are {', '.join(_first_spellings(known))}"
        self._note("E114", message, entry.place, (*path, entry.key), hint=hint)

    def _same_twice(self, entry: Entry, first: Entry, path: Path) -> None:
        message = f"{entry.key} and {first.key} (line {first.place.line}) are the same field"
        self._note("E113", message, entry.place, (*path, entry.key))

    def _missing(
        self, struct: type[Record], field: Field, place: DocumentPosition, path: Path
    ) -> None:
        code = _CODE_OF_MISSING.get((struct, field.name), "E117")
        self._note(code, f"expected {dotted(path)}, which is missing", place, path)

    def _note(
        self, code: str, message: str, place: DocumentPosition, path: Path, hint: str = ""
    ) -> None:
        self.problems.add(problem(code, message, place, dotted(path), hint=hint))


def _long_form(node: Node, struct: type[Record]) -> Node:
    """A single value where a struct is expected becomes the field that it stands for."""
    if struct not in _SHORT or not isinstance(node, Scalar):
        return node
    key = _SHORT[struct]
    if struct is d.Sleep and isinstance(node.value, str) and node.value.startswith("$"):
        key = "duration_from"
    return Mapping((Entry(key, node.place, node),), node.place)


def _with_transitions(step: d.FlatStep) -> d.FlatStep:
    return msgspec.structs.replace(step, transitions=dict(BRANCH_TRANSITIONS))


def _first_spellings(known: Any) -> list[str]:
    if not isinstance(known, dict):
        return list(known)
    return list(dict.fromkeys(field.key for field in known.values()))
