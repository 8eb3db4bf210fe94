"""The HTTP routes of keys and values: get, put, delete, count, expire, and many at once.

The version of a key is its ETag; If-Match and If-None-Match make a change depend on it.
"""

from typing import Annotated, Any, NamedTuple, TypeAlias

import msgspec
from litestar import Response, delete, get, post, put
from litestar.datastructures import ResponseHeader
from litestar.di import NamedDependency
from litestar.params import HeaderParameter, JSONBody, PathParameter, QueryParameter

from flo.model.base import Message
from flo.model.declare.payload import Encoding, payload_from_json, payload_to_json
from flo.model.errors import Invalid, NotFound
from flo.model.ids import BLOCK_MS_MAX, NAMESPACE_DEFAULT, Key
from flo.model.kv import (
    Change,
    Check,
    Committed,
    Delete,
    Deleted,
    DeleteKey,
    Delta,
    ExpireKey,
    GetKey,
    GetKeys,
    Increment,
    Put,
    PutKey,
    Transact,
    TtlMs,
    Value,
    Versioned,
)
from flo.server.http.errors import refusals
from flo.server.http.gateway import EngineGateway
from flo.server.http.request import (
    PAYLOAD_BODY_LENGTH_MAX,
    AnyBody,
    FloRequest,
    NamespaceQuery,
)

ANY = "*"
ETAG = ResponseHeader(
    name="ETag",
    value='"7"',
    description='The version of the key, such as `"7"`.',
    documentation_only=True,
)

KeyPath: TypeAlias = Annotated[
    str,
    PathParameter(
        description="The key; it may have slashes. If it ends in /history, /increment, /expire or "
        "/json, write %2F for that slash."
    ),
]
IfMatch: TypeAlias = Annotated[
    str | None,
    HeaderParameter(
        name="If-Match",
        description="Only if this is the key's version, such as `7`; 409 `version_mismatch` if "
        "not. `0` stands for a key that does not exist.",
    ),
]


class ExpireBody(Message):
    """In how many milliseconds the key is to be gone; null: it stays."""

    ttl_ms: TtlMs | None


class KeysBody(Message):
    """Up to 256 keys."""

    keys: list[Key]


class CheckBody(Message):
    """That a key has this version; 0 stands for a key that does not exist."""

    key: Key
    version: int


class PutBody(Message, tag="put"):
    """Set a value: any JSON, or text or bytes in base64 if `value_encoding` says so."""

    key: Key
    value: msgspec.Raw
    value_encoding: Encoding = "json"
    ttl_ms: TtlMs | None = None


class DeleteBody(Message, tag="delete"):
    """Delete a key, if it is there."""

    key: Key


class AddBody(Message, tag="increment"):
    """Add to a whole number; a key that does not exist counts as 0."""

    key: Key
    delta: Delta = 1


class TransactionBody(Message):
    """What must be so, and what is to be done then: all of it, in order, or nothing.

    Up to 256 checks and changes, with up to 1 MiB of values.
    """

    checks: list[CheckBody] = msgspec.field(default_factory=list)
    changes: list[PutBody | DeleteBody | AddBody] = msgspec.field(default_factory=list)


class ValueJson(Message):
    """A value: JSON if its bytes are, text if they are text, base64 if neither (see its encoding).

    Of a key that does not exist, the version is 0.
    """

    key: Key
    value: Any
    value_encoding: Encoding | None
    version: int
    expires_at_ms: int | None


class ValuesJson(Message):
    """One for each key that was asked for, in order."""

    items: list[ValueJson]


class PutJson(Message):
    """The version that the change gave the key."""

    version: int


@get("/kv/{key:str}", tags=["keys"], response_headers=[ETAG], responses=refusals(404))
async def get_key(
    gateway: NamedDependency[EngineGateway],
    request: FloRequest,
    key: KeyPath,
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
    wait_ms: Annotated[
        int,
        QueryParameter(
            name="wait_ms",
            ge=0,
            le=BLOCK_MS_MAX,
            description="Wait so long for the key to exist, or for `newer_than`.",
        ),
    ] = 0,
    newer_than: Annotated[
        int | None,
        QueryParameter(
            name="newer_than",
            ge=0,
            description="With `wait_ms`: wait for the key to have another version than this.",
        ),
    ] = None,
) -> Response[ValueJson]:
    """A value and its version, which is the ETag too; 404 if there is no such key.

    When a wait is over, the answer is the key as it is.
    """
    query = GetKey(key=key, namespace=namespace, block_ms=wait_ms, newer_than=newer_than)
    waits = gateway.wait(query, request) if wait_ms else gateway.ask(query)
    value = await waits
    if value.value is None:
        raise NotFound(f"key {key!r} does not exist", code="key_not_found")
    return tagged(value_json(key, value), value.version)


