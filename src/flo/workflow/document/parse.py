"""YAML text to Definition, reporting every mistake with its line.

    text ──compose──▸ Node ──▸ fields_of(struct) says what may stand there ──▸ Definition
                                    └──▸ Problem, and on with a placeholder

One mistake does not hide the next: a part that cannot be read is noted and replaced by a
placeholder, so that what refers to it can still be checked.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from flo.model.base import Record
from flo.workflow.definition import STEPS_MAX, Concurrency, Definition, Schedule, Terminal, Trigger
from flo.workflow.document.fields import (
    EXACTLY_ONE,
    STEP_KINDS,
    TARGETS,
    WRITTEN_TARGETS,
    Field,
    fields_by_key,
    fields_of,
)
from flo.workflow.document.json_nodes import NotJson, compose_json
from flo.workflow.document.node_reader import NodeReader
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
    in_order,
    nearest,
)
from flo.workflow.document.values import (
    NAME,
    PLAN_NAME,
    VALUES,
    WrongValue,
    goal_of,
    target_of,
)
from flo.workflow.document.yaml_nodes import compose_yaml
from flo.workflow.plan.plan import Breaker, Cache, Executor, Health, Plan, RateLimit
from flo.workflow.retry import Poll, Retry
from flo.workflow.steps import (
    BRANCHES_MAX,
    TRANSITIONS_MAX,
    FlatStep,
    ForEach,
    Parallel,
    ParallelBranch,
    ParallelStep,
    Rollback,
    RunStep,
    Sleep,
    Step,
    Target,
    TargetKind,
)

KIND: Final = "Workflow"

BRANCH_TRANSITIONS: Final = {"success": "flo.Completed", "failure": "flo.Failed"}
"""Of a branch that is a single step and says nothing else."""

UNKNOWN: Final = Target(kind=TargetKind.ACTION, name="?")

_PLACEHOLDERS: Final[dict[str, Any]] = {
    "text": "?",
    "path": "$.input",
    "template": "",
    "target": UNKNOWN,
    "json": "null",
    "structs": (),
    "integer": 1,
    "step": RunStep(run=UNKNOWN),
}

_CODE_OF_MISSING: Final[dict[tuple[type[Record], str], str]] = {
    (Definition, "name"): "E101",
    (Definition, "version"): "E102",
    (Definition, "start"): "E103",
    (Plan, "executors"): "E104",
    (Cache, "key"): "E404",
}

_CODE_OF_BOUNDS: Final[dict[type[Record], str]] = {
    Retry: "E401",
    Breaker: "E402",
    RateLimit: "E403",
    Cache: "E404",
    Health: "E405",
    Poll: "E406",
    Schedule: "E407",
    Trigger: "E408",
    Concurrency: "E409",
    ForEach: "E410",
    Parallel: "E410",
}

_SHORT: Final[dict[type[Record], str]] = {
    Rollback: "run",
    Concurrency: "max",
    Terminal: "status",
    Sleep: "duration_ms",
}
"""The field that a single value stands for: `rollback: "@actions/refund"`."""


class Parsed(NamedTuple):
    """What was read. With errors among the problems, the definition has placeholders in it."""

    definition: Definition | None
    problems: tuple[Problem, ...]
    places: Places


def parse(text: str) -> Parsed:
    """Read a document; never raises for what is in it."""
    places = Places()
    try:
        composed = compose(text.removeprefix("\ufeff"))
    except DocumentRefused as refused:
        return Parsed(None, (refused.problem,), places)
    reader = _DocumentReader(places)
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


class _DocumentReader(NodeReader):
    """Reads structs by their fields, steps by what they hold."""

    def __init__(self, places: Places) -> None:
        super().__init__(places)
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

    def document(self, root: Node) -> Definition | None:
        if not isinstance(root, Mapping):
            self._note("E115", f"expected a workflow, got {kind_of(root)}", root.place, ())
            return None
        self._check_kind(root)
        entries = tuple(entry for entry in root.entries if entry.key != "kind")
        found = self._struct(root._replace(entries=entries), (), Definition)
        assert isinstance(found, Definition)
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
        except WrongValue as wrong:
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
        if field.kind.type is Executor and not node.nodes:
            self._note("E104", "expected at least one executor", node.place, path)
        return tuple(one for one in found if one is not None)

    def _table(self, node: Node, path: Path, field: Field, _: type[Record]) -> Any:
        struct = field.kind.type
        stand_in = Plan(executors=()) if struct is Plan else struct()
        twice = "E107" if struct is Terminal else "E113"

        def read(inner: Node, at: Path) -> Record:
            return self._struct(inner, at, struct) or stand_in

        return self._named(node, path, read, PLAN_NAME, twice)

    # ── steps ──

    def _step(self, node: Node, path: Path) -> Step:
        mapping = self._mapping(node, path)
        if mapping is None:
            return RunStep(run=UNKNOWN)
        struct = self._kind_of_step(mapping, path)
        if struct is None:
            return self._stand_in(mapping, path)
        found = self._struct(mapping._replace(repeated=()), path, struct)
        if found is None:
            return _DocumentReader(self._places)._stand_in(mapping, path)  # its problems are known
        assert isinstance(found, Step)
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

    def _stand_in(self, mapping: Mapping, path: Path) -> RunStep:
        """For a step that cannot be read: its transitions may still be checked."""
        inner = (*path, "transitions")
        for entry in mapping.entries:
            if entry.key == "transitions":
                self._places.note(inner, entry.place, entry.node.place)
                found = self._transitions(entry.node, inner) or {}
                return RunStep(run=UNKNOWN, transitions=found)
        return RunStep(run=UNKNOWN)

    def _steps(self, node: Node, path: Path) -> dict[str, Step] | None:
        found = self._named(node, path, self._step, NAME, "E105")
        if found is not None and len(found) > STEPS_MAX:
            message = f"expected at most {STEPS_MAX} steps, got {len(found)}"
            self._note("E111", message, node.place, path)
        return found

    def _transitions(self, node: Node, path: Path) -> dict[str, str] | None:
        mapping = self._mapping(node, path)
        if mapping is None:
            return None
        if len(mapping.entries) > TRANSITIONS_MAX:
            message = f"expected at most {TRANSITIONS_MAX} transitions"
            self._note("E111", message, mapping.place, path)
        found: dict[str, str] = {}
        for entry in mapping.entries:
            inner = (*path, entry.key)
            self._places.note(inner, entry.place, entry.node.place)
            try:
                found[entry.key] = goal_of(entry.node)
            except WrongValue as wrong:
                self._note(wrong.code or "E119", str(wrong), entry.node.place, inner)
        return found

    # ── branches ──

    def _branches(self, node: Node, path: Path) -> dict[str, ParallelBranch] | None:
        found = self._named(node, path, self._branch, NAME, "E105")
        if found is not None and not 1 <= len(found) <= BRANCHES_MAX:
            message = f"expected 1 to {BRANCHES_MAX} branches, got {len(found)}"
            self._note("E410", message, node.place, path)
        return found

    def _branch(self, node: Node, path: Path) -> ParallelBranch:
        if isinstance(node, Scalar):
            node = Mapping((Entry("run", node.place, node),), node.place)
        if isinstance(node, Mapping) and any(entry.key == "start" for entry in node.entries):
            return self._graph(node, path)
        step = self._flat(self._step(node, path), path)
        if isinstance(node, Mapping) and not any(e.key == "transitions" for e in node.entries):
            step = _with_transitions(step)
        return ParallelBranch(start=step)

    def _graph(self, node: Mapping, path: Path) -> ParallelBranch:
        start: FlatStep = RunStep(run=UNKNOWN)
        steps: dict[str, FlatStep] = {}
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
        return ParallelBranch(start=start, steps=steps)

    def _flat(self, step: Step, path: Path) -> FlatStep:
        if not isinstance(step, ParallelStep):
            return step
        place = self._places.key((*path, "parallel"))
        hint = 'make it a workflow of its own: run: "@workflow/name"'
        self._note("E410", "a branch cannot hold a parallel step", place, path, hint=hint)
        return RunStep(run=UNKNOWN, transitions=step.transitions)

    def _target(self, node: Node, path: Path, struct: type[Record]) -> Target | None:
        try:
            return target_of(node, TARGETS.get(struct, WRITTEN_TARGETS))
        except WrongValue as wrong:
            self._note(wrong.code, str(wrong), node.place, path, hint=wrong.hint)
            return None

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

    def _same_twice(self, entry: Entry, first: Entry, path: Path) -> None:
        message = f"{entry.key} and {first.key} (line {first.place.line}) are the same field"
        self._note("E113", message, entry.place, (*path, entry.key))

    def _missing(
        self, struct: type[Record], field: Field, place: DocumentPosition, path: Path
    ) -> None:
        code = _CODE_OF_MISSING.get((struct, field.name), "E117")
        self._note(code, f"expected {dotted(path)}, which is missing", place, path)


def _long_form(node: Node, struct: type[Record]) -> Node:
    """A single value where a struct is expected becomes the field that it stands for."""
    if struct not in _SHORT or not isinstance(node, Scalar):
        return node
    key = _SHORT[struct]
    if struct is Sleep and isinstance(node.value, str) and node.value.startswith("$"):
        key = "duration_from"
    return Mapping((Entry(key, node.place, node),), node.place)


def _with_transitions(step: FlatStep) -> FlatStep:
    return msgspec.structs.replace(step, transitions=dict(BRANCH_TRANSITIONS))
