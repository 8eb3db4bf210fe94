"""The HTTP routes of consumer groups: make, join, read, settle, claim, leave, delete, list."""

from typing import Annotated

from litestar import delete, get, post
from litestar.di import NamedDependency
from litestar.params import JSONBody, QueryParameter
from msgspec.structs import asdict

from flo.model.base import Message, Nothing
from flo.model.groups import (
    ACK_TIMEOUT_MS_DEFAULT,
    DELIVERIES_MAX_DEFAULT,
    SLOTS_DEFAULT,
    STANDBYS_MAX,
    Ack,
    ClaimedRecords,
    ClaimRecords,
    ConsumerView,
    CreateGroup,
    DeleteGroup,
    GetGroup,
    GroupMode,
    GroupPage,
    GroupRecords,
    GroupSettings,
    GroupView,
    Joined,
    JoinGroup,
    LeaveGroup,
    ListGroups,
    ListPending,
    Nack,
    PendingPage,
    ReadGroup,
    Settled,
    TouchRecords,
)
from flo.model.ids import (
    LIST_LIMIT_DEFAULT,
    NAMESPACE_DEFAULT,
    ConsumerName,
    GroupName,
    Namespace,
    StreamId,
    StreamName,
    WorkerId,
)
from flo.model.streams import START, StreamRecord
from flo.server.http.asker import Asker
from flo.server.http.errors import refusals
from flo.server.http.request import (
    BodyOptional,
    CursorQuery,
    FloRequest,
    GroupPath,
    LimitQuery,
    NamespaceQuery,
    StreamPath,
)
from flo.server.http.routes.streams import RecordJson, record_fields
from flo.server.http.routes.workers import BLOCK_MS_DEFAULT

READ_LIMIT_DEFAULT = 10
CLAIM_LIMIT_DEFAULT = 100


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


class ConsumerBody(Message):
    """Who it is."""

    consumer: ConsumerName


class ReadGroupBody(Message):
    """For whom, how many at most, and how long to wait for the first.

    With the id of a registered worker, what is settled counts for it, and its drain ends the wait.
    """

    consumer: ConsumerName
    limit: int = READ_LIMIT_DEFAULT
    block_ms: int = BLOCK_MS_DEFAULT
    worker_id: WorkerId | None = None


class AckBody(Message):
    """Up to 1000 ids of records that are done."""

    ids: list[StreamId]
    worker_id: WorkerId | None = None


class NackBody(Message):
    """Up to 1000 ids of records that are not done; with a `consumer`, only those that it holds.

    They are handed out again after `delay_ms`, or after the group's `redelivery_delay_ms`.
    """

    ids: list[StreamId]
    consumer: ConsumerName | None = None
    delay_ms: int | None = None
    worker_id: WorkerId | None = None


class TouchRecordsBody(Message):
    """The records are to be the consumer's for `extend_ms` from now, or for the ack timeout."""

    consumer: ConsumerName
    ids: list[StreamId]
    extend_ms: int | None = None


class ClaimBody(Message):
    """Records that were handed out `min_idle_ms` ago or earlier; with 0, only one's own."""

    consumer: ConsumerName
    min_idle_ms: int = 0
    after: StreamId = START
    limit: int = CLAIM_LIMIT_DEFAULT


class SettingsJson(Message):
    """What is asked of a group's consumers."""

    mode: GroupMode
    ack_timeout_ms: int
    max_deliveries: int
    redelivery_delay_ms: int
    slots: int
    max_standbys: int
    no_ack: bool


class JoinedJson(Message):
    """What a consumer needs to know of the group it has joined."""

    settings: SettingsJson


class GroupJson(Message):
    """A group. `lag`: records new to it; `pending`: handed out; `waiting`: to be handed out again.

    `dead`: how many dead letters it has.
    """

    name: GroupName
    stream: StreamName
    namespace: Namespace
    settings: SettingsJson
    created_at_ms: int
    lag: int
    pending: int
    waiting: int
    dead: int
    consumers: list[ConsumerView]


class GroupPageJson(Message):
    items: list[GroupJson]
    cursor: str | None


class DeliveredJson(RecordJson):
    """A record handed out; `deliveries` says how often it has been, this time included."""

    deliveries: int


