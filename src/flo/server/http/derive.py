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
from typing import Annotated, Any

import msgspec
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler, delete, get, post, put
from litestar.openapi.spec import Operation as Described
from litestar.params import JSONBody, PathParameter, QueryParameter

from flo.model.base import Nothing
from flo.model.declare.catalog import BY_NAME, OPERATIONS
from flo.model.declare.fields import help_of, range_of
from flo.model.declare.operation import Operation
from flo.model.declare.route import Route
from flo.server.http.answers import answer_type, answered
from flo.server.http.errors import in_words, refusals
from flo.server.http.gateway import EngineGateway
from flo.server.http.request import (
    BODY_LENGTH_MAX,
    PAYLOAD_BODY_LENGTH_MAX,
    BodyOptional,
    FloRequest,
)
from flo.server.http.shape import (
    RequestShape,
    body_type,
    fields_in,
    first_line,
    plain_type,
    shape_of,
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


def derived_routes() -> list[HTTPRouteHandler]:
    return [_handler(one, one.http) for one in OPERATIONS if one.http is not None]


def _handler(operation: Operation, route: Route) -> HTTPRouteHandler:
    shape = shape_of(operation, route)
    body = body_type(operation, shape.in_body) if shape.in_body else None
    reply = _answering(operation, route).reply
    is_silent = reply is Nothing
    has_payload = any(field.is_payload for field in shape.in_body) or route.is_body_long
    decorate = METHODS[route.method](
        route.path.replace("}", ":str}"),
        status_code=204 if is_silent else route.status,
        tags=[_heading(route.path)],
        operation_class=BodyOptional if route.is_body_optional else Described,
        request_max_body_size=PAYLOAD_BODY_LENGTH_MAX if has_payload else BODY_LENGTH_MAX,
        response_description=first_line(reply),
        responses=refusals(*route.errors, *((413,) if body else ())),
    )
    function = _function(operation, route, shape)
    function.__name__ = route.name or operation.name
    function.__doc__ = operation.help
    parameters = _parameters(operation, route, shape, body)
    _sign(function, parameters, None if is_silent else answer_type(reply))
    handler: HTTPRouteHandler = decorate(function)
    return handler


def _function(operation: Operation, route: Route, shape: RequestShape) -> Callable[..., Any]:
    """What a route does: build the message, ask, return the answer."""
    outside = (*shape.in_path, *shape.in_query)
    names = {one.field: one.name for one in (*outside, *shape.in_body) if one.name != one.field}
    fixed = {field: route.defaults[field] for field in route.without if field in route.defaults}
    answering = _answering(operation, route)

    async def answer(
        gateway: EngineGateway, request: FloRequest | None = None, data: Any = None, **given: Any
    ) -> Any:
        fields = {field.field: given[field.name] for field in outside} | fixed
        fields |= fields_in(data, operation, route, shape.in_body)
        with in_words(names):
            return await _answer(gateway, request, fields)

    async def _answer(
        gateway: EngineGateway, request: FloRequest | None, fields: dict[str, Any]
    ) -> Any:
        message: Any = operation.message(**fields)
        if request is not None and fields["block_ms"]:
            reply = await gateway.wait(message, request)
        else:
            reply = await gateway.ask(message)
        if answering is not operation:
            same = {name: fields[name] for name in answering.message.__struct_fields__}
            query: Any = answering.message(**same)
            reply = await gateway.ask(query)
        return None if isinstance(reply, Nothing) else answered(reply)

    return answer


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
        yield _parameter(field.name, Annotated[plain_type(field.type), query], field.default)


def _sign(function: Callable[..., Any], parameters: Iterable[Parameter], reply: Any) -> None:
    """Give a function the parameters that Litestar is to find."""
    given = list(parameters)
    function.__annotations__ = {one.name: one.annotation for one in given} | {"return": reply}
    function.__signature__ = Signature(given, return_annotation=reply)  # type: ignore[attr-defined]


def _parameter(name: str, annotation: Any, default: Any = Parameter.empty) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _answering(operation: Operation, route: Route) -> Operation:
    """The operation whose reply is the answer."""
    return BY_NAME[route.answer] if route.answer else operation


def _heading(path: str) -> str:
    parts = path.split("/")
    return next((HEADINGS[part] for part in HEADINGS if part in parts), parts[1])
