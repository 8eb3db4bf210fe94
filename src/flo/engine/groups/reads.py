"""Rules of reading through a group: which records a consumer gets next.

    waiting   what was handed out before, and is to be handed out again     first
    new       what the group has not seen yet                               then

In mode key_shared a record whose slot is another consumer's is skipped: it waits for that one, or
until the slot is free (see owners.py). A record that was handed out as often as it may be becomes
a dead letter instead.

A read that moves on without finding anything (its consumer joined, it skipped, it gave up records,
it took over from another consumer) is simply asked again.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import chain, islice
from zlib import crc32

from flo.engine.context import Context
from flo.engine.decision import Decision
from flo.engine.groups.backlog import in_parts
from flo.engine.groups.events import ConsumerChosen, RecordDied, RecordsDelivered
from flo.engine.groups.owners import SlotChoice
from flo.engine.groups.records import DeadRecord, Delivery
from flo.engine.groups.rules import (
    decide_join,
    group_of,
    heard,
    is_silent,
    returned,
    silent_after_ms,
)
from flo.engine.state import ConsumerGroupState, State, StreamState
from flo.engine.streams.queries import PAGE_LENGTH_MAX
from flo.model.base import Event
from flo.model.declare.fields import check_fields
from flo.model.errors import Conflict, NotFound
from flo.model.groups import (
    PENDING_PER_GROUP_MAX,
    ClaimedRecords,
    ClaimRecords,
    GroupMode,
    GroupRecords,
    JoinGroup,
    ReadGroup,
)
from flo.model.ids import parse_stream_id
from flo.model.storage.records import StreamRecord

SKIPPED_MAX = 10_000
"""So many records may wait for their keys; until there are fewer, nothing new is looked at."""
LOOK_AHEAD_MAX = 1_000
"""How many new records one read looks at."""


class _Picked:
    """What a read comes to."""

    def __init__(self) -> None:
        self.records: list[StreamRecord] = []
        self.slots: list[int] = []
        self.skipped: list[int] = []
        self.skipped_slots: list[int] = []
        self.closed: set[int] = set()
        """The slots of which something was skipped."""
        self.cleared: Counter[int] = Counter()
        """How many of each slot wait no more."""
        self.died: list[RecordDied] = []
        self.length = 0

    def is_full(self, command: ReadGroup) -> bool:
        count = len(self.records) + len(self.died)
        return count >= command.limit or self.length >= PAGE_LENGTH_MAX

    def take(self, record: StreamRecord, slot: int) -> None:
        self.records.append(record)
        self.slots.append(slot)
        self.length += record.length

    def skip(self, sequence: int, slot: int) -> None:
        self.skipped.append(sequence)
        self.skipped_slots.append(slot)
        self.closed.add(slot)


def decide_read(state: State, command: ReadGroup, context: Context) -> Decision:
    group = _joined_group(state, command)
    if group is None:
        joining = _joining(state, command, context)
        return Decision(GroupRecords(), joining.events, joining.observations)
    space = state.spaces[command.namespace]
    worker = space.workers.get(command.worker_id) if command.worker_id is not None else None
    if worker is not None and worker.draining:
        return Decision(GroupRecords(draining=True))
    observation = heard(command, context, max(command.block_ms, group.settings.ack_timeout_ms))
    if group.settings.mode is GroupMode.EXCLUSIVE and group.chosen != command.consumer:
        return Decision(GroupRecords(), _taken_over(command, group, context), (observation,))
    stream = space.streams[command.stream]
    picked = _Picked()
    own = slot_choice(group, command, context)
    _pick_waiting(picked, stream, group, command, context, own)
    next_sequence = _pick_new(picked, stream, group, command, context, own)
    events: list[Event] = [*picked.died]
    if picked.records or picked.skipped or next_sequence != group.next:
        events.append(_delivered(picked, group, command, context, next_sequence))
    deliveries = [_deliveries(group, record) + 1 for record in picked.records]
    reply = GroupRecords(items=picked.records, deliveries=deliveries)
    return Decision(reply, tuple(events), (observation,))


def decide_claim(state: State, command: ClaimRecords, context: Context) -> Decision:
    group = _joined_group(state, command)
    joining: tuple[Event, ...] = ()
    if group is None:
        joining = _joining(state, command, context).events
        group = _group_if_any(state, command)
    if group is None:
        return Decision(ClaimedRecords(), joining)
    if group.settings.mode is GroupMode.KEY_SHARED and command.min_idle_ms:
        raise Conflict(
            "records of another consumer cannot be claimed in mode key_shared: their order would "
            "be lost; they come back when their ack timeout ends",
            code="claim_breaks_order",
        )
    stream = state.spaces[command.namespace].streams[command.stream]
    wanted = claimable(group, command, context.now_ms)
    records: list[StreamRecord] = []
    for delivery in islice(wanted, command.limit):
        record = context.records.record(stream.number, delivery.sequence)
        if record is None:
            break
        records.append(record)
    observation = heard(command, context, group.settings.ack_timeout_ms)
    if not records:
        return Decision(ClaimedRecords(), joining, (observation,))
    picked = _Picked()
    for record in records:
        picked.take(record, group.backlog.deliveries[record.sequence].slot)
    event = _delivered(picked, group, command, context, group.next)
    more = len(wanted) > len(records)
    reply = ClaimedRecords(
        items=records,
        deliveries=[_deliveries(group, record) + 1 for record in records],
        next=records[-1].stream_id if more else None,
    )
    return Decision(reply, (*joining, event), (observation,))


def parts_wanted(state: State, command: ReadGroup, context: Context) -> list[tuple[int, int]]:
    """The records a read would look at first, as unbroken parts; the first one comes first."""
    group = group_of(state, command)
    stream = state.spaces[command.namespace].streams[command.stream]
    own = slot_choice(group, command, context)
    waiting = sorted(islice(_waiting(group, command, own), command.limit))
    parts = list(in_parts(waiting))
    if group.next < stream.next and _has_room(group):
        parts.append((group.next, min(stream.next, group.next + command.limit) - 1))
    return parts


def claimable(group: ConsumerGroupState, command: ClaimRecords, now_ms: int) -> list[Delivery]:
    """What a claim is about, in order: one's own records, or those that nobody has moved on.

    Not those that were handed out as often as they may be, nor any for a consumer that stands by.
    """
    _, after = parse_stream_id(command.after)
    if group.settings.mode is GroupMode.EXCLUSIVE and group.chosen != command.consumer:
        return []
    found = [
        delivery
        for delivery in group.backlog.deliveries.values()
        if delivery.sequence > after
        and delivery.consumer is not None
        and delivery.delivered_at_ms is not None
        and delivery.deliveries < group.settings.max_deliveries
        and (
            now_ms - delivery.delivered_at_ms >= command.min_idle_ms
            if command.min_idle_ms
            else delivery.consumer == command.consumer
        )
    ]
    return sorted(found, key=lambda delivery: delivery.sequence)


def has_something(state: State, command: ReadGroup) -> bool:
    """Whether it is worth while to ask again."""
    group = group_of(state, command)
    stream = state.spaces[command.namespace].streams[command.stream]
    if command.consumer not in group.consumers:
        return True  # it has left meanwhile, and joins again or is told so
    return group.next < stream.next or group.backlog.waiting_count > 0


def slot_of(stream: StreamState, group: ConsumerGroupState, record: StreamRecord) -> int:
    """The slot of a record's key; what has no key is spread by its partition, or evenly.

    Below 0 are the slots of those without key and partition: they are nobody's own.
    """
    if group.settings.mode is not GroupMode.KEY_SHARED:
        return 0
    if record.key is not None:
        number = crc32(record.key.encode())
    elif stream.partitions > 1:
        number = crc32(b"%d" % record.partition)
    else:
        return -1 - record.sequence % group.settings.slots
    return number % group.settings.slots


def _joining(state: State, command: ReadGroup | ClaimRecords, context: Context) -> Decision:
    """What lets a consumer that has not joined join; one that does not want to is refused."""
    if not command.join:
        group_of(state, command)
        raise NotFound(
            f"consumer {command.consumer!r} has not joined group {command.group!r}",
            code="consumer_not_joined",
        )
    join = JoinGroup(
        stream=command.stream,
        group=command.group,
        consumer=command.consumer,
        namespace=command.namespace,
    )
    check_fields(join)
    return decide_join(state, join, context)


def _joined_group(state: State, command: ReadGroup | ClaimRecords) -> ConsumerGroupState | None:
    """The group, if its consumer has joined it."""
    group = _group_if_any(state, command)
    return group if group is not None and command.consumer in group.consumers else None


def _group_if_any(state: State, command: ReadGroup | ClaimRecords) -> ConsumerGroupState | None:
    stream = state.space(command.namespace).streams.get(command.stream)
    return stream.groups.get(command.group) if stream is not None else None


def _taken_over(
    command: ReadGroup, group: ConsumerGroupState, context: Context
) -> tuple[Event, ...]:
    """Whoever reads while nobody is there takes everything, also what others left unsettled."""
    if group.chosen is not None and not is_silent(command, group, group.chosen, context):
        return ()
    chosen = ConsumerChosen(
        namespace=command.namespace,
        stream=command.stream,
        group=command.group,
        consumer=command.consumer,
    )
    left = sorted(chain.from_iterable(group.backlog.held.values()))
    if not left:
        return (chosen,)
    return returned(command, left, context.now_ms, context.now_ms), chosen


def slot_choice(group: ConsumerGroupState, command: ReadGroup, context: Context) -> SlotChoice:
    return SlotChoice(
        group.owners,
        command.consumer,
        slots=group.settings.slots,
        consumers=group.consumers,
        is_gone=lambda consumer: is_silent(command, group, consumer, context),
    )


def slot_free_at_ms(state: State, command: ReadGroup, context: Context) -> int | None:
    """When something that waits for another consumer may be this one's, since that is silent."""
    group = _joined_group(state, command)
    if group is None or group.settings.mode is not GroupMode.KEY_SHARED:
        return None
    own = group.owners.by_slot
    others = {own.get(slot) for slot in group.backlog.slots_waiting()} - {None, command.consumer}
    silent_at_ms = [
        silent_after_ms(command, group, owner, context) + 1 for owner in others if owner is not None
    ]
    return min((at_ms for at_ms in silent_at_ms if at_ms > context.now_ms), default=None)


