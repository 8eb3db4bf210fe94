"""What is read from a request: strict bodies, known parameters, names as they were meant."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Any, TypeAlias
from urllib.parse import unquote

import msgspec
from litestar import Request
from litestar.datastructures import State
from litestar.exceptions import InternalServerException
from litestar.handlers import HTTPRouteHandler
from litestar.openapi.spec import OpenAPIMediaType, Operation, RequestBody, Schema
from litestar.openapi.spec.enums import OpenAPIType
from litestar.params import HeaderParameter, PathParameter, QueryParameter

from flo.model.declare.payload import decode_json
from flo.model.errors import FloError, Invalid, error_of
from flo.model.ids import BLOCK_MS_MAX, PAYLOAD_LENGTH_MAX, RunId

BODY_LENGTH_MAX = 1024 * 1024
"""Of a body in which there is no payload: more than any registration needs."""
ENVELOPE_LENGTH_MAX = 64 * 1024
PAYLOAD_BODY_LENGTH_MAX = PAYLOAD_LENGTH_MAX * 4 // 3 + ENVELOPE_LENGTH_MAX
"""The longest payload in base64, and what stands around it."""

TraceHeader: TypeAlias = Annotated[
    str | None,
    HeaderParameter(name="traceparent", description="The W3C trace context of the caller."),
]
NamespaceQuery: TypeAlias = Annotated[
    str, QueryParameter(name="namespace", description="The namespace it is in.")
]
WaitQuery: TypeAlias = Annotated[
    int,
    QueryParameter(
        name="wait_ms",
        ge=0,
        le=BLOCK_MS_MAX,
        description="Wait so long for the run to end, then answer it as it is.",
    ),
]
ActionPath: TypeAlias = Annotated[str, PathParameter(description="The action's name.")]
RunPath: TypeAlias = Annotated[str, PathParameter(description="The run's id.")]
StreamPath: TypeAlias = Annotated[str, PathParameter(description="The stream's name.")]
GroupPath: TypeAlias = Annotated[str, PathParameter(description="The group's name.")]
WorkflowPath: TypeAlias = Annotated[str, PathParameter(description="The workflow's name.")]
VersionQuery: TypeAlias = Annotated[
    str, QueryParameter(name="version", description="Which version; the newest if left out.")
]
StrictQuery: TypeAlias = Annotated[
    bool, QueryParameter(name="strict", description="Whether a warning is an error too.")
]
IdempotencyKeyQuery: TypeAlias = Annotated[
    str | None,
    QueryParameter(
        name="idempotency_key",
        description="The same key never makes two runs of one action or workflow.",
    ),
]
SubjectQuery: TypeAlias = Annotated[
    str | None,
    QueryParameter(
        name="subject",
        description="Whom the payloads are about, as you name them: a customer, a patient.",
    ),
]
IdempotencyKeyHeader: TypeAlias = Annotated[
    str | None, HeaderParameter(name="Idempotency-Key", description="The same, as a header.")
]


@dataclass
class BodyOptional(Operation):
    """The description of a route whose body may be left out."""

    def __post_init__(self) -> None:
        assert isinstance(self.request_body, RequestBody)
        self.request_body.required = False


@dataclass
class AnyBody(Operation):
    """The description of a body that may be anything: an input, a value."""

    def __post_init__(self) -> None:
        anything = Schema(description="JSON, kept as it is.")
        octets = Schema(type=OpenAPIType.STRING, content_media_type="application/octet-stream")
        self.request_body = RequestBody(
            description="Whatever does not say that it is JSON is kept as bytes.",
            content={
                "application/json": OpenAPIMediaType(schema=anything),
                "*/*": OpenAPIMediaType(schema=octets),
            },
        )


class FloRequest(Request[Any, Any, State]):
    async def body(self) -> bytes:
        try:
            return await super().body()
        except InternalServerException as error:
            raise Invalid("the body ended too early", code="incomplete_body") from error

    async def json(self) -> Any:
        """The body as the handler's `data` wants it, read straight from the bytes."""
        wanted = self.route_handler.parsed_data_field
        assert wanted is not None
        return decode_json(await self.body(), wanted.annotation)

    async def payload(self) -> bytes:
        """The whole body as it came; if it says that it is JSON, it must be."""
        payload = await self.body()
        if payload and self.content_type[0] == "application/json":
            decode_json(payload, msgspec.Raw)
        return payload


async def prepare(request: Request[Any, Any, State]) -> None:
    """Before any route of the API: refuse what would be ignored, and read names percent-decoded.

    The path was matched as it came on the wire, so a '/' within a name cannot lead astray.
    """
    handler = request.route_handler
    assert isinstance(handler, HTTPRouteHandler)
    if request.query_params:
        check_known(request.query_params, known_parameters(handler))
    request.scope["path_params"] = {
        name: _meant(name, value) for name, value in request.path_params.items()
    }


def _meant(name: str, segment: str) -> str:
    """A name in the path, percent-decoded.

    What is broken in it makes it a name that nothing has; but any text is a key, and a broken one
    must not be taken for another.
    """
    try:
        return unquote(segment, errors="strict" if name == "key" else "replace")
    except UnicodeDecodeError as error:
        raise Invalid(
            f"expected UTF-8 in the path, got {segment[:80]!r}", code="malformed_path"
        ) from error


def known_parameters(handler: HTTPRouteHandler) -> tuple[str, ...]:
    definitions = (
        field.kwarg_definition for field in handler.parsed_fn_signature.parameters.values()
    )
    return tuple(
        definition.name
        for definition in definitions
        if isinstance(definition, QueryParameter) and definition.name is not None
    )


def check_known(names: Iterable[str], known: tuple[str, ...]) -> None:
    unknown = next((name for name in names if name not in known), None)
    if unknown is None:
        return
    nearest = get_close_matches(unknown, known, n=1)
    if nearest:
        hint = f"did you mean {nearest[0]!r}?"
    else:
        hint = f"expected one of {', '.join(known)}" if known else "expected none here"
    raise Invalid(
        f"unknown query parameter {unknown!r}: {hint}",
        code="unknown_parameter",
        details={"parameter": unknown, "known": list(known)},
    )


def one_of(what: str, in_query: str | None, other: str | None, place: str) -> str | None:
    """What may be said in two places, but not twice differently."""
    if in_query is not None and other is not None and in_query != other:
        raise Invalid(f"expected one {what}, got {in_query!r} as a parameter and {other!r} {place}")
    return other if in_query is None else in_query


def one_key(in_query: str | None, in_header: str | None) -> str | None:
    return one_of("idempotency key", in_query, in_header, "as a header")


@contextmanager
def naming(run_id: RunId) -> Iterator[None]:
    """An error says which run was begun: it goes on, whoever waits."""
    try:
        yield
    except FloError as error:
        details = {**error.details, "run_id": run_id}
        raise error_of(error.kind, error.code, error.message, details) from error
