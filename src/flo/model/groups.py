"""Consumer groups of a stream: commands, queries, replies."""

from enum import StrEnum
from typing import Annotated, TypeAlias

import msgspec

from flo.model.base import Message, Nothing, Record
from flo.model.declare.dead_letters import DEAD_PER_CALL_DEFAULT, DeadLettersChanged, DeadLimit
from flo.model.declare.fields import BlockMs, Checked, Cursor, ItemCount, Limit, Range, about
from flo.model.declare.operation import Command, Permission, Query, operation
from flo.model.declare.route import Route
from flo.model.ids import (
    DURATION_MS_MAX,
    LIST_LIMIT_DEFAULT,
    NAMESPACE_DEFAULT,
    ConsumerName,
    GroupName,
    Namespace,
    StreamId,
    StreamName,
    WorkerId,
    check_stream_name,
)
from flo.model.storage.records import StreamRecord
from flo.model.streams import START, Position, RecordLimit

ACK_TIMEOUT_MS_DEFAULT = 60_000
ACK_TIMEOUT_MS_MAX = 24 * 3_600_000
DELIVERIES_MAX_DEFAULT = 10
DELIVERIES_MAX_MAX = 1_000
SLOTS_DEFAULT = 256
SLOTS_MAX = 4_096
STANDBYS_MAX = 65_535
CONSUMERS_MAX = 10_000
GROUPS_MAX = 1_000
IDS_PER_COMMAND_MAX = 1_000
PENDING_PER_GROUP_MAX = 100_000
"""A group that has so many records under way is given no more until some are settled."""
Sequences: TypeAlias = tuple[tuple[int, int], ...]
"""Sequences as the first and the last of each unbroken part."""
NewConsumer: TypeAlias = Annotated[
    ConsumerName, Checked(lambda name: check_stream_name(name, "the name of a consumer"))
]
StreamIds: TypeAlias = Annotated[
    list[StreamId], ItemCount(IDS_PER_COMMAND_MAX, "ids"), about("The ids of the records.")
]
ChosenIds: TypeAlias = Annotated[
    list[StreamId] | None,
    ItemCount(IDS_PER_COMMAND_MAX, "ids"),
    about("The ids of the records, all or none of which are taken; without them, any."),
]
AlsoJoin: TypeAlias = Annotated[
    bool, about("Whether a consumer that has not joined is joined; otherwise it is refused.")
]
CountedWorker: TypeAlias = Annotated[
    WorkerId | None, about("The registered worker for which what is settled counts.")
]

IN_PATH = {"name": "stream"}
"""In the paths of the HTTP API, a stream is called `name`."""


class GroupMode(StrEnum):
    SHARED = "shared"
    """Every consumer takes what comes next."""
    EXCLUSIVE = "exclusive"
    """One consumer at a time takes everything; the others stand by."""
    KEY_SHARED = "key_shared"
    """A key stays with one consumer while that is there; its records come in order."""


class GroupSettings(Record):
    """What is asked of a group's consumers."""

    mode: Annotated[GroupMode, about("How records are shared out.")] = GroupMode.SHARED
    ack_timeout_ms: Annotated[
        int, Range(1, ACK_TIMEOUT_MS_MAX), about("How long a consumer has for a record.")
    ] = ACK_TIMEOUT_MS_DEFAULT
    max_deliveries: Annotated[
        int, Range(1, DELIVERIES_MAX_MAX), about("After so many, a record is a dead letter.")
    ] = DELIVERIES_MAX_DEFAULT
    redelivery_delay_ms: Annotated[
        int, Range(0, DURATION_MS_MAX), about("The wait before a record is handed out again.")
    ] = 0
    slots: Annotated[
        int, Range(1, SLOTS_MAX), about("How many sets of keys are told apart in key_shared.")
    ] = SLOTS_DEFAULT
    max_standbys: Annotated[
        int, Range(0, STANDBYS_MAX), about("How many consumers may stand by in exclusive.")
    ] = STANDBYS_MAX
    no_ack: Annotated[bool, about("Records count as settled when they are handed out.")] = False


SETTINGS_DEFAULT = GroupSettings()


class Joined(Message):
    """What a consumer needs to know of the group it has joined."""

    settings: GroupSettings


class GroupRecords(Message):
    """Records handed out; `deliveries` says for each how often it has been."""

    items: list[StreamRecord] = msgspec.field(default_factory=list)
    deliveries: list[int] = msgspec.field(default_factory=list)
    draining: bool = False


class ClaimedRecords(Message):
    items: list[StreamRecord] = msgspec.field(default_factory=list)
    deliveries: list[int] = msgspec.field(default_factory=list)
    next: StreamId | None = None
    """Where the next claim goes on; None when there is nothing more to look at."""


class Settled(Message):
    """How many records were meant: those that were under way."""

    count: int


class ConsumerView(Message):
    name: ConsumerName
    joined_at_ms: int
    pending: int
    is_chosen: bool = False