def _waiting(group: ConsumerGroupState, command: ReadGroup, own: SlotChoice) -> Iterator[int]:
    if group.settings.mode is GroupMode.KEY_SHARED:
        return group.backlog.waiting_for(command.consumer, own.is_its_own)
    return group.backlog.waiting()


def _pick_waiting(
    picked: _Picked,
    stream: StreamState,
    group: ConsumerGroupState,
    command: ReadGroup,
    context: Context,
    own: SlotChoice,
) -> None:
    if not group.backlog.waiting_count:
        return
    for sequence in _waiting(group, command, own):
        if picked.is_full(command):
            return
        record = context.records.record(stream.number, sequence)
        if record is None:
            return
        delivery = group.backlog.deliveries[sequence]
        picked.cleared[delivery.slot] += 1
        if delivery.deliveries < group.settings.max_deliveries:
            picked.take(record, delivery.slot)
        else:
            dead_record = DeadRecord(
                record=record, deliveries=delivery.deliveries, at_ms=context.now_ms
            )
            picked.died.append(
                RecordDied(
                    namespace=command.namespace,
                    stream=command.stream,
                    group=command.group,
                    dead_record=dead_record,
                )
            )


def _pick_new(
    picked: _Picked,
    stream: StreamState,
    group: ConsumerGroupState,
    command: ReadGroup,
    context: Context,
    own: SlotChoice,
) -> int:
    """Go on among the new ones; return the first that is still new after that."""
    sequence = group.next
    if not _has_room(group):
        return sequence
    keyed = group.settings.mode is GroupMode.KEY_SHARED
    end = min(stream.next, sequence + LOOK_AHEAD_MAX)
    while sequence < end:
        if picked.is_full(command):
            break
        record = context.records.record(stream.number, sequence)
        if record is None:
            break
        slot = slot_of(stream, group, record) if keyed else 0
        if keyed and not _is_next_of_its_slot(group, slot, command, picked, own):
            picked.skip(sequence, slot)
        else:
            picked.take(record, slot)
        sequence += 1
    return sequence


