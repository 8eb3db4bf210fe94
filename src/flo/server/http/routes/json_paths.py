"""The HTTP routes of JSON documents in keys: get, set and delete what is at a path in one."""

from dataclasses import dataclass
from typing import Annotated, TypeAlias

import msgspec
from litestar import Response, delete, get, put
from litestar.di import NamedDependency
from litestar.openapi.spec import OpenAPIMediaType, Operation, RequestBody, Schema
from litestar.params import QueryParameter

from flo.model.declare.payload import decode_json
from flo.model.ids import NAMESPACE_DEFAULT
from flo.model.kv import DeleteJson, GetJson, SetJson, Versioned
from flo.server.http.errors import refusals
from flo.server.http.gateway import EngineGateway
from flo.server.http.request import FloRequest, NamespaceQuery
from flo.server.http.routes.kv import (
    ETAG,
    IfMatch,
    KeyPath,
    PutJson,
    ValueJson,
    put_json,
    tagged,
    value_json,
    version_of,
)

ROOT = "$"

PathQuery: TypeAlias = Annotated[
    str,
    QueryParameter(
        name="path",
        description='Where in the document, such as $.user.name, $.items[0] or $["odd name"]; $ '
        "is all of it.",
    ),
]


@dataclass
class JsonOperation(Operation):
    """The description of a body that may be any JSON."""

    def __post_init__(self) -> None:
        self.request_body = RequestBody(
            description="What to put there.",
            content={"application/json": OpenAPIMediaType(schema=Schema(description="JSON."))},
            required=True,
        )


@get("/kv/{key:str}/json", tags=["keys"], response_headers=[ETAG], responses=refusals(404, 409))
async def get_json(
    gateway: NamedDependency[EngineGateway],
    key: KeyPath,
    path: PathQuery = ROOT,
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
) -> Response[ValueJson]:
    """What is at a path in a JSON document.

    If nothing is there: 404 `path_not_found`. If the value is no JSON: 409 `wrong_type`.
    """
    value = await gateway.ask(GetJson(key=key, path=path, namespace=namespace))
    return tagged(value_json(key, value), value.version)


@put(
    "/kv/{key:str}/json",
    tags=["keys"],
    operation_class=JsonOperation,
    response_headers=[ETAG],
    responses=refusals(404, 409, 413),
)
async def set_json(
    gateway: NamedDependency[EngineGateway],
    request: FloRequest,
    key: KeyPath,
    path: PathQuery = ROOT,
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
    if_match: IfMatch = None,
) -> Response[PutJson]:
    """Set what is at a path; the body is the JSON to put there.

    `$` makes the key if need be; what lies on the way to another path must be there. When the key
    expires stays as it is.
    """
    document = await request.body()
    decode_json(document, msgspec.Raw)
    command = SetJson(
        key=key,
        document=document,
        path=path,
        namespace=namespace,
        if_version=version_of(if_match),
    )
    return put_json(await gateway.ask(command))


@delete("/kv/{key:str}/json", status_code=200, tags=["keys"], responses=refusals(404, 409))
async def delete_json(
    gateway: NamedDependency[EngineGateway],
    key: KeyPath,
    path: PathQuery = ROOT,
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
    if_match: IfMatch = None,
) -> Versioned:
    """Delete what is at a path; `$` deletes the key, and then there is no version."""
    command = DeleteJson(key=key, path=path, namespace=namespace, if_version=version_of(if_match))
    return await gateway.ask(command)


ROUTES = (get_json, set_json, delete_json)
