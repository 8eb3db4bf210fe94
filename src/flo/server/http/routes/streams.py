"""The HTTP routes of streams that do more than ask: alter, append."""

import msgspec
from litestar import post, put
from litestar.di import NamedDependency
from litestar.params import JSONBody
from msgspec import UNSET, UnsetType
from msgspec.structs import asdict, replace

from flo.model.base import Message
from flo.model.declare.payload import Encoding, payload_from_json
from flo.model.errors import Invalid
from flo.model.ids import (
    NAMESPACE_DEFAULT,
)
from flo.model.streams import (
    AlterStream,
    Append,
    Appended,
    GetStream,
    NewRecord,
)
from flo.server.http.errors import refusals
from flo.server.http.gateway import EngineGateway
from flo.server.http.records import StreamJson, stream_json
from flo.server.http.request import (
    PAYLOAD_BODY_LENGTH_MAX,
    NamespaceQuery,
    StreamPath,
)


class RetentionBody(Message):
    """What the stream is to keep; what is left out stays as it is, null takes a bound away."""

    max_age_ms: int | UnsetType | None = UNSET
    max_length: int | UnsetType | None = UNSET
    max_bytes: int | UnsetType | None = UNSET


class RecordBody(Message):
    """A record: `payload` is any JSON, or text or bytes in base64 if `payload_encoding` says so.

    Without a `partition`, the `key` chooses one; without either, chance.
    """

    payload: msgspec.Raw
    payload_encoding: Encoding = "json"
    headers: dict[str, str] | None = None
    key: str | None = None
    partition: int | None = None


class AppendBody(Message):
    """One record, or up to 1000 of them in `records`: all are appended, in order, or none."""

    payload: msgspec.Raw | UnsetType = UNSET
    payload_encoding: Encoding = "json"
    headers: dict[str, str] | None = None
    key: str | None = None
    partition: int | None = None
    records: list[RecordBody] | None = None


@put("/streams/{name:str}", tags=["streams"], responses=refusals(404, 413))
async def alter_stream(
    gateway: NamedDependency[EngineGateway],
    name: StreamPath,
    data: JSONBody[RetentionBody],
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
) -> StreamJson:
    """Change what a stream keeps; its number of partitions stays."""
    wanted = {bound: value for bound, value in asdict(data).items() if value is not UNSET}
    async with gateway.changes:
        stream = await gateway.ask(GetStream(stream=name, namespace=namespace))
        if wanted:
            retention = replace(stream.retention, **wanted)
            command = AlterStream(stream=name, namespace=namespace, retention=retention)
            await gateway.ask(command)
    return stream_json(await gateway.ask(GetStream(stream=name, namespace=namespace)))


@post(
    "/streams/{name:str}/records",
    tags=["streams"],
    request_max_body_size=PAYLOAD_BODY_LENGTH_MAX,
    responses=refusals(413),
)
async def append_records(
    gateway: NamedDependency[EngineGateway],
    name: StreamPath,
    data: JSONBody[AppendBody],
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
) -> Appended:
    """Append one record, or several; the answer has the ids of the first and the last of them.

    A stream that is not there is made.
    """
    command = Append(stream=name, namespace=namespace, records=_new_records(data))
    return await gateway.ask(command)


def _new_records(body: AppendBody) -> list[NewRecord]:
    if body.records is None:
        if isinstance(body.payload, UnsetType):
            raise Invalid("expected a `payload`, or `records` with one each; got neither")
        fields = asdict(body)
        del fields["records"]
        return [_new_record(RecordBody(**fields))]
    if body != AppendBody(records=body.records):
        raise Invalid("expected one record or `records`, got both")
    return [_new_record(record) for record in body.records]


def _new_record(body: RecordBody) -> NewRecord:
    return NewRecord(
        payload=payload_from_json(body.payload, body.payload_encoding, "payload"),
        headers=body.headers,
        key=body.key,
        partition=body.partition,
    )


ROUTES = (alter_stream, append_records)