class GroupView(Message):
    name: GroupName
    stream: StreamName
    namespace: Namespace
    settings: GroupSettings
    created_at_ms: int
    lag: int
    """How many records are new to the group."""
    pending: int
    waiting: int
    """To be handed out again."""
    dead: int
    consumers: list[ConsumerView]


class GroupPage(Message):
    items: list[GroupView]
    cursor: str | None = None


class PendingView(Message):
    stream_id: StreamId
    consumer: ConsumerName
    deliveries: int
    delivered_at_ms: int
    until_ms: int


class PendingPage(Message):
    items: list[PendingView]
    cursor: str | None = None


class DeadRecordView(Message):
    record: StreamRecord
    deliveries: int
    died_at_ms: int


class DeadRecordPage(Message):
    items: list[DeadRecordView]
    cursor: str | None = None


@operation(
    opcode=70,
    permission=Permission.STREAMS_MANAGE,
    http=Route(
        "POST",
        "/streams/{name}/groups/{group}",
        status=201,
        errors=(409,),
        names=IN_PATH,
        flat="settings",
        answer="get_group",
        is_body_optional=True,
    ),
)
class CreateGroup(Command[Nothing]):
    """Make a group, and its stream if it is not there.

    A group that is there already is refused: `group_exists`. Whoever joins or reads one that is not
    there makes it too, with the defaults.
    """

    stream: StreamName
    group: GroupName
    namespace: Namespace = NAMESPACE_DEFAULT
    settings: Annotated[GroupSettings, about("What is asked of the group's consumers.")] = (
        SETTINGS_DEFAULT
    )
    start: Annotated[
        Position, about("Where its reading begins: after this id, or at $, the end.")
    ] = START


@operation(
    opcode=71,
    permission=Permission.STREAMS_MANAGE,
    http=Route("DELETE", "/streams/{name}/groups/{group}", errors=(404,), names=IN_PATH),
)
class DeleteGroup(Command[Nothing]):
    """Delete a group and its dead letters; the records of the stream stay."""

    stream: StreamName
    group: GroupName
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(
    opcode=72,
    permission=Permission.STREAMS_CONSUME,
    http=Route("POST", "/streams/{name}/groups/{group}/join", errors=(409,), names=IN_PATH),
)
class JoinGroup(Command[Joined]):
    """Become a consumer of a group; what is not there is made. To join twice is fine."""

    stream: StreamName
    group: GroupName
    consumer: NewConsumer
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(
    opcode=73,
    permission=Permission.STREAMS_CONSUME,
    http=Route("POST", "/streams/{name}/groups/{group}/leave", errors=(404,), names=IN_PATH),
)
class LeaveGroup(Command[Nothing]):
    """Leave a group; what the consumer holds goes to the others at once. Gone already is fine."""

    stream: StreamName
    group: GroupName
    consumer: ConsumerName
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(
    opcode=74,
    permission=Permission.STREAMS_CONSUME,
    repeatable=True,
    http=Route(
        "POST",
        "/streams/{name}/groups/{group}/read",
        errors=(409,),
        names=IN_PATH,
        without=("join",),
        defaults={"limit": 10, "block_ms": 30_000},
    ),
)
class ReadGroup(Command[GroupRecords]):
    """Take up to `limit` records, waiting up to `block_ms` for the first.

    A consumer that has not joined joins, unless `join` is false. The records are the consumer's
    until they are acked, nacked, or the ack timeout ends. A client that hangs up while it waits
    gets none; if they were on their way to it already, they come back when their ack timeout ends.
    The drain of the worker that is named ends the wait.
    """

    stream: StreamName
    group: GroupName
    consumer: ConsumerName
    namespace: Namespace = NAMESPACE_DEFAULT
    limit: RecordLimit = 1
    block_ms: BlockMs = 0
    worker_id: CountedWorker = None
    join: AlsoJoin = True


@operation(
    opcode=75,
    permission=Permission.STREAMS_CONSUME,
    repeatable=True,
    http=Route(
        "POST",
        "/streams/{name}/groups/{group}/ack",
        errors=(404,),
        name="ack_records",
        names=IN_PATH,
    ),
)
class Ack(Command[Settled]):
    """Say that records are done; ids that are not under way are passed over, and not counted."""

    stream: StreamName
    group: GroupName
    ids: StreamIds
    namespace: Namespace = NAMESPACE_DEFAULT
    worker_id: CountedWorker = None


@operation(
    opcode=76,
    permission=Permission.STREAMS_CONSUME,
    http=Route(
        "POST",
        "/streams/{name}/groups/{group}/nack",
        errors=(404,),
        name="nack_records",
        names=IN_PATH,
    ),
)
class Nack(Command[Settled]):
    """Say that records are not done: they are handed out again, or become dead letters."""

    stream: StreamName
    group: GroupName
    ids: StreamIds
    namespace: Namespace = NAMESPACE_DEFAULT
    consumer: Annotated[ConsumerName | None, about("Only those that this consumer holds.")] = None
    delay_ms: Annotated[
        int | None, Range(0, DURATION_MS_MAX), about("The wait, if not the group's.")
    ] = None
    worker_id: CountedWorker = None