class GroupRecordsJson(Message):
    """The records, none if the time ran out; for a draining worker there are no more."""

    items: list[DeliveredJson]
    draining: bool


class ClaimedJson(Message):
    """The records; `next` is the `after` of the next claim, null when all has been looked at."""

    items: list[DeliveredJson]
    next: StreamId | None


@get("/streams/{name:str}/groups", tags=["consumer groups"], responses=refusals(404))
async def list_groups(
    asker: NamedDependency[Asker],
    name: StreamPath,
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
    limit: LimitQuery = LIST_LIMIT_DEFAULT,
    cursor: CursorQuery = None,
) -> GroupPageJson:
    """The groups of a stream, by name."""
    query = ListGroups(stream=name, namespace=namespace, limit=limit, cursor=cursor)
    page = await asker.ask(query, GroupPage)
    return GroupPageJson(items=[_group_json(view) for view in page.items], cursor=page.cursor)


@post(
    "/streams/{name:str}/groups/{group:str}",
    tags=["consumer groups"],
    operation_class=BodyOptional,
    responses=refusals(409, 413),
)
async def create_group(
    asker: NamedDependency[Asker],
    name: StreamPath,
    group: GroupPath,
    data: JSONBody[GroupBody | None] = None,
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
) -> GroupJson:
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
    await asker.ask(command, Nothing)
    return await _group(asker, name, group, namespace)


@get("/streams/{name:str}/groups/{group:str}", tags=["consumer groups"], responses=refusals(404))
async def get_group(
    asker: NamedDependency[Asker],
    name: StreamPath,
    group: GroupPath,
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
) -> GroupJson:
    """A group: its settings, its consumers, and how far it is."""
    return await _group(asker, name, group, namespace)


@delete("/streams/{name:str}/groups/{group:str}", tags=["consumer groups"], responses=refusals(404))
async def delete_group(
    asker: NamedDependency[Asker],
    name: StreamPath,
    group: GroupPath,
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
) -> None:
    """Delete a group and its dead letters; the records of the stream stay."""
    await asker.ask(DeleteGroup(stream=name, group=group, namespace=namespace), Nothing)


@post(
    "/streams/{name:str}/groups/{group:str}/join",
    status_code=200,
    tags=["consumer groups"],
    responses=refusals(409, 413),
)
async def join_group(
    asker: NamedDependency[Asker],
    name: StreamPath,
    group: GroupPath,
    data: JSONBody[ConsumerBody],
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
) -> JoinedJson:
    """Become a consumer of a group; what is not there is made. To join twice is fine."""
    joined = await _join(asker, name, group, data.consumer, namespace)
    return JoinedJson(settings=_settings_json(joined.settings))


@post(
    "/streams/{name:str}/groups/{group:str}/leave",
    status_code=204,
    tags=["consumer groups"],
    responses=refusals(404, 413),
)
async def leave_group(
    asker: NamedDependency[Asker],
    name: StreamPath,
    group: GroupPath,
    data: JSONBody[ConsumerBody],
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
) -> None:
    """Leave a group; what the consumer holds goes to the others at once. Gone already is fine."""
    command = LeaveGroup(stream=name, group=group, consumer=data.consumer, namespace=namespace)
    await asker.ask(command, Nothing)


@post(
    "/streams/{name:str}/groups/{group:str}/read",
    status_code=200,
    tags=["consumer groups"],
    responses=refusals(409, 413),
)
async def read_group(
    asker: NamedDependency[Asker],
    request: FloRequest,
    name: StreamPath,
    group: GroupPath,
    data: JSONBody[ReadGroupBody],
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
) -> GroupRecordsJson:
    """Take up to `limit` records, waiting up to `block_ms` for the first.

    A consumer that has not joined is joined. The records are the consumer's until they are acked,
    nacked, or the ack timeout ends. A client that hangs up while it waits gets none; if they were
    on their way to it already, they come back when their ack timeout ends.
    """
    command = ReadGroup(stream=name, group=group, namespace=namespace, **asdict(data))
    found = await asker.wait(command, GroupRecords, request)
    return GroupRecordsJson(
        items=_delivered_json(found.items, found.deliveries), draining=found.draining
    )


