"""Arguments and flags that follow from the fields of an operation.

    "name"                     an argument if the field must be given, else the flag --name
    Flag("reason", "-r")       a flag with another name beside its own
    Argument("run_id", "RUN")  an argument under another name
    Either("group", "-g")      an argument that may be given as a flag instead
    Several("names", "-a")     a list, as arguments or with a flag that may be repeated

Type, range, default and help are those of the field's declaration, unless the command line says
something else.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from types import NoneType
from typing import Any, Protocol, TypeAlias, TypeVar, get_args, get_origin

import click
import msgspec

from flo.cli.app.payload import LABELS, OBJECT, PAYLOAD, Seconds
from flo.model.declare.fields import Range, help_of, plain_types, range_of
from flo.model.ids import Labels

S = TypeVar("S", bound=msgspec.Struct)

MS = "_ms"
"""How the names of durations end; the flags leave it out."""
MOST_SHOWN = 1_000_000_000
"""A bound beyond it is there for machines."""
TYPES: dict[Any, click.ParamType[Any]] = {
    bytes: PAYLOAD,
    Labels: LABELS,
    dict[str, Any]: OBJECT,
    int: click.INT,
    float: click.FLOAT,
    str: click.STRING,
}
METAVARS: dict[Any, str] = {int: "N", float: "N", str: "TEXT", Labels: "JSON"}


class Declared(Protocol):
    """What stands for a field of an operation on the command line."""

    def parameters(self, message: type[msgspec.Struct]) -> Iterator[click.Parameter]: ...


Given: TypeAlias = str | Declared | click.Parameter


class NumberInRange(click.ParamType[int]):
    """A number in the range of its field."""

    name = "integer"

    def __init__(self, bounds: Range) -> None:
        self._bounds = bounds

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        number: int = click.INT.convert(value, param, ctx)
        least, most = self._bounds
        if number < least or (most is not None and number > most):
            allowed = f"{least} or more" if most is None else f"{least} to {most}"
            self.fail(f"expected {allowed}, got {number}", param, ctx)
        return number


class Flag:
    """A field as a flag; attributes are those of a click.Option."""

    def __init__(self, field: str, *names: str, **attributes: Any) -> None:
        self._field = field
        self._names = names
        self._attributes = attributes

    def parameters(self, message: type[msgspec.Struct]) -> Iterator[click.Parameter]:
        field = field_of(message, self._field)
        names = self._names
        if not any(name.startswith("--") for name in names):
            names = (*names, f"--{self._field.removesuffix(MS).replace('_', '-')}")
        yield click.Option([*names, self._field], **_option(field, self._attributes))


class Argument:
    """A field as an argument, or as many as there are of a field that is a list."""

    def __init__(self, field: str, metavar: str | None = None, **attributes: Any) -> None:
        self._field = field
        self._metavar = metavar or field.removesuffix("_id").upper()
        self._attributes = attributes

    def parameters(self, message: type[msgspec.Struct]) -> Iterator[click.Parameter]:
        field = field_of(message, self._field)
        attributes: dict[str, Any] = {"type": _type(field), "required": field.required}
        metavar = self._metavar if field.required else f"[{self._metavar}]"
        if _is_list(field):
            attributes |= {"nargs": -1, "metavar": f"{metavar}..."}
        else:
            attributes["metavar"] = metavar
        yield click.Argument([self._field], **{**attributes, **self._attributes})


class Either:
    """A field that is named once: as an argument, or as a flag."""

    def __init__(
        self,
        field: str,
        *names: str,
        what: str | None = None,
        argument: str | None = None,
        metavar: str = "NAME",
        error: str | None = None,
        type: click.ParamType[Any] | None = None,
    ) -> None:
        self._field = field
        self._what = what or field
        self._names = names if len(names) > 1 else (*names, f"--{field}")
        self._argument = argument or field.upper()
        self._metavar = metavar
        self._type = type
        self._error = (
            error or f"name one {self._what}, as {self._argument} or with {self._names[-1]}"
        )

    def parameters(self, message: type[msgspec.Struct]) -> Iterator[click.Parameter]:
        field = field_of(message, self._field)
        kind = self._type or _type(field)
        key = f"{__name__}.{self._field}"

        def remember(context: click.Context, option: click.Parameter, value: Any) -> None:
            context.meta[key] = value

        def choose(context: click.Context, argument: click.Parameter, value: Any) -> Any:
            given = [one for one in (value, context.meta.get(key)) if one is not None]
            is_one = len(set(given)) == 1 if field.required else len(given) <= 1
            if not is_one:
                raise click.UsageError(self._error)
            return given[0] if given else None

        yield click.Argument(
            [self._field],
            type=kind,
            metavar=f"[{self._argument}]",
            required=False,
            callback=choose,
        )
        yield click.Option(
            [*self._names, f"{self._field}_in_flag"],
            type=kind,
            metavar=self._metavar,
            is_eager=True,
            expose_value=False,
            callback=remember,
            help=f"The {self._what}, if not named before.",
        )


class Several:
    """A field that is a list: as arguments, or with a flag that may be repeated."""

    def __init__(self, field: str, *names: str, metavar: str) -> None:
        self._field = field
        self._names = names
        self._metavar = metavar

    def parameters(self, message: type[msgspec.Struct]) -> Iterator[click.Parameter]:
        kind = _type(field_of(message, self._field))
        key = f"{__name__}.{self._field}"

        def remember(context: click.Context, option: click.Parameter, value: Any) -> None:
            context.meta[key] = value

        def join(context: click.Context, argument: click.Parameter, value: Any) -> Any:
            joined = (*value, *context.meta.get(key, ()))
            if not joined:
                flag = self._names[-1]
                raise click.UsageError(f"name at least one {self._metavar}, or more with {flag}")
            return joined

        yield click.Argument(
            [self._field],
            type=kind,
            nargs=-1,
            metavar=f"[{self._metavar}]...",
            required=False,
            callback=join,
        )
        yield click.Option(
            [*self._names, f"{self._field}_in_flag"],
            type=kind,
            metavar="NAME",
            multiple=True,
            is_eager=True,
            expose_value=False,
            callback=remember,
            help=f"One {self._metavar} more.",
        )


def parameters_of(message: type[msgspec.Struct], given: Given) -> Iterator[click.Parameter]:
    """What a command that builds this message takes for one of its fields, or beside them."""
    match given:
        case click.Parameter():
            yield given
        case str():
            declared = Argument if field_of(message, given).required else Flag
            yield from declared(given).parameters(message)
        case _:
            yield from given.parameters(message)


def by_flags(text: str, parameters: Iterable[click.Parameter]) -> str:
    """A text in which fields are named as the command line names them: `ttl_ms` is --ttl."""
    for one in parameters:
        if isinstance(one, click.Option):
            text = text.replace(f"`{one.name}`", max(one.opts, key=len))
    return text


def names_of(parameters: Iterable[click.Parameter]) -> dict[str, str]:
    """What the fields of an operation are called on the command line."""
    names: dict[str, str] = {}
    for one in parameters:
        if isinstance(one, click.Argument) and one.name is not None:
            names[one.name] = (one.metavar or one.name).strip("[].")
        elif isinstance(one, click.Option) and one.name is not None:
            names[one.name] = max(one.opts, key=len)
    return names


def number_type(message: type[msgspec.Struct], field: str) -> click.ParamType[Any]:
    """The type of a flag that says the number of a field, without being named after it."""
    return _type(field_of(message, field))


def build(struct: type[S], values: Mapping[str, Any]) -> S:
    """The struct that these values make; what was not given is left to its default."""
    fields = {name: values[name] for name in values if values[name] not in (None, ())}
    for name, value in fields.items():
        kind = _plain(field_of(struct, name).type)
        if isinstance(kind, type) and issubclass(kind, Enum):
            fields[name] = kind(value)
        elif isinstance(value, tuple):
            fields[name] = list(value)
    return struct(**fields)


def field_of(struct: type[msgspec.Struct], name: str) -> msgspec.structs.FieldInfo:
    return msgspec.structs.fields(struct)[struct.__struct_fields__.index(name)]


def _option(field: msgspec.structs.FieldInfo, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """What the declaration of a field says of its flag, where the command line says nothing."""
    option: dict[str, Any] = {"help": help_of(field.type)}
    if _plain(field.type) is bool:
        return {**option, "is_flag": True, "default": field.default, **attributes}
    option |= {"type": _type(field), "metavar": _metavar(field)}
    if field.required:
        return {**option, "required": True, **attributes}
    default = field.default.value if isinstance(field.default, Enum) else field.default
    if default is msgspec.NODEFAULT:  # made anew for each message
        default = None
    option = {**option, "default": default, **attributes}
    if isinstance(option["type"], Seconds):
        option["type"].within(range_of(field.type))
    if "help" not in attributes:
        bounds = None if "type" in attributes else range_of(field.type)
        option["help"] += _remark(bounds, option["default"])
    return option


def _remark(bounds: Range | None, default: object) -> str:
    """The range and the default of a number."""
    remarks = [] if bounds is None else [_range_text(bounds)]
    if default not in (None, "", b""):
        remarks.append(f"default: {default}")
    remark = "; ".join(filter(None, remarks))
    return f"  [{remark}]" if remark else ""


def _range_text(bounds: Range) -> str:
    if bounds.most is not None and bounds.most <= MOST_SHOWN:
        return f"{bounds.least} to {bounds.most}"
    return f"{bounds.least} or more" if bounds.least >= 0 else ""


def _type(field: msgspec.structs.FieldInfo) -> click.ParamType[Any]:
    kind = _plain(field.type)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return click.Choice([member.value for member in kind])
    if kind is int and (bounds := range_of(field.type)) is not None:
        return NumberInRange(bounds)
    if kind not in TYPES and get_origin(kind) is dict:
        return OBJECT
    return TYPES[_plain(get_args(kind)[0]) if _is_list(field) else kind]


def _metavar(field: msgspec.structs.FieldInfo) -> str | None:
    if field.name.endswith(MS):
        return "MS"
    return METAVARS.get(_plain(field.type))


def _is_list(field: msgspec.structs.FieldInfo) -> bool:
    return get_origin(_plain(field.type)) is list


def _plain(annotation: Any) -> Any:
    """The first type of a field, without what stands beside it, and without None."""
    return next(one for one in plain_types(annotation) if one is not NoneType)
