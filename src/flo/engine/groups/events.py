"""What the log remembers of consumer groups."""

from flo.engine.groups.records import DeadRecord
from flo.model.base import Event, Observation
from flo.model.groups import GroupSettings, Sequences
from flo.model.ids import (
    ConsumerName,
    GroupName,
    Namespace,
    StreamName,
    WorkerId,
)


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
    dead_record: DeadRecord
    slot: int = 0


class DeadRecordRevived(Event):
    """A dead letter is handed out again, as if for the first time."""

    namespace: Namespace
    stream: StreamName
    group: GroupName
    sequence: int
    slot: int = 0


class DeadRecordPurged(Event):
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
