"""The HTTP routes of streams: create, alter, append, read, trim, delete, list."""

from typing import Annotated, Any

import msgspec
from litestar import delete, get, post, put
from litestar.di import NamedDependency
from litestar.params import JSONBody, QueryParameter
from msgspec import UNSET, UnsetType
from msgspec.structs import asdict, replace

from flo.model.base import Message, Nothing
from flo.model.errors import Invalid
from flo.model.ids import (
    BLOCK_MS_MAX,
    LIST_LIMIT_DEFAULT,
    NAMESPACE_DEFAULT,
    Namespace,
    StreamId,
    StreamName,
)
from flo.model.payload import Encoding, payload_from_json, payload_to_json
from flo.model.streams import (
    RECORDS_PER_READ_DEFAULT,
    RECORDS_PER_READ_MAX,
    START,
    AlterStream,
    Append,
    Appended,
    CreateStream,
    DeleteStream,
    GetStream,
    ListStreams,
    NewRecord,
    ReadStream,
    RecordPage,
    Retention,
    StreamPage,
    StreamRecord,
    StreamView,
    Trimmed,
    TrimStream,
)
from flo.server.http.asker import Asker
from flo.server.http.errors import refusals
from flo.server.http.request import (
    PAYLOAD_BODY_LENGTH_MAX,
    CursorQuery,
    FloRequest,
    LimitQuery,
    NamespaceQuery,
    StreamPath,
)


class StreamBody(Message):
    """A stream to be made. It keeps what none of its bounds leaves out; null keeps everything."""

    name: StreamName
    partitions: int = 1
    max_age_ms: int | None = None
    max_length: int | None = None
    max_bytes: int | None = None


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


class TrimBody(Message):
    """What is to go: all that any of these bounds leaves out; without any, see the retention.

    `before` is the id of the first record to keep. With `dry_run`, nothing goes.
    """

    before: StreamId | None = None
    max_length: int | None = None
    max_age_ms: int | None = None
    max_bytes: int | None = None
    dry_run: bool = False


class StreamJson(Message):
    """A stream. `first_id` and `last_id` are null while there is no record in it."""

    name: StreamName
    namespace: Namespace
    created_at_ms: int
    partitions: int
    max_age_ms: int | None
    max_length: int | None
    max_bytes: int | None
    count: int
    bytes: int
    first_id: StreamId | None
    last_id: StreamId | None
    groups: list[str]


class StreamPageJson(Message):
    items: list[StreamJson]
    cursor: str | None


class RecordJson(Message):
    """A record.

    `payload` is JSON if its bytes are, base64 if not, and null if there are none: see
    `payload_encoding`.
    """

    stream_id: StreamId
    sequence: int
    at_ms: int
    payload: Any
    payload_encoding: Encoding | None
    headers: dict[str, str] | None
    key: str | None
    partition: int


class RecordPageJson(Message):
    """Records in their order. To go on, give `last` as `after`, also if there are none."""

    items: list[RecordJson]
    last: StreamId


def record_json(record: StreamRecord) -> RecordJson:
    return RecordJson(**record_fields(record))


def record_fields(record: StreamRecord) -> dict[str, Any]:
    shown = payload_to_json(record.payload)
    return asdict(record) | {
        "stream_id": record.stream_id,
        "payload": shown.value,
        "payload_encoding": shown.encoding,
    }


@get("/streams", tags=["streams"], responses=refusals())
async def list_streams(
    asker: NamedDependency[Asker],
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
    prefix: Annotated[
        str, QueryParameter(name="prefix", description="Only streams whose names begin so.")
    ] = "",
    limit: LimitQuery = LIST_LIMIT_DEFAULT,
    cursor: CursorQuery = None,
) -> StreamPageJson:
    """The streams, by name."""
    query = ListStreams(namespace=namespace, prefix=prefix, limit=limit, cursor=cursor)
    page = await asker.ask(query, StreamPage)
    return StreamPageJson(items=[_stream_json(view) for view in page.items], cursor=page.cursor)


@post("/streams", tags=["streams"], responses=refusals(409, 413))
async def create_stream(
    asker: NamedDependency[Asker],
    data: JSONBody[StreamBody],
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
) -> StreamJson:
    """Make a stream; the first append to one makes it too, with the defaults.

    One that is there already is 409 `stream_exists`.
    """
    command = CreateStream(
        stream=data.name,
        namespace=namespace,
        partitions=data.partitions,
        retention=Retention(
            max_age_ms=data.max_age_ms, max_length=data.max_length, max_bytes=data.max_bytes
        ),
    )
    await asker.ask(command, Nothing)
    return await _stream(asker, data.name, namespace)


@get("/streams/{name:str}", tags=["streams"], responses=refusals(404))
async def get_stream(
    asker: NamedDependency[Asker],
    name: StreamPath,
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
) -> StreamJson:
    """A stream: what it keeps, how much is in it, its groups."""
    return await _stream(asker, name, namespace)