@put(
    "/kv/{key:str}",
    tags=["keys"],
    operation_class=AnyBody,
    response_headers=[ETAG],
    responses=refusals(409, 413),
)
async def put_key(
    gateway: NamedDependency[EngineGateway],
    request: FloRequest,
    key: KeyPath,
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
    ttl_ms: Annotated[
        int | None,
        QueryParameter(
            name="ttl_ms", ge=1, description="The key is gone after this; without, it stays."
        ),
    ] = None,
    if_match: IfMatch = None,
    if_none_match: Annotated[
        str | None,
        HeaderParameter(
            name="If-None-Match",
            description="`*`: only if the key does not exist; 409 `condition_failed` if it does.",
        ),
    ] = None,
) -> Response[PutJson]:
    """Set a value; the body is the value, whatever it is, up to 256 KiB.

    `If-Match: *` is: only if the key exists.
    """
    condition = condition_of(if_match)
    if if_none_match not in (None, ANY):
        raise Invalid(f"expected `If-None-Match: *`, got {if_none_match!r}")
    if if_none_match and condition.is_any:
        raise Invalid("expected `If-Match: *` or `If-None-Match: *`, got both")
    command = PutKey(
        key=key,
        value=await request.payload(),
        namespace=namespace,
        ttl_ms=ttl_ms,
        if_version=condition.version,
        if_absent=if_none_match == ANY,
        if_present=condition.is_any,
    )
    return put_json(await gateway.ask(command))


@delete("/kv/{key:str}", status_code=200, tags=["keys"], responses=refusals(409))
async def delete_key(
    gateway: NamedDependency[EngineGateway],
    key: KeyPath,
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
    if_match: IfMatch = None,
) -> Deleted:
    """Delete a key; the answer says whether it existed."""
    command = DeleteKey(key=key, namespace=namespace, if_version=version_of(if_match))
    return await gateway.ask(command)


@post(
    "/kv/{key:str}/expire",
    status_code=200,
    tags=["keys"],
    response_headers=[ETAG],
    responses=refusals(404, 409, 413),
)
async def expire_key(
    gateway: NamedDependency[EngineGateway],
    key: KeyPath,
    data: JSONBody[ExpireBody],
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
    if_match: IfMatch = None,
) -> Response[PutJson]:
    """Set when a key is gone, or with null that it stays. Its version does not change."""
    command = ExpireKey(
        key=key, ttl_ms=data.ttl_ms, namespace=namespace, if_version=version_of(if_match)
    )
    return put_json(await gateway.ask(command))


@post("/kv-get", status_code=200, tags=["keys"], responses=refusals(413))
async def get_keys(
    gateway: NamedDependency[EngineGateway],
    data: JSONBody[KeysBody],
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
) -> ValuesJson:
    """The values of many keys, all of the same moment; a key that does not exist has version 0."""
    values = await gateway.ask(GetKeys(keys=data.keys, namespace=namespace))
    found = zip(data.keys, values.items, strict=True)
    return ValuesJson(items=[value_json(key, value) for key, value in found])


@post(
    "/kv-transactions",
    status_code=200,
    tags=["keys"],
    request_max_body_size=PAYLOAD_BODY_LENGTH_MAX,
    responses=refusals(409, 413),
)
async def transact(
    gateway: NamedDependency[EngineGateway],
    data: JSONBody[TransactionBody],
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
) -> Committed:
    """Do several changes at once, or none of them.

    If a check does not hold: 409 `version_mismatch`, and nothing has happened. The answer has the
    version that all the changes share, and the sums of what was counted.
    """
    command = Transact(
        namespace=namespace,
        checks=[Check(key=check.key, version=check.version) for check in data.checks],
        changes=[_change(change) for change in data.changes],
    )
    return await gateway.ask(command)


class Condition(NamedTuple):
    """What an If-Match asks for: a version, or any that there is."""

    version: int | None = None
    is_any: bool = False


def condition_of(if_match: str | None) -> Condition:
    if if_match is None:
        return Condition()
    if if_match == ANY:
        return Condition(is_any=True)
    digits = if_match.removeprefix('"').removesuffix('"')
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 18):
        raise Invalid(f'expected If-Match with a version such as "7", or *, got {if_match[:80]!r}')
    return Condition(version=int(digits))


def version_of(if_match: str | None) -> int | None:
    """The version that an If-Match asks for, where any would make no sense."""
    condition = condition_of(if_match)
    if condition.is_any:
        raise Invalid('expected If-Match with a version such as "7", got *')
    return condition.version


def value_json(key: Key, value: Value) -> ValueJson:
    return ValueJson(
        key=key,
        **_shown(value.value),
        version=value.version,
        expires_at_ms=value.expires_at_ms,
    )


def put_json(versioned: Versioned) -> Response[PutJson]:
    assert versioned.version is not None  # which it is only inside a transaction
    return tagged(PutJson(version=versioned.version), versioned.version)


def tagged(answer: Any, version: int) -> Response[Any]:
    return Response(answer, headers={"ETag": f'"{version}"'})


def _shown(value: bytes | None) -> dict[str, Any]:
    shown = payload_to_json(value)
    return {"value": shown.value, "value_encoding": shown.encoding}


def _change(body: PutBody | DeleteBody | AddBody) -> Change:
    match body:
        case PutBody(key=key, value=value, value_encoding=encoding, ttl_ms=ttl_ms):
            return Put(key=key, value=payload_from_json(value, encoding, "value"), ttl_ms=ttl_ms)
        case DeleteBody(key=key):
            return Delete(key=key)
        case AddBody(key=key, delta=delta):
            return Increment(key=key, delta=delta)


ROUTES = (
    get_key,
    put_key,
    delete_key,
    expire_key,
    get_keys,
    transact,
)
