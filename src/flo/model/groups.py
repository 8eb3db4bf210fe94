"""Consumer groups of a stream: record, commands, questions, events, replies."""

from enum import StrEnum
from typing import TypeAlias

import msgspec

from flo.model.base import Event, Message, Observation, Record
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


class Delivery(Record):
    """A record on its way through a group.

    consumer          handed out, until `until_ms`
    no consumer       to be handed out again, at once or, with `until_ms`, from then on
    """

    sequence: int
    deliveries: int = 0
    consumer: ConsumerName | None = None
    until_ms: int | None = None
    delivered_at_ms: int | None = None
    slot: int = 0


class Letter(Record):
    """A record that a group gave up, with all that was in it."""

    record: StreamRecord
    deliveries: int
    at_ms: int


class CreateGroup(Message):
    """Make a group; whoever joins or reads one that is not there makes it, with the defaults."""

    stream: StreamName
    group: GroupName
    namespace: Namespace = NAMESPACE_DEFAULT
    settings: GroupSettings = SETTINGS_DEFAULT
    start: str = START
    """Where its reading begins: after this id, or at "$", the end."""


class DeleteGroup(Message):
    stream: StreamName
    group: GroupName
    namespace: Namespace = NAMESPACE_DEFAULT


class JoinGroup(Message):
    stream: StreamName
    group: GroupName
    consumer: ConsumerName
    namespace: Namespace = NAMESPACE_DEFAULT


class LeaveGroup(Message):
    """The consumer's records go to the others at once."""

    stream: StreamName
    group: GroupName
    consumer: ConsumerName
    namespace: Namespace = NAMESPACE_DEFAULT


class ReadGroup(Message):
    """Take up to `limit` records for a consumer; wait up to `block_ms` for the first.

    With the id of a registered worker, what is settled counts for it, and its drain ends the wait.
    """

    stream: StreamName
    group: GroupName
    consumer: ConsumerName
    namespace: Namespace = NAMESPACE_DEFAULT
    limit: int = 1
    block_ms: int = 0
    worker_id: WorkerId | None = None


class Ack(Message):
    """These records are done. Ids that are not under way are passed over."""

    stream: StreamName
    group: GroupName
    ids: list[StreamId]
    namespace: Namespace = NAMESPACE_DEFAULT
    worker_id: WorkerId | None = None


class Nack(Message):
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


class TouchRecords(Message):
    """Give the consumer more time for these records: `extend_ms` from now, or the ack timeout."""

    stream: StreamName
    group: GroupName
    consumer: ConsumerName
    ids: list[StreamId]
    namespace: Namespace = NAMESPACE_DEFAULT
    extend_ms: int | None = None


class ClaimRecords(Message):
    """Take over records that have been under way for `min_idle_ms`; with 0, only one's own."""

    stream: StreamName
    group: GroupName
    consumer: ConsumerName
    namespace: Namespace = NAMESPACE_DEFAULT
    min_idle_ms: int = 0
    after: StreamId = START
    limit: int = 100


class RequeueLetters(Message):
    """Hand out dead letters again: these, or the newest `limit` there are."""

    stream: StreamName
    group: GroupName
    namespace: Namespace = NAMESPACE_DEFAULT
    ids: list[StreamId] | None = None
    limit: int = 100


class PurgeLetters(Message):
    """Forget dead letters: these, or the newest `limit` there are."""

    stream: StreamName
    group: GroupName
    namespace: Namespace = NAMESPACE_DEFAULT
    ids: list[StreamId] | None = None
    limit: int = 100


class GetGroup(Message):
    stream: StreamName
    group: GroupName
    namespace: Namespace = NAMESPACE_DEFAULT


class ListGroups(Message):
    stream: StreamName
    namespace: Namespace = NAMESPACE_DEFAULT
    limit: int = LIST_LIMIT_DEFAULT
    cursor: str | None = None


class ListPending(Message):
    """The records under way, the oldest first."""

    stream: StreamName
    group: GroupName
    namespace: Namespace = NAMESPACE_DEFAULT
    consumer: ConsumerName | None = None
    limit: int = LIST_LIMIT_DEFAULT
    cursor: str | None = None


class ListLetters(Message):
    """The dead letters of a group, the newest first."""

    stream: StreamName
    group: GroupName
    namespace: Namespace = NAMESPACE_DEFAULT
    limit: int = LIST_LIMIT_DEFAULT
    cursor: str | None = None


class GroupCreated(Event):
    namespace: Namespace
    stream: StreamName
    group: GroupName
    number: int
    """What its dead letters are filed under; a group that is made again gets another one."""
    settings: GroupSettings
    next: int
    """The sequence of the first record that is new to it."""
    at_ms: int


class GroupDeleted(Event):
    namespace: Namespace
    stream: StreamName
    group: GroupName


class ConsumerJoined(Event):
    namespace: Namespace
    stream: StreamName
    group: GroupName
    consumer: ConsumerName
    at_ms: int


class ConsumerLeft(Event):
    namespace: Namespace
    stream: StreamName
    group: GroupName
    consumer: ConsumerName


class ConsumerChosen(Event):
    """From now on this one takes everything, in mode exclusive."""

    namespace: Namespace
    stream: StreamName
    group: GroupName
    consumer: ConsumerName


class RecordsDelivered(Event):
    """Records handed out to a consumer; `skipped` ones wait until their keys are free."""

    namespace: Namespace
    stream: StreamName
    group: GroupName
    consumer: ConsumerName
    sequences: Sequences
    at_ms: int
    until_ms: int
    next: int
    slots: tuple[int, ...] = ()
    """Of each, in mode key_shared."""
    skipped: Sequences = ()
    skipped_slots: tuple[int, ...] = ()


class RecordsAcked(Event):
    namespace: Namespace
    stream: StreamName
    group: GroupName
    sequences: Sequences
    at_ms: int
    worker_id: WorkerId | None = None


class RecordsReturned(Event):
    """Handed out, and not done: nacked, out of time, or left behind by a consumer."""

    namespace: Namespace
    stream: StreamName
    group: GroupName
    sequences: Sequences
    at_ms: int
    ready_at_ms: int
    worker_id: WorkerId | None = None


class RecordsReleased(Event):
    """Their delay is over: they may be handed out again."""

    namespace: Namespace
    stream: StreamName
    group: GroupName
    sequences: Sequences


class RecordsTouched(Event):
    namespace: Namespace
    stream: StreamName
    group: GroupName
    sequences: Sequences
    until_ms: int
    at_ms: int = 0


class RecordDied(Event):
    """Handed out as often as it may be: the record is a dead letter of the group now."""

    namespace: Namespace
    stream: StreamName
    group: GroupName
    letter: Letter
    slot: int = 0


class LetterRevived(Event):
    """A dead letter is handed out again, as if for the first time."""

    namespace: Namespace
    stream: StreamName
    group: GroupName
    sequence: int
    slot: int = 0


class LetterPurged(Event):
    namespace: Namespace
    stream: StreamName
    group: GroupName
    sequence: int


class ConsumerHeard(Observation):
    """A consumer spoke, and is taken to be there until this time."""

    namespace: Namespace
    stream: StreamName
    group: GroupName
    consumer: ConsumerName
    until_ms: int


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
