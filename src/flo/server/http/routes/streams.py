"""The HTTP routes of streams and groups that do more than ask: create, alter, append."""

from typing import Any

import msgspec
from litestar import post, put
from litestar.di import NamedDependency
from litestar.params import JSONBody
from msgspec import UNSET, UnsetType
from msgspec.structs import asdict, replace

from flo.model.base import Message
from flo.model.errors import Invalid
from flo.model.groups import (
    ACK_TIMEOUT_MS_DEFAULT,
    DELIVERIES_MAX_DEFAULT,
    SLOTS_DEFAULT,
    STANDBYS_MAX,
    CreateGroup,
    GetGroup,
    GroupMode,
    GroupSettings,
    GroupView,
)
from flo.model.ids import (
    NAMESPACE_DEFAULT,
    Namespace,
    StreamName,
)
from flo.model.payload import Encoding, payload_from_json
from flo.model.streams import (
    START,
    AlterStream,
    Append,
    Appended,
    CreateStream,
    GetStream,
    NewRecord,
    Retention,
)
from flo.server.http.answers import answered, answers
from flo.server.http.errors import refusals
from flo.server.http.gateway import EngineGateway
from flo.server.http.records import StreamJson, stream_json
from flo.server.http.request import (
    PAYLOAD_BODY_LENGTH_MAX,
    BodyOptional,
    GroupPath,
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


class GroupBody(Message):
    """What is asked of a group's consumers, and where its reading begins.

    `shared`: every consumer takes what comes next. `exclusive`: one takes everything, up to
    `max_standbys` others stand by. `key_shared`: records with the same key are with one consumer at
    a time, in order; `slots` is how many sets of keys are told apart. With `no_ack`, records count
    as settled when they are handed out. `start` is 0-0, $ (the end), or the id to begin after.
    """

    mode: GroupMode = GroupMode.SHARED
    ack_timeout_ms: int = ACK_TIMEOUT_MS_DEFAULT
    max_deliveries: int = DELIVERIES_MAX_DEFAULT
    redelivery_delay_ms: int = 0
    slots: int = SLOTS_DEFAULT
    max_standbys: int = STANDBYS_MAX
    no_ack: bool = False
    start: str = START


@post("/streams", tags=["streams"], responses=refusals(409, 413))
async def create_stream(
    gateway: NamedDependency[EngineGateway],
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
    await gateway.ask(command)
    return await _stream(gateway, data.name, namespace)


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
    return await _stream(gateway, name, namespace)


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


@post(
    "/streams/{name:str}/groups/{group:str}",
    tags=["consumer groups"],
    operation_class=BodyOptional,
    responses=answers(GroupView, "The group.", 409, 413, status=201),
)
async def create_group(
    gateway: NamedDependency[EngineGateway],
    name: StreamPath,
    group: GroupPath,
    data: JSONBody[GroupBody | None] = None,
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
) -> Any:
    """Make a group, and its stream if it is not there.

    A group that is there already is 409 `group_exists`. Whoever joins or reads one that is not
    there makes it too, with the defaults.
    """
    settings = asdict(data or GroupBody())
    start = settings.pop("start")
    command = CreateGroup(
        stream=name,
        group=group,
        namespace=namespace,
        settings=GroupSettings(**settings),
        start=start,
    )
    await gateway.ask(command)
    made = await gateway.ask(GetGroup(stream=name, group=group, namespace=namespace))
    return answered(made)


async def _stream(gateway: EngineGateway, name: StreamName, namespace: Namespace) -> StreamJson:
    return stream_json(await gateway.ask(GetStream(stream=name, namespace=namespace)))


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


ROUTES = (create_stream, alter_stream, append_records, create_group)
