"""Rules of the dead letters of a group: what was handed out too often, to be requeued or purged.

A dead letter is in the archive with all that was in its record: it outlives the record itself.
"""

from collections.abc import Iterator, Sequence

import msgspec

from flo.engine.context import Context
from flo.engine.dead_letters import chosen
from flo.engine.decision import Decision
from flo.engine.groups.events import DeadRecordPurged, DeadRecordRevived, RecordDied
from flo.engine.groups.lookups import (
    DeadRecordLookup,
    dead_address,
    found_dead,
    named_addresses,
)
from flo.engine.groups.reads import slot_of
from flo.engine.groups.records import DeadRecord, Delivery
from flo.engine.groups.rules import OfGroup, group_of
from flo.engine.state import ConsumerGroupState, State
from flo.model.declare.dead_letters import DeadLettersChanged
from flo.model.errors import Conflict, NotFound
from flo.model.groups import (
    PurgeDeadRecords,
    RequeueDeadRecords,
)
from flo.model.storage.archive import ArchiveAddress, Archived

STATUS = "dead"

_encode = msgspec.msgpack.Encoder().encode


def decide_requeue(state: State, command: RequeueDeadRecords, context: Context) -> Decision:
    group = group_of(state, command)
    stream = state.spaces[command.namespace].streams[command.stream]
    dead, more = _dead_records(state, command, context)
    kept = [one for one in dead if one.record.sequence >= stream.first]
    if command.ids is not None and len(kept) < len(dead):
        raise Conflict(
            f"the stream has been trimmed past some of these records; it begins at {stream.first}",
            code="record_trimmed",
        )
    revived = tuple(
        DeadRecordRevived(
            namespace=command.namespace,
            stream=command.stream,
            group=command.group,
            sequence=one.record.sequence,
            slot=slot_of(stream, group, one.record),
        )
        for one in kept
    )
    is_trimmed_from_here = len(kept) < len(dead)  # what comes next is older still
    return Decision(
        DeadLettersChanged(ids=_ids(kept), more=more and not is_trimmed_from_here), revived
    )


def decide_purge(state: State, command: PurgeDeadRecords, context: Context) -> Decision:
    dead, more = _dead_records(state, command, context)
    purged = tuple(
        DeadRecordPurged(
            namespace=command.namespace,
            stream=command.stream,
            group=command.group,
            sequence=one.record.sequence,
        )
        for one in dead
    )
    return Decision(DeadLettersChanged(ids=_ids(dead), more=more), purged)


def apply_died(state: State, event: RecordDied) -> None:
    group = _group(state, event)
    group.backlog.remove(event.dead_record.record.sequence)
    group.dead_count += 1
    state.reschedule(event.namespace, event.stream, event.group)


def apply_revived(state: State, event: DeadRecordRevived) -> None:
    group = _group(state, event)
    group.dead_count -= 1
    group.backlog.put(Delivery(sequence=event.sequence, slot=event.slot))


def apply_purged(state: State, event: DeadRecordPurged) -> None:
    _group(state, event).dead_count -= 1


def archive_dead(state: State, event: RecordDied) -> tuple[Archived]:
    address = dead_address(state, event, event.dead_record.record.sequence)
    row = Archived(
        kind=address.kind,
        namespace=address.namespace,
        name=address.name,
        number=address.number,
        status=STATUS,
        finished_at_ms=event.dead_record.at_ms,
        key=None,
        body=_encode(event.dead_record),
        dead=True,
    )
    return (row,)


def address_of(state: State, event: DeadRecordRevived | DeadRecordPurged) -> ArchiveAddress:
    return dead_address(state, event, event.sequence)


def _dead_records(
    state: State, command: RequeueDeadRecords | PurgeDeadRecords, context: Context
) -> tuple[list[DeadRecord], bool]:
    group_of(state, command)
    named = _named(state, command, context)
    return chosen(command, named, found_dead(state, command, context))


def _named(
    state: State, command: RequeueDeadRecords | PurgeDeadRecords, context: Context
) -> Iterator[DeadRecord]:
    for address in named_addresses(state, command):
        found = context.found.get(DeadRecordLookup(address))
        if found is None:
            raise NotFound(
                f"record {address.number} is no dead letter of group {command.group!r}",
                code="dead_letter_not_found",
            )
        yield found


def _group(state: State, message: OfGroup) -> ConsumerGroupState:
    return state.spaces[message.namespace].streams[message.stream].groups[message.group]


def _ids(dead: Sequence[DeadRecord]) -> list[str]:
    return [one.record.stream_id for one in dead]
