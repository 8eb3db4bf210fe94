"""The HTTP routes that follow from the declarations of operations: build, ask, return.

    Route("POST", "/streams/{name}/groups/{group}/ack", names={"name": "stream"}, errors=(404,))
    Ack(stream, group, ids, namespace, worker_id)

    stream, group      path parameters, since they are in the path; a stream is called `name` there
    namespace          a query parameter, as are all other fields of a GET, a PUT and a DELETE
    ids, worker_id     the JSON body, since it is a POST; unknown fields in it are refused

Types, defaults, bounds and help are those of the fields, the answer is the operation's reply.
"""

from collections.abc import Callable, Iterable
from inspect import Parameter, Signature
from types import UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

import msgspec
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler, delete, get, post, put
from litestar.openapi.spec import Operation as Described
from litestar.params import JSONBody, PathParameter, QueryParameter

from flo.model.base import Message, Nothing
from flo.model.catalog import OPERATIONS
from flo.model.fields import help_of, range_of
from flo.model.operation import Operation
from flo.model.payload import Encoding, encoding_field, payload_fields, payload_from_json
from flo.model.route import Route
from flo.server.http.answers import answer_type, answered
from flo.server.http.errors import refusals
from flo.server.http.gateway import EngineGateway
from flo.server.http.request import (
    BODY_LENGTH_MAX,
    PAYLOAD_BODY_LENGTH_MAX,
    BodyOptional,
    FloRequest,
)

JSON_BODY: Any = JSONBody
"""To be made of types that are known only when the program runs."""
METHODS: dict[str, Callable[..., Any]] = {"GET": get, "POST": post, "PUT": put, "DELETE": delete}
HEADINGS = {
    "groups": "consumer groups",
    "dlq": "dead letters",
    "runs": "runs",
    "plans": "plans",
    "events": "plans",
    "kv": "keys",
    "workflow-runs": "workflow runs",
}
"""Part of a path → where it is described; otherwise under the first part of its path."""


class RequestField(NamedTuple):
    """A field of a message, and what it is called over HTTP."""

    name: str
    field: str
    type: Any
    default: Any
    is_payload: bool

    @property
    def is_required(self) -> bool:
        return self.default is Parameter.empty


class RequestShape(NamedTuple):
    """Where the fields of a message are found in a request."""

    in_path: tuple[RequestField, ...]
    in_query: tuple[RequestField, ...]
    in_body: tuple[RequestField, ...]


def derived_routes() -> list[HTTPRouteHandler]:
    return [_handler(one, one.http) for one in OPERATIONS if one.http is not None]


def _handler(operation: Operation, route: Route) -> HTTPRouteHandler:
    shape = _shape(operation, route)
    body = _body_type(operation, shape.in_body) if shape.in_body else None
    is_silent = operation.reply is Nothing
    has_payload = any(field.is_payload for field in shape.in_body) or route.is_body_long
    decorate = METHODS[route.method](
        route.path.replace("}", ":str}"),
        status_code=204 if is_silent else route.status,
        tags=[_heading(route.path)],
        operation_class=BodyOptional if route.is_body_optional else Described,
        request_max_body_size=PAYLOAD_BODY_LENGTH_MAX if has_payload else BODY_LENGTH_MAX,
        response_description=_first_line(operation.reply),
        responses=refusals(*route.errors, *((413,) if body else ())),
    )
    function = _function(operation, route, shape)
    function.__name__ = route.name or operation.name
    function.__doc__ = operation.help
    reply = None if is_silent else answer_type(operation.reply)
    _sign(function, _parameters(operation, route, shape, body), reply)
    handler: HTTPRouteHandler = decorate(function)
    return handler