@operation(
    opcode=77,
    permission=Permission.STREAMS_CONSUME,
    http=Route("POST", "/streams/{name}/groups/{group}/touch", errors=(404,), names=IN_PATH),
)
class TouchRecords(Command[Settled]):
    """Give the consumer more time for records that it holds."""

    stream: StreamName
    group: GroupName
    consumer: ConsumerName
    ids: StreamIds
    namespace: Namespace = NAMESPACE_DEFAULT
    extend_ms: Annotated[
        int | None,
        Range(1, ACK_TIMEOUT_MS_MAX),
        about("How long it has from now, if not the ack timeout."),
    ] = None


@operation(
    opcode=78,
    permission=Permission.STREAMS_CONSUME,
    repeatable=lambda claim: not claim.min_idle_ms,
    http=Route(
        "POST",
        "/streams/{name}/groups/{group}/claim",
        errors=(404, 409),
        names=IN_PATH,
        without=("join",),
        defaults={"join": False},
    ),
)
class ClaimRecords(Command[ClaimedRecords]):
    """Take over records that others let lie, or see again what one holds.

    A consumer that has not joined joins, unless `join` is false: then it is refused.
    """

    stream: StreamName
    group: GroupName
    consumer: NewConsumer
    namespace: Namespace = NAMESPACE_DEFAULT
    min_idle_ms: Annotated[
        int, Range(0, ACK_TIMEOUT_MS_MAX), about("How long ago they were handed out, at least.")
    ] = 0
    after: Annotated[StreamId, about("Only records after this id.")] = START
    limit: RecordLimit = 100
    join: AlsoJoin = True


@operation(
    opcode=83,
    permission=Permission.GROUPS_MANAGE,
    http=Route(
        "POST", "/streams/{name}/groups/{group}/dlq/requeue", errors=(404, 409), names=IN_PATH
    ),
)
class RequeueDeadRecords(Command[DeadLettersChanged]):
    """Hand out dead letters again, as if for the first time: some, or all.

    While the answer says `more`, there are others: ask again.
    """

    stream: StreamName
    group: GroupName
    namespace: Namespace = NAMESPACE_DEFAULT
    ids: ChosenIds = None
    limit: DeadLimit = DEAD_PER_CALL_DEFAULT


@operation(
    opcode=84,
    permission=Permission.GROUPS_MANAGE,
    http=Route("DELETE", "/streams/{name}/groups/{group}/dlq", errors=(404,), names=IN_PATH),
)
class PurgeDeadRecords(Command[DeadLettersChanged]):
    """Forget dead letters: some, or all.

    Over HTTP the body must be there, with `{}` for all, so that one lost on the way does not forget
    more than was meant. While the answer says `more`, there are others: ask again.
    """

    stream: StreamName
    group: GroupName
    namespace: Namespace = NAMESPACE_DEFAULT
    ids: ChosenIds = None
    limit: DeadLimit = DEAD_PER_CALL_DEFAULT


@operation(
    opcode=80,
    permission=Permission.STREAMS_READ,
    http=Route("GET", "/streams/{name}/groups/{group}", errors=(404,), names=IN_PATH),
)
class GetGroup(Query[GroupView]):
    """A group: its settings, its consumers, and how far it is."""

    stream: StreamName
    group: GroupName
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(
    opcode=81,
    permission=Permission.STREAMS_READ,
    http=Route("GET", "/streams/{name}/groups", errors=(404,), names=IN_PATH),
)
class ListGroups(Query[GroupPage]):
    """The groups of a stream, by name."""

    stream: StreamName
    namespace: Namespace = NAMESPACE_DEFAULT
    limit: Limit = LIST_LIMIT_DEFAULT
    cursor: Cursor = None


@operation(
    opcode=79,
    permission=Permission.STREAMS_READ,
    http=Route("GET", "/streams/{name}/groups/{group}/pending", errors=(404,), names=IN_PATH),
)
class ListPending(Query[PendingPage]):
    """The records under way: with whom, since when, until when. The oldest come first."""

    stream: StreamName
    group: GroupName
    namespace: Namespace = NAMESPACE_DEFAULT
    consumer: Annotated[ConsumerName | None, about("Only what is with this consumer.")] = None
    limit: Limit = LIST_LIMIT_DEFAULT
    cursor: Cursor = None


@operation(
    opcode=82,
    permission=Permission.STREAMS_READ,
    http=Route("GET", "/streams/{name}/groups/{group}/dlq", errors=(404,), names=IN_PATH),
)
class ListDeadRecords(Query[DeadRecordPage]):
    """The dead letters of a group, the newest first."""

    stream: StreamName
    group: GroupName
    namespace: Namespace = NAMESPACE_DEFAULT
    limit: Limit = LIST_LIMIT_DEFAULT
    cursor: Cursor = None
