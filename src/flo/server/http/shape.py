"""Where the fields of an operation are found in an HTTP request: in its path, query and body."""

from collections.abc import Iterable
from inspect import Parameter
from types import UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

import msgspec

from flo.model.base import Message
from flo.model.declare.fields import help_of, range_of
from flo.model.declare.operation import Operation
from flo.model.declare.payload import Encoding, encoding_field, payload_fields, payload_from_json
from flo.model.declare.route import Route


class RequestField(NamedTuple):
    """A field of a message, or of the struct that is given flat, and its name over HTTP."""

    name: str
    field: str
    type: Any
    default: Any
    is_payload: bool = False
    is_flat: bool = False

    @property
    def is_required(self) -> bool:
        return self.default is Parameter.empty


class RequestShape(NamedTuple):
    """Where the fields of a message are found in a request."""

    in_path: tuple[RequestField, ...]
    in_query: tuple[RequestField, ...]
    in_body: tuple[RequestField, ...]


def shape_of(operation: Operation, route: Route) -> RequestShape:
    called = {field: name for name, field in route.names.items()}
    payloads = payload_fields(operation.message)
    fields: list[RequestField] = []
    for one in msgspec.structs.fields(operation.message):
        name, default = called.get(one.name, one.name), _default(one, route)
        if one.name == route.flat:
            fields += [
                RequestField(
                    inner.name, inner.name, inner.type, _default(inner, route), is_flat=True
                )
                for inner in msgspec.structs.fields(_flat_type(operation, route))
            ]
        elif one.name not in route.without:
            fields.append(RequestField(name, one.name, one.type, default, one.name in payloads))
    in_path = tuple(one for one in fields if f"{{{one.name}}}" in route.path)
    others = tuple(one for one in fields if one not in in_path)
    has_body = route.method == "POST" or any(_is_nested(one.type) for one in others)
    in_query = tuple(one for one in others if one.field == "namespace" or not has_body)
    return RequestShape(in_path, in_query, tuple(one for one in others if one not in in_query))


def body_type(operation: Operation, fields: Iterable[RequestField]) -> type[msgspec.Struct]:
    """The fields of a message that are given in its body; a payload with its encoding beside it."""
    members: list[Any] = []
    for field in fields:
        if field.is_payload:
            about = Annotated[msgspec.Raw, msgspec.Meta(description=help_of(field.type))]
            empty = msgspec.field(default_factory=msgspec.Raw)
            members.append((field.name, about) if field.is_required else (field.name, about, empty))
            members.append((encoding_field(field.name), Encoding, "json"))
        elif field.is_required:
            members.append((field.name, _bounded(field.type)))
        else:
            members.append((field.name, _bounded(field.type), field.default))
    return msgspec.defstruct(
        f"{operation.message.__name__}Body",
        members,
        bases=(Message,),
        namespace={"__doc__": first_line(operation.message)},
    )


def _bounded(annotation: Any) -> Any:
    """The same type with its range, which the description is to show and the engine to check."""
    within = range_of(annotation)
    if within is None:
        return annotation
    bounds = {"minimum": within.least}
    if within.most is not None:
        bounds["maximum"] = within.most
    return Annotated[annotation, msgspec.Meta(extra_json_schema=bounds)]


def fields_in(
    data: Any, operation: Operation, route: Route, fields: Iterable[RequestField]
) -> dict[str, Any]:
    """What a body says, by the names of the message's fields; a body left out says the defaults."""
    found: dict[str, Any] = {}
    flat: dict[str, Any] = {}
    for one in fields:
        value = getattr(data, one.name) if data is not None else one.default
        if one.is_payload and data is not None:
            encoding = getattr(data, encoding_field(one.name))
            value = payload_from_json(value, encoding, one.name) if bytes(value) else one.default
        (flat if one.is_flat else found)[one.field] = value
    if flat:
        found[route.flat] = _flat_type(operation, route)(**flat)
    return found


def _default(field: msgspec.structs.FieldInfo, route: Route) -> Any:
    if field.name in route.defaults:
        return route.defaults[field.name]
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return Parameter.empty if field.required else field.default


def _flat_type(operation: Operation, route: Route) -> type[msgspec.Struct]:
    """The type of the field whose own fields are given instead of it."""
    fields = {field.name: field.type for field in msgspec.structs.fields(operation.message)}
    kind: type[msgspec.Struct] = plain_type(fields[route.flat])
    return kind


def plain_type(annotation: Any) -> Any:
    """A type without what stands beside it."""
    if get_origin(annotation) is Annotated:
        return plain_type(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return Union[tuple(plain_type(part) for part in get_args(annotation))]  # noqa: UP007
    return annotation


def _is_nested(annotation: Any) -> bool:
    """Whether it is a list or an object, which no query parameter can hold."""
    plain = plain_type(annotation)
    return any(get_origin(part) in (list, dict) for part in (plain, *get_args(plain)))


def first_line(kind: type[Message]) -> str:
    return (kind.__doc__ or "").strip().partition("\n")[0]