def _function(operation: Operation, route: Route, shape: RequestShape) -> Callable[..., Any]:
    """What a route does: build the message, ask, return the answer."""
    outside = (*shape.in_path, *shape.in_query)
    default_body = {field.field: field.default for field in shape.in_body}
    fixed = {field: route.defaults[field] for field in route.without if field in route.defaults}

    async def answer(
        gateway: EngineGateway, request: FloRequest | None = None, data: Any = None, **given: Any
    ) -> Any:
        fields = {field.field: given[field.name] for field in outside}
        fields |= default_body if data is None else _fields_in(data, shape.in_body)
        message: Any = operation.message(**fields, **fixed)
        if request is not None and fields["block_ms"]:
            reply = await gateway.wait(message, request)
        else:
            reply = await gateway.ask(message)
        return None if operation.reply is Nothing else answered(reply)

    return answer


def _fields_in(data: Any, fields: Iterable[RequestField]) -> dict[str, Any]:
    """What a body says, by the names of the message's fields."""
    found: dict[str, Any] = {}
    for name, field, _, default, is_payload in fields:
        value = getattr(data, name)
        if is_payload:
            encoding = getattr(data, encoding_field(name))
            value = payload_from_json(value, encoding, name) if bytes(value) else default
        found[field] = value
    return found


def _shape(operation: Operation, route: Route) -> RequestShape:
    called = {field: name for name, field in route.names.items()}
    payloads = payload_fields(operation.message)
    fields = [
        RequestField(
            called.get(one.name, one.name),
            one.name,
            one.type,
            _default(one, route),
            one.name in payloads,
        )
        for one in msgspec.structs.fields(operation.message)
        if one.name not in route.without
    ]
    in_path = tuple(one for one in fields if f"{{{one.name}}}" in route.path)
    others = tuple(one for one in fields if one not in in_path)
    has_body = route.method == "POST" or any(_is_list(one.type) for one in others)
    in_query = tuple(one for one in others if one.field == "namespace" or not has_body)
    return RequestShape(in_path, in_query, tuple(one for one in others if one not in in_query))


def _parameters(
    operation: Operation, route: Route, shape: RequestShape, body: type[msgspec.Struct] | None
) -> Iterable[Parameter]:
    yield _parameter("gateway", NamedDependency[EngineGateway])
    if operation.waits:
        yield _parameter("request", FloRequest)
    for field in shape.in_path:
        about = PathParameter(description=help_of(field.type))
        yield _parameter(field.name, Annotated[str, about])
    if body is not None and route.is_body_optional:
        yield _parameter("data", JSON_BODY[body | None], None)
    elif body is not None:
        yield _parameter("data", JSON_BODY[body])
    for field in shape.in_query:
        within = range_of(field.type)
        query = QueryParameter(
            name=field.name,
            description=help_of(field.type),
            ge=within.least if within else None,
            le=within.most if within else None,
        )
        yield _parameter(field.name, Annotated[_plain(field.type), query], field.default)


def _body_type(operation: Operation, fields: Iterable[RequestField]) -> type[msgspec.Struct]:
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
        namespace={"__doc__": _first_line(operation.message)},
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


def _sign(function: Callable[..., Any], parameters: Iterable[Parameter], reply: Any) -> None:
    """Give a function the parameters that Litestar is to find."""
    given = list(parameters)
    function.__annotations__ = {one.name: one.annotation for one in given} | {"return": reply}
    function.__signature__ = Signature(given, return_annotation=reply)  # type: ignore[attr-defined]


def _parameter(name: str, annotation: Any, default: Any = Parameter.empty) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _default(field: msgspec.structs.FieldInfo, route: Route) -> Any:
    if field.name in route.defaults:
        return route.defaults[field.name]
    return Parameter.empty if field.required else field.default


def _plain(annotation: Any) -> Any:
    """A type without what stands beside it."""
    if get_origin(annotation) is Annotated:
        return _plain(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return Union[tuple(_plain(part) for part in get_args(annotation))]  # noqa: UP007
    return annotation


def _is_list(annotation: Any) -> bool:
    plain = _plain(annotation)
    return any(get_origin(part) is list for part in (plain, *get_args(plain)))


def _heading(path: str) -> str:
    parts = path.split("/")
    return next((HEADINGS[part] for part in HEADINGS if part in parts), parts[1])


def _first_line(kind: type[Message]) -> str:
    return (kind.__doc__ or "").strip().partition("\n")[0]
