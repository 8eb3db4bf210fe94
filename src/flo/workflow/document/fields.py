"""What the document may write in each struct, derived from its type hints.

    class Retry:
        max_attempts: Annotated[Attempts, Meta(description=…, extra={"aliases": ("max",)})] = 3
                 │
                 ▼
    Field(name="max_attempts", key="max_attempts", keys=("max_attempts", "maxAttempts", "max"), …)

The reader, the writer, the JSON Schema and the reference all go by these fields.
"""

from enum import StrEnum
from functools import cache
from types import UnionType
from typing import Annotated, Any, Final, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from flo.model.base import Record
from flo.workflow.definition import Definition, Schedule
from flo.workflow.plan.plan import Executor
from flo.workflow.retry import Poll
from flo.workflow.steps import (
    ForEach,
    ForEachStep,
    ParallelStep,
    Rollback,
    RunStep,
    SignalStep,
    SignalWait,
    Sleep,
    SleepStep,
    Step,
    Target,
    TargetKind,
)

CAMEL: Final[tuple[type[Record], ...]] = (
    Definition,
    RunStep,
    SignalStep,
    SleepStep,
    ParallelStep,
    ForEachStep,
    SignalWait,
    Poll,
    Rollback,
    ForEach,
)
"""Where the document usually writes camelCase; elsewhere it writes snake_case."""

STEP_KINDS: Final[dict[str, type[Record]]] = {
    "run": RunStep,
    "waitForSignal": SignalStep,
    "sleep": SleepStep,
    "parallel": ParallelStep,
    "forEach": ForEachStep,
}
"""The key that makes a step what it is."""


WRITTEN_TARGETS: Final = tuple(kind for kind in TargetKind if kind is not TargetKind.OUTCOME)
"""What a document can name."""

TARGETS: Final[dict[type[Record], tuple[TargetKind, ...]]] = {
    Executor: (TargetKind.ACTION,),
    Rollback: (TargetKind.ACTION, TargetKind.WORKFLOW),
    ForEach: (TargetKind.ACTION, TargetKind.WORKFLOW),
}
"""Where not every kind of target makes sense."""

EXACTLY_ONE: Final[dict[type[Record], tuple[str, ...]]] = {
    Schedule: ("cron", "interval_ms"),
    Sleep: ("duration_ms", "duration_from", "until"),
}


class FieldKind(NamedTuple):
    """What may stand in a field."""

    word: str
    """text, integer, number, boolean, choice, duration, json, path, template, join, target, goal,
    transitions, texts, struct, structs, table, step, steps, branches."""
    type: Any = None
    """Of choice, struct, structs, table: the class."""
    least: int | None = None
    most: int | None = None
    over: int | None = None
    """Exclusive, where `least` is inclusive."""


class Field(NamedTuple):
    name: str
    key: str
    keys: tuple[str, ...]
    kind: FieldKind
    required: bool
    default: Any
    description: str


@cache
def fields_of(struct: type[Record]) -> tuple[Field, ...]:
    hints = get_type_hints(struct, include_extras=True)
    return tuple(_field(struct, info, hints[info.name]) for info in msgspec.structs.fields(struct))


@cache
def fields_by_key(struct: type[Record]) -> dict[str, Field]:
    return {key: field for field in fields_of(struct) for key in field.keys}


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _field(struct: type[Record], info: msgspec.structs.FieldInfo, hint: Any) -> Field:
    base, metas = _unwrapped(hint)
    extra = {key: value for meta in metas for key, value in (meta.extra or {}).items()}
    key = extra.get("key") or (camel(info.name) if struct in CAMEL else info.name)
    return Field(
        name=info.name,
        key=key,
        keys=_spellings(key, info.name, *extra.get("aliases", ())),
        kind=_kind(base, metas, extra.get("kind")),
        required=info.required,
        default=_default(info),
        description=next((meta.description for meta in metas if meta.description), ""),
    )


def _spellings(*names: str) -> tuple[str, ...]:
    """The key itself first, then its twins."""
    return tuple(dict.fromkeys(twin for name in names for twin in (name, camel(name))))


def _default(info: msgspec.structs.FieldInfo) -> Any:
    if info.default_factory is not msgspec.NODEFAULT:
        return info.default_factory()
    return None if info.required else info.default


def _unwrapped(hint: Any) -> tuple[Any, list[Meta]]:
    """The type without None and without its annotations, which are returned outermost first."""
    if get_origin(hint) is Annotated:
        inner, *metas = get_args(hint)
        base, inner_metas = _unwrapped(inner)
        return base, [*reversed(metas), *inner_metas]
    if get_origin(hint) in (Union, UnionType):
        inners = [inner for inner in get_args(hint) if inner is not type(None)]
        return _unwrapped(inners[0]) if len(inners) == 1 else (hint, [])
    return hint, []


def _kind(base: Any, metas: list[Meta], word: str | None) -> FieldKind:
    if base in (int, float):
        return FieldKind(
            word or ("integer" if base is int else "number"),
            least=_bound(metas, "ge"),
            most=_bound(metas, "le"),
            over=_bound(metas, "gt"),
        )
    if base is str:
        return FieldKind(
            word or "text", least=_bound(metas, "min_length"), most=_bound(metas, "max_length")
        )
    return FieldKind(word) if word else _kind_of_type(base)


def _kind_of_type(base: Any) -> FieldKind:
    arguments = get_args(base)
    if base is bool:
        return FieldKind("boolean")
    if base is Target:
        return FieldKind("target")
    if base == Step:
        return FieldKind("step")
    if get_origin(base) is dict:
        return FieldKind("steps") if arguments[1] == Step else FieldKind("table", arguments[1])
    if get_origin(base) is tuple:
        return FieldKind("texts") if arguments[0] is str else FieldKind("structs", arguments[0])
    if issubclass(base, StrEnum):
        return FieldKind("choice", base)
    assert issubclass(base, Record), base
    return FieldKind("struct", base)


def _bound(metas: list[Meta], name: str) -> Any:
    return next((value for meta in metas if (value := getattr(meta, name)) is not None), None)
