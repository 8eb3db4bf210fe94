"""Consumer groups of a stream: commands, queries, replies."""

from enum import StrEnum
from typing import TypeAlias

import msgspec

from flo.model.base import Message, Nothing, Record
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
from flo.model.operation import Command, Permission, Query, operation
from flo.model.streams import START, StreamRecord

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


class GroupMode(StrEnum):
    SHARED = "shared"
    """Every consumer takes what comes next."""
    EXCLUSIVE = "exclusive"
    """One consumer at a time takes everything; the others stand by."""
    KEY_SHARED = "key_shared"
    """Records with the same key are with one consumer at a time, and in order."""


class GroupSettings(Record):
    mode: GroupMode = GroupMode.SHARED
    ack_timeout_ms: int = ACK_TIMEOUT_MS_DEFAULT
    max_deliveries: int = DELIVERIES_MAX_DEFAULT
    redelivery_delay_ms: int = 0
    slots: int = SLOTS_DEFAULT
    """How many sets of keys are told apart in mode key_shared."""
    max_standbys: int = STANDBYS_MAX
    no_ack: bool = False
    """Records count as settled when they are handed out."""


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


class LetterView(Message):
    record: StreamRecord
    deliveries: int
    died_at_ms: int


class LetterPage(Message):
    items: list[LetterView]
    cursor: str | None = None


class LettersChanged(Message):
    """The dead letters that were requeued or purged; `more` if there are more of them."""

    ids: list[StreamId]
    more: bool = False


@operation(opcode=70, permission=Permission.STREAMS_MANAGE, repeatable=False)
class CreateGroup(Command[Nothing]):
    """Make a group; whoever joins or reads one that is not there makes it, with the defaults."""

    stream: StreamName
    group: GroupName
    namespace: Namespace = NAMESPACE_DEFAULT
    settings: GroupSettings = SETTINGS_DEFAULT
    start: str = START
    """Where its reading begins: after this id, or at "$", the end."""


@operation(opcode=71, permission=Permission.STREAMS_MANAGE, repeatable=False)
class DeleteGroup(Command[Nothing]):
    stream: StreamName
    group: GroupName
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(opcode=72, permission=Permission.STREAMS_READ)
class JoinGroup(Command[Joined]):
    stream: StreamName
    group: GroupName
    consumer: ConsumerName
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(opcode=73, permission=Permission.STREAMS_READ)
class LeaveGroup(Command[Nothing]):
    """The consumer's records go to the others at once."""

    stream: StreamName
    group: GroupName
    consumer: ConsumerName
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(opcode=74, permission=Permission.STREAMS_READ)
class ReadGroup(Command[GroupRecords]):
    """Take up to `limit` records for a consumer; wait up to `block_ms` for the first.

    A consumer that has not joined joins, unless `join` is off: then it is refused. With the id of
    a registered worker, what is settled counts for it, and its drain ends the wait.
    """

    stream: StreamName
    group: GroupName
    consumer: ConsumerName
    namespace: Namespace = NAMESPACE_DEFAULT
    limit: int = 1
    block_ms: int = 0
    worker_id: WorkerId | None = None
    join: bool = True


@operation(opcode=75, permission=Permission.STREAMS_READ)
class Ack(Command[Settled]):
    """These records are done. Ids that are not under way are passed over."""

    stream: StreamName
    group: GroupName
    ids: list[StreamId]
    namespace: Namespace = NAMESPACE_DEFAULT
    worker_id: WorkerId | None = None


@operation(opcode=76, permission=Permission.STREAMS_READ)
class Nack(Command[Settled]):
    """These records are not done: hand them out again, after `delay_ms` or the group's delay.

    With a consumer, only those that it holds.
    """

    stream: StreamName
    group: GroupName
    ids: list[StreamId]
    namespace: Namespace = NAMESPACE_DEFAULT
    consumer: ConsumerName | None = None
    delay_ms: int | None = None
    worker_id: WorkerId | None = None


@operation(opcode=77, permission=Permission.STREAMS_READ)
class TouchRecords(Command[Settled]):
    """Give the consumer more time for these records: `extend_ms` from now, or the ack timeout."""

    stream: StreamName
    group: GroupName
    consumer: ConsumerName
    ids: list[StreamId]
    namespace: Namespace = NAMESPACE_DEFAULT
    extend_ms: int | None = None


@operation(
    opcode=78, permission=Permission.STREAMS_READ, repeatable=lambda claim: not claim.min_idle_ms
)
class ClaimRecords(Command[ClaimedRecords]):
    """Take over records that have been under way for `min_idle_ms`; with 0, only one's own.

    A consumer that has not joined joins, unless `join` is off: then it is refused.
    """

    stream: StreamName
    group: GroupName
    consumer: ConsumerName
    namespace: Namespace = NAMESPACE_DEFAULT
    min_idle_ms: int = 0
    after: StreamId = START
    limit: int = 100
    join: bool = True


@operation(opcode=83, permission=Permission.STREAMS_MANAGE, repeatable=False)
class RequeueLetters(Command[LettersChanged]):
    """Hand out dead letters again: these, or the newest `limit` there are."""

    stream: StreamName
    group: GroupName
    namespace: Namespace = NAMESPACE_DEFAULT
    ids: list[StreamId] | None = None
    limit: int = 100


@operation(opcode=84, permission=Permission.STREAMS_MANAGE, repeatable=False)
class PurgeLetters(Command[LettersChanged]):
    """Forget dead letters: these, or the newest `limit` there are."""

    stream: StreamName
    group: GroupName
    namespace: Namespace = NAMESPACE_DEFAULT
    ids: list[StreamId] | None = None
    limit: int = 100


@operation(opcode=80, permission=Permission.STREAMS_READ)
class GetGroup(Query[GroupView]):
    stream: StreamName
    group: GroupName
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(opcode=81, permission=Permission.STREAMS_READ)
class ListGroups(Query[GroupPage]):
    stream: StreamName
    namespace: Namespace = NAMESPACE_DEFAULT
    limit: int = LIST_LIMIT_DEFAULT
    cursor: str | None = None


@operation(opcode=79, permission=Permission.STREAMS_READ)
class ListPending(Query[PendingPage]):
    """The records under way, the oldest first."""

    stream: StreamName
    group: GroupName
    namespace: Namespace = NAMESPACE_DEFAULT
    consumer: ConsumerName | None = None
    limit: int = LIST_LIMIT_DEFAULT
    cursor: str | None = None


@operation(opcode=82, permission=Permission.STREAMS_READ)
class ListLetters(Query[LetterPage]):
    """The dead letters of a group, the newest first."""

    stream: StreamName
    group: GroupName
    namespace: Namespace = NAMESPACE_DEFAULT
    limit: int = LIST_LIMIT_DEFAULT
    cursor: str | None = None