def _is_next_of_its_slot(
    group: ConsumerGroupState, slot: int, command: ReadGroup, picked: _Picked, own: SlotChoice
) -> bool:
    """Whether a new record may be handed out: nothing of its slot is with others, or waits."""
    if slot in picked.closed or not group.backlog.is_open(slot, command.consumer):
        return False
    is_next = group.backlog.waiting_in(slot) == picked.cleared[slot]
    return is_next and own.is_its_own(slot)


def _has_room(group: ConsumerGroupState) -> bool:
    backlog = group.backlog
    return len(backlog) < PENDING_PER_GROUP_MAX and backlog.waiting_count < SKIPPED_MAX


def _deliveries(group: ConsumerGroupState, record: StreamRecord) -> int:
    delivery = group.backlog.deliveries.get(record.sequence)
    return delivery.deliveries if delivery is not None else 0


def _delivered(
    picked: _Picked,
    group: ConsumerGroupState,
    command: ReadGroup | ClaimRecords,
    context: Context,
    next_sequence: int,
) -> RecordsDelivered:
    keyed = group.settings.mode is GroupMode.KEY_SHARED
    return RecordsDelivered(
        namespace=command.namespace,
        stream=command.stream,
        group=command.group,
        consumer=command.consumer,
        sequences=in_parts(record.sequence for record in picked.records),
        at_ms=context.now_ms,
        until_ms=context.now_ms + group.settings.ack_timeout_ms,
        next=next_sequence,
        slots=tuple(picked.slots) if keyed else (),
        skipped=in_parts(picked.skipped),
        skipped_slots=tuple(picked.skipped_slots),
    )
