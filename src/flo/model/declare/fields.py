"""What the fields of an operation may hold, and what they mean: stated once, in their types.

    priority: Annotated[int, Range(0, PRIORITY_MAX), about("The higher, the earlier.")]

`check_fields` refuses a message that breaks a bound; the HTTP parameters, the flags of the command
line, their help and the reference say the same. A field left at its default is not looked at.
"""

from collections.abc import Callable
from types import UnionType
from typing import Annotated, Any, NamedTuple, Protocol, TypeAlias, Union, get_args, get_origin

import msgspec
from msgspec import Meta

from flo.model.base import Message
from flo.model.errors import Invalid, TooLarge
from flo.model.ids import (
    BLOCK_MS_MAX,
    LIST_LIMIT_MAX,
    PAYLOAD_LENGTH_MAX,
    TEXT_LENGTH_MAX,
    Key,
    Labels,
    Namespace,
    check_idempotency_key,
    check_key,
    check_labels,
    check_namespace,
    check_subject,
    check_trace,
)

ValueCheck: TypeAlias = Callable[[Any], None]


class Bound(Protocol):
    """Something that must hold of a field's value, if it has one."""

    @property
    def holds(self) -> str:
        """The bound as an expression of `value`, to be compiled."""
        ...

    def refusal_of(self, field: str) -> ValueCheck:
        """A function that raises what is wrong with a value that breaks the bound."""
        ...


class Range(NamedTuple):
    """A number from `least` to `most`, or without an upper bound."""

    least: int
    most: int | None = None

    @property
    def holds(self) -> str:
        return f"{self.least} <= value" + ("" if self.most is None else f" <= {self.most}")

    def refusal_of(self, field: str) -> ValueCheck:
        def refuse(value: int) -> None:
            raise Invalid(f"expected {field} {allowed}, got {value}")

        least, most = self
        allowed = f"of {least} or more" if most is None else f"from {least} to {most}"
        return refuse


class ItemCount(NamedTuple):
    """A list of 1 to `most` items."""

    most: int
    what: str

    @property
    def holds(self) -> str:
        return f"1 <= len(value) <= {self.most}"

    def refusal_of(self, field: str) -> ValueCheck:
        def refuse(value: list[Any]) -> None:
            raise Invalid(f"expected 1 to {self.most} {self.what}, got {len(value)}")

        return refuse


class Text(NamedTuple):
    """A text of at most so many characters."""

    most: int = TEXT_LENGTH_MAX
    what: str | None = None

    @property
    def holds(self) -> str:
        return f"len(value) <= {self.most}"

    def refusal_of(self, field: str) -> ValueCheck:
        def refuse(value: str) -> None:
            what = self.what or field
            raise TooLarge(f"expected {what} of at most {self.most} characters, got {len(value)}")

        return refuse


class Payload(NamedTuple):
    """At most so many bytes."""

    what: str
    most: int = PAYLOAD_LENGTH_MAX

    @property
    def holds(self) -> str:
        return f"len(value) <= {self.most}"

    def refusal_of(self, field: str) -> ValueCheck:
        def refuse(value: bytes) -> None:
            raise TooLarge(f"expected {self.what} of at most {self.most} bytes, got {len(value)}")

        return refuse


class Checked(NamedTuple):
    """Whatever a function does not refuse."""

    check: ValueCheck

    @property
    def holds(self) -> str:
        return "False"

    def refusal_of(self, field: str) -> ValueCheck:
        return self.check


def about(text: str) -> Meta:
    """What a field means, for everyone who can set it."""
    return Meta(description=text)


BOUNDS = (Range, ItemCount, Text, Payload, Checked)

Limit: TypeAlias = Annotated[int, Range(1, LIST_LIMIT_MAX), about("The most items to answer.")]
Cursor: TypeAlias = Annotated[str | None, about("The `cursor` of the page before this one.")]
BlockMs: TypeAlias = Annotated[
    int, Range(0, BLOCK_MS_MAX), about("The longest to wait, in milliseconds.")
]
Reason: TypeAlias = Annotated[
    str, Text(what="reason"), about("Why; whoever looks at the run can read it.")
]
IdempotencyKey: TypeAlias = Annotated[
    str,
    Checked(check_idempotency_key),
    about("The same key never makes two runs of one action or workflow."),
]
Subject: TypeAlias = Annotated[
    str,
    Checked(check_subject),
    about("Whom the payloads are about, as you name them: a customer, a patient."),
]
TraceParent: TypeAlias = Annotated[
    str,
    Checked(check_trace),
    about("The W3C trace context of the caller (traceparent); what is made is part of its trace."),
]
RequiredLabels: TypeAlias = Annotated[
    Labels,
    Checked(lambda labels: check_labels(labels, "labels")),
    about("What a worker must have to be given the run."),
]
NewNamespace: TypeAlias = Annotated[Namespace, Checked(check_namespace)]
"""A namespace that the operation makes if it is not there."""
CheckedKey: TypeAlias = Annotated[Key, Checked(check_key)]


class FieldChecks(dict[type, Callable[[Any], None]]):
    """For each type of message a function that checks its fields, compiled when it is needed."""

    def __missing__(self, kind: type[msgspec.Struct]) -> Callable[[Any], None]:
        lines = ["def check(message):", "    pass"]
        names: dict[str, Any] = {}
        for field in msgspec.structs.fields(kind):
            for bound in bounds_of(field.type):
                number = len(names)
                names[f"refuse_{number}"] = bound.refusal_of(field.name)
                names[f"default_{number}"] = field.default
                given = "value is not None"
                if field.default not in (None, msgspec.NODEFAULT):
                    given += f" and value is not default_{number}"
                lines.append(f"    value = message.{field.name}")
                lines.append(f"    if {given}:")
                lines.append(f"        if not ({bound.holds}): refuse_{number}(value)")
        exec("\n".join(lines), names)  # nothing but names of fields and numbers of ours
        self[kind] = names["check"]
        return self[kind]


FIELD_CHECKS = FieldChecks()


def check_fields(message: Message) -> None:
    """Refuse a message in which a field breaks one of its bounds."""
    FIELD_CHECKS[type(message)](message)


def bounds_of(annotation: Any) -> tuple[Bound, ...]:
    """The bounds that a field's type states, those of the structs in it included."""
    found: list[Bound] = [one for one in _metadata(annotation) if isinstance(one, BOUNDS)]
    found += [Checked(check_fields) for one in plain_types(annotation) if _has_bounds(one)]
    return tuple(found)


def range_of(annotation: Any) -> Range | None:
    return next((bound for bound in bounds_of(annotation) if isinstance(bound, Range)), None)


def help_of(annotation: Any) -> str:
    """What a field's type says of it; the last word counts, as it does in JSON Schema."""
    said = [one.description for one in _metadata(annotation) if isinstance(one, Meta)]
    return next((text for text in reversed(said) if text is not None), "")


def _metadata(annotation: Any) -> list[Any]:
    """What stands beside a type, the parts of a union first."""
    if get_origin(annotation) is Annotated:
        inner, *beside = get_args(annotation)
        return [*_metadata(inner), *beside]
    if get_origin(annotation) in (Union, UnionType):
        return [one for part in get_args(annotation) for one in _metadata(part)]
    return []


def plain_types(annotation: Any) -> list[Any]:
    """The types of a field, without what stands beside them."""
    if get_origin(annotation) is Annotated:
        return plain_types(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return [one for part in get_args(annotation) for one in plain_types(part)]
    return [annotation]


def _has_bounds(kind: Any) -> bool:
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        return False
    return any(bounds_of(field.type) for field in msgspec.structs.fields(kind))