@post(
    "/streams/{name:str}/groups/{group:str}/ack",
    status_code=200,
    tags=["consumer groups"],
    responses=refusals(404, 413),
)
async def ack_records(
    asker: NamedDependency[Asker],
    name: StreamPath,
    group: GroupPath,
    data: JSONBody[AckBody],
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
) -> Settled:
    """Say that records are done; ids that are not under way are passed over, and not counted."""
    command = Ack(stream=name, group=group, namespace=namespace, **asdict(data))
    return await asker.ask(command, Settled)


@post(
    "/streams/{name:str}/groups/{group:str}/nack",
    status_code=200,
    tags=["consumer groups"],
    responses=refusals(404, 413),
)
async def nack_records(
    asker: NamedDependency[Asker],
    name: StreamPath,
    group: GroupPath,
    data: JSONBody[NackBody],
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
) -> Settled:
    """Say that records are not done: they are handed out again, or become dead letters."""
    command = Nack(stream=name, group=group, namespace=namespace, **asdict(data))
    return await asker.ask(command, Settled)


@post(
    "/streams/{name:str}/groups/{group:str}/touch",
    status_code=200,
    tags=["consumer groups"],
    responses=refusals(404, 413),
)
async def touch_records(
    asker: NamedDependency[Asker],
    name: StreamPath,
    group: GroupPath,
    data: JSONBody[TouchRecordsBody],
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
) -> Settled:
    """Give the consumer more time for records that it holds."""
    command = TouchRecords(stream=name, group=group, namespace=namespace, **asdict(data))
    return await asker.ask(command, Settled)


@post(
    "/streams/{name:str}/groups/{group:str}/claim",
    status_code=200,
    tags=["consumer groups"],
    responses=refusals(404, 409, 413),
)
async def claim_records(
    asker: NamedDependency[Asker],
    name: StreamPath,
    group: GroupPath,
    data: JSONBody[ClaimBody],
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
) -> ClaimedJson:
    """Take over records that others let lie, or see again what one holds; only for who joined."""
    command = ClaimRecords(
        stream=name, group=group, namespace=namespace, **asdict(data), join=False
    )
    claimed = await asker.ask(command, ClaimedRecords)
    items = _delivered_json(claimed.items, claimed.deliveries)
    return ClaimedJson(items=items, next=claimed.next)


@get(
    "/streams/{name:str}/groups/{group:str}/pending",
    tags=["consumer groups"],
    responses=refusals(404),
)
async def list_pending(
    asker: NamedDependency[Asker],
    name: StreamPath,
    group: GroupPath,
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
    consumer: Annotated[
        str | None,
        QueryParameter(name="consumer", description="Only what is with this consumer."),
    ] = None,
    limit: LimitQuery = LIST_LIMIT_DEFAULT,
    cursor: CursorQuery = None,
) -> PendingPage:
    """The records under way: with whom, since when, until when. The oldest come first."""
    query = ListPending(
        stream=name, group=group, namespace=namespace, consumer=consumer, limit=limit, cursor=cursor
    )
    return await asker.ask(query, PendingPage)


async def _join(
    asker: Asker, name: StreamName, group: GroupName, consumer: ConsumerName, namespace: Namespace
) -> Joined:
    command = JoinGroup(stream=name, group=group, consumer=consumer, namespace=namespace)
    return await asker.ask(command, Joined)


async def _group(
    asker: Asker, name: StreamName, group: GroupName, namespace: Namespace
) -> GroupJson:
    query = GetGroup(stream=name, group=group, namespace=namespace)
    return _group_json(await asker.ask(query, GroupView))


def _group_json(view: GroupView) -> GroupJson:
    return GroupJson(**asdict(view) | {"settings": _settings_json(view.settings)})


def _settings_json(settings: GroupSettings) -> SettingsJson:
    return SettingsJson(**asdict(settings))


def _delivered_json(records: list[StreamRecord], deliveries: list[int]) -> list[DeliveredJson]:
    return [
        DeliveredJson(**record_fields(record), deliveries=count)
        for record, count in zip(records, deliveries, strict=True)
    ]


ROUTES = (
    list_groups,
    create_group,
    get_group,
    delete_group,
    join_group,
    leave_group,
    read_group,
    ack_records,
    nack_records,
    touch_records,
    claim_records,
    list_pending,
)
