"""Reads of a group wait for records to be handed out."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

from flo.engine.feature import Wake
from flo.engine.groups.events import (
    ConsumerLeft,
    DeadRecordRevived,
    GroupDeleted,
    RecordDied,
    RecordsAcked,
    RecordsDelivered,
    RecordsReleased,
    RecordsReturned,
)
from flo.engine.groups.reads import has_something, slot_free_at_ms
from flo.engine.long_poll import (
    CONSUMER,
    GROUPS,
    TRIGGERS,
    WORKER_DRAINS,
    WORKER_LEFT,
    LongPoll,
    Subject,
    Turn,
    Waiter,
    WaitQueue,
    everyone,
    whole_namespace,
)
from flo.engine.state import State
from flo.model.base import Event, Message
from flo.model.errors import NotFound
from flo.model.groups import GroupRecords, ReadGroup


def read_subjects(read: ReadGroup) -> Iterable[Subject]:
    yield GROUPS, read.namespace, read.stream
    yield CONSUMER, read.namespace, _consumer(read)
    yield whole_namespace(read.namespace)
    if read.worker_id is not None:
        yield WORKER_DRAINS, read.namespace, read.worker_id


def read_ended_by(read: ReadGroup) -> Iterable[Subject]:
    if read.worker_id is not None:
        yield WORKER_LEFT, read.namespace, read.worker_id


def is_nothing_read(state: State, read: ReadGroup, reply: Message) -> bool:
    return isinstance(reply, GroupRecords) and not reply.items and not reply.draining


def read_alike(state: State, read: ReadGroup) -> Hashable:
    """What one consumer of a group leaves, the others find."""
    return read.stream, read.group


def read_offers(state: State, subject: Subject, queues: Sequence[WaitQueue]) -> Iterator[Waiter]:
    """The consumers of each group, while it has something; when all is over, everyone."""
    if subject[0] not in (GROUPS, TRIGGERS):
        yield from everyone(state, subject, queues)
        return
    for queue in queues:
        for waiter, read in queue:
            if not _is_worth_while(state, read):
                break
            yield waiter, read


def _is_worth_while(state: State, read: ReadGroup) -> bool:
    """Whether a read finds anything if it is asked again, if only that its group is gone."""
    try:
        return has_something(state, read)
    except NotFound:
        return True


def _may_be_read(state: State, event: RecordsAcked) -> Iterable[Subject]:
    return ((GROUPS, event.namespace, event.stream),)


def _passed_over(state: State, event: RecordsDelivered) -> Iterable[Subject]:
    """What one consumer has passed over waits for another."""
    return ((GROUPS, event.namespace, event.stream),) if event.skipped else ()


def _has_left(state: State, event: ConsumerLeft) -> Iterable[Subject]:
    """What it gave up others may read; its own reads join again, or are told so."""
    return (
        (GROUPS, event.namespace, event.stream),
        (CONSUMER, event.namespace, _consumer(event)),
    )


def _consumer(of: ReadGroup | ConsumerLeft) -> str:
    return "\0".join((of.stream, of.group, of.consumer))


LONG_POLLS: Mapping[type[Message], LongPoll] = {
    ReadGroup: LongPoll(
        subjects=read_subjects,
        is_empty=is_nothing_read,
        turn=Turn.READS,
        ended_by=read_ended_by,
        alike=read_alike,
        again_at_ms=slot_free_at_ms,
        offers=read_offers,
    ),
}

WAKES: Mapping[type[Event], Wake] = {
    RecordsDelivered: _passed_over,
    RecordsReturned: _may_be_read,
    RecordsReleased: _may_be_read,
    RecordsAcked: _may_be_read,
    RecordDied: _may_be_read,
    DeadRecordRevived: _may_be_read,
    ConsumerLeft: _has_left,
    GroupDeleted: _may_be_read,
}