@put("/streams/{name:str}", tags=["streams"], responses=refusals(404, 413))
async def alter_stream(
    asker: NamedDependency[Asker],
    name: StreamPath,
    data: JSONBody[RetentionBody],
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
) -> StreamJson:
    """Change what a stream keeps; its number of partitions stays."""
    wanted = {bound: value for bound, value in asdict(data).items() if value is not UNSET}
    async with asker.changes:
        stream = await asker.ask(GetStream(stream=name, namespace=namespace), StreamView)
        if wanted:
            retention = replace(stream.retention, **wanted)
            command = AlterStream(stream=name, namespace=namespace, retention=retention)
            await asker.ask(command, Nothing)
    return await _stream(asker, name, namespace)


@delete("/streams/{name:str}", tags=["streams"], responses=refusals(404))
async def delete_stream(
    asker: NamedDependency[Asker],
    name: StreamPath,
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
) -> None:
    """Delete a stream, its records and its groups."""
    async with asker.changes:
        await asker.ask(DeleteStream(stream=name, namespace=namespace), Nothing)


@post(
    "/streams/{name:str}/records",
    tags=["streams"],
    request_max_body_size=PAYLOAD_BODY_LENGTH_MAX,
    responses=refusals(413),
)
async def append_records(
    asker: NamedDependency[Asker],
    name: StreamPath,
    data: JSONBody[AppendBody],
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
) -> Appended:
    """Append one record, or several; the answer has the ids of the first and the last of them.

    A stream that is not there is made.
    """
    command = Append(stream=name, namespace=namespace, records=_new_records(data))
    return await asker.ask(command, Appended)


@get("/streams/{name:str}/records", tags=["streams"], responses=refusals(404))
async def read_records(
    asker: NamedDependency[Asker],
    request: FloRequest,
    name: StreamPath,
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
    after: Annotated[
        str,
        QueryParameter(
            name="after",
            description="Only records after this id; 0-0 is the start, $ is the end: only what "
            "comes from now on.",
        ),
    ] = START,
    until: Annotated[
        str | None,
        QueryParameter(name="until", description="Only records up to this id, and with it."),
    ] = None,
    last: Annotated[
        int,
        QueryParameter(
            name="last",
            ge=0,
            le=RECORDS_PER_READ_MAX,
            description="Begin with so many of the newest records, whatever `after` says.",
        ),
    ] = 0,
    limit: Annotated[
        int,
        QueryParameter(
            name="limit",
            ge=1,
            le=RECORDS_PER_READ_MAX,
            description="The most records to answer; it may be fewer, of about 1 MiB together.",
        ),
    ] = RECORDS_PER_READ_DEFAULT,
    block_ms: Annotated[
        int,
        QueryParameter(
            name="block_ms",
            ge=0,
            le=BLOCK_MS_MAX,
            description="Wait so long for the first record, even for the stream to be made.",
        ),
    ] = 0,
    partition: Annotated[
        int | None, QueryParameter(name="partition", ge=0, description="Only of this partition.")
    ] = None,
    key: Annotated[
        str | None,
        QueryParameter(name="key", description="Only of the partition that this key chooses."),
    ] = None,
) -> RecordPageJson:
    """Records in their order. Reading takes nothing away: whoever asks again gets them again."""
    query = ReadStream(
        stream=name,
        namespace=namespace,
        after=after,
        until=until,
        last=last,
        limit=limit,
        block_ms=block_ms,
        partition=partition,
        key=key,
    )
    reads = asker.wait(query, RecordPage, request) if block_ms else asker.ask(query, RecordPage)
    page = await reads
    return RecordPageJson(items=[record_json(record) for record in page.items], last=page.last)


@post("/streams/{name:str}/trim", status_code=200, tags=["streams"], responses=refusals(404, 413))
async def trim_stream(
    asker: NamedDependency[Asker],
    name: StreamPath,
    data: JSONBody[TrimBody],
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
) -> Trimmed:
    """Let go of the oldest records: with `{}`, of what the stream need not keep.

    Groups never see what is gone.
    """
    command = TrimStream(stream=name, namespace=namespace, **asdict(data))
    return await asker.ask(command, Trimmed)


async def _stream(asker: Asker, name: StreamName, namespace: Namespace) -> StreamJson:
    return _stream_json(await asker.ask(GetStream(stream=name, namespace=namespace), StreamView))


def _stream_json(view: StreamView) -> StreamJson:
    fields = asdict(view)
    return StreamJson(**asdict(fields.pop("retention")), **fields)


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


ROUTES = (
    list_streams,
    create_stream,
    get_stream,
    alter_stream,
    delete_stream,
    append_records,
    read_records,
    trim_stream,
)
