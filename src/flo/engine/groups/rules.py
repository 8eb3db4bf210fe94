"""Rules of consumer groups: create, join, ack, nack, touch, leave, run out of time.

    new ──read──▸ handed out ──ack──▸ done
                    ▲    │
                    │    └── nack, time runs out, consumer leaves ──▸ waiting, perhaps delayed
                    └──────────────────── read ────────────────────────┘

Reading is in reads.py, what becomes of records that were delivered too often in dead_letters.py.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from msgspec.structs import replace

from flo.engine.context import Context
from flo.engine.decision import Decision
from flo.engine.due import GROUP, DueKey
from flo.engine.groups.backlog import each_of, in_parts
from flo.engine.groups.events import (
    ConsumerChosen,
    ConsumerHeard,
    ConsumerJoined,
    ConsumerLeft,
    GroupCreated,
    GroupDeleted,
    RecordsAcked,
    RecordsDelivered,
    RecordsReleased,
    RecordsReturned,
    RecordsTouched,
)
from flo.engine.groups.records import Delivery
from flo.engine.state import ConsumerGroupState, State, StreamState
from flo.engine.streams.positions import id_position
from flo.engine.streams.rules import created, named_stream
from flo.engine.workers.rules import count_run
from flo.model.base import Event, Nothing
from flo.model.errors import Conflict, NotFound
from flo.model.groups import (
    CONSUMERS_MAX,
    GROUPS_MAX,
    SETTINGS_DEFAULT,
    Ack,
    CreateGroup,
    DeleteGroup,
    GroupMode,
    Joined,
    JoinGroup,
    LeaveGroup,
    Nack,
    Settled,
    TouchRecords,
)
from flo.model.ids import (
    ConsumerName,
    GroupName,
    Namespace,
    StreamId,
    StreamName,
    WorkerId,
    check_stream_name,
    parse_stream_id,
)
from flo.model.streams import START, TAIL, CreateStream

DUE_PER_GROUP_MAX = 1_000


class OfGroup(Protocol):
    """A message or an event about a group: it says which one is meant."""

    @property
    def namespace(self) -> Namespace: ...

    @property
    def stream(self) -> StreamName: ...

    @property
    def group(self) -> GroupName: ...


class OfConsumer(OfGroup, Protocol):
    @property
    def consumer(self) -> ConsumerName: ...


def decide_create(state: State, command: CreateGroup, context: Context) -> Decision:
    stream = state.space(command.namespace).streams.get(command.stream)
    if stream is not None and command.group in stream.groups:
        raise Conflict(
            f"group {command.group!r} of stream {command.stream!r} exists", code="group_exists"
        )
    return Decision(Nothing(), _made(state, stream, command, context))


def decide_delete(state: State, command: DeleteGroup, context: Context) -> Decision:
    group_of(state, command)
    deleted = GroupDeleted(namespace=command.namespace, stream=command.stream, group=command.group)
    return Decision(Nothing(), (deleted,))


def decide_join(state: State, command: JoinGroup, context: Context) -> Decision:
    stream = state.space(command.namespace).streams.get(command.stream)
    group = stream.groups.get(command.group) if stream is not None else None
    settings = group.settings if group is not None else SETTINGS_DEFAULT
    observation = heard(command, context, settings.ack_timeout_ms)
    if group is not None and command.consumer in group.consumers:
        return Decision(Joined(settings=settings), observations=(observation,))
    events: tuple[Event, ...] = ()
    if group is None:
        make = CreateGroup(stream=command.stream, group=command.group, namespace=command.namespace)
        events = _made(state, stream, make, context)
    else:
        events = _room_made(group, command, context)
    joined = ConsumerJoined(
        namespace=command.namespace,
        stream=command.stream,
        group=command.group,
        consumer=command.consumer,
        at_ms=context.now_ms,
    )
    return Decision(Joined(settings=settings), (*events, joined), (observation,))


def decide_leave(state: State, command: LeaveGroup, context: Context) -> Decision:
    group = group_of(state, command)
    if command.consumer not in group.consumers:
        return Decision(Nothing())
    held = group.backlog.held.get(command.consumer, ())
    events: tuple[Event, ...] = (
        ConsumerLeft(
            namespace=command.namespace,
            stream=command.stream,
            group=command.group,
            consumer=command.consumer,
        ),
    )
    if held:
        events = (returned(command, sorted(held), context.now_ms, context.now_ms), *events)
    return Decision(Nothing(), events)


def decide_ack(state: State, command: Ack, context: Context) -> Decision:
    group = group_of(state, command)
    known = [one for one in _sequences(command.ids) if one in group.backlog.deliveries]
    if not known:
        return Decision(Settled(count=0))
    acked = RecordsAcked(
        namespace=command.namespace,
        stream=command.stream,
        group=command.group,
        sequences=in_parts(known),
        at_ms=context.now_ms,
        worker_id=command.worker_id,
    )
    return Decision(Settled(count=len(known)), (acked,))


def decide_nack(state: State, command: Nack, context: Context) -> Decision:
    group = group_of(state, command)
    delay_ms = command.delay_ms
    if delay_ms is None:
        delay_ms = group.settings.redelivery_delay_ms
    held = _held_by(group, command.consumer, command.ids)
    if not held:
        return Decision(Settled(count=0))
    event = returned(command, held, context.now_ms, context.now_ms + delay_ms, command.worker_id)
    return Decision(Settled(count=len(held)), (event,))


def decide_touch(state: State, command: TouchRecords, context: Context) -> Decision:
    group = group_of(state, command)
    extend_ms = command.extend_ms
    if extend_ms is None:
        extend_ms = group.settings.ack_timeout_ms
    observation = heard(command, context, max(extend_ms, group.settings.ack_timeout_ms))
    held = _held_by(group, command.consumer, command.ids)
    if not held:
        return Decision(Settled(count=0), observations=(observation,))
    touched = RecordsTouched(
        namespace=command.namespace,
        stream=command.stream,
        group=command.group,
        sequences=in_parts(held),
        until_ms=context.now_ms + extend_ms,
        at_ms=context.now_ms,
    )
    return Decision(Settled(count=len(held)), (touched,), (observation,))


def fall_due(state: State, key: DueKey, context: Context) -> Iterable[Event]:
    """Time has run out for records that were handed out, and the delay of others is over."""
    _, namespace, stream, name = key
    group = state.spaces[namespace].streams[stream].groups[name]
    ripe = group.backlog.ripe(context.now_ms, DUE_PER_GROUP_MAX)
    late = sorted(one.sequence for one in ripe if one.consumer is not None)
    rested = sorted(one.sequence for one in ripe if one.consumer is None)
    if late:
        yield RecordsReturned(
            namespace=namespace,
            stream=stream,
            group=name,
            sequences=in_parts(late),
            at_ms=context.now_ms,
            ready_at_ms=context.now_ms + group.settings.redelivery_delay_ms,
        )
    if rested:
        yield RecordsReleased(
            namespace=namespace, stream=stream, group=name, sequences=in_parts(rested)
        )


def apply_created(state: State, event: GroupCreated) -> None:
    stream = state.spaces[event.namespace].streams[event.stream]
    state.groups_made = max(state.groups_made, event.number)
    stream.groups[event.group] = ConsumerGroupState(
        event.number, event.settings, event.next, event.at_ms
    )


def apply_deleted(state: State, event: GroupDeleted) -> None:
    del state.spaces[event.namespace].streams[event.stream].groups[event.group]
    state.due.clear((GROUP, event.namespace, event.stream, event.group))


def apply_joined(state: State, event: ConsumerJoined) -> None:
    _group(state, event).consumers[event.consumer] = event.at_ms


def apply_left(state: State, event: ConsumerLeft) -> None:
    group = _group(state, event)
    del group.consumers[event.consumer]
    group.owners.leave(event.consumer)
    if group.chosen == event.consumer:
        group.chosen = None


def apply_chosen(state: State, event: ConsumerChosen) -> None:
    _group(state, event).chosen = event.consumer


def apply_delivered(state: State, event: RecordsDelivered) -> None:
    group = _group(state, event)
    backlog = group.backlog
    group.next = event.next
    for slot in event.slots:
        group.owners.give(slot, event.consumer)
    for place, sequence in enumerate(each_of(event.sequences)):
        before = backlog.deliveries.get(sequence)
        if group.settings.no_ack:
            backlog.remove(sequence)
            continue
        backlog.put(
            Delivery(
                sequence=sequence,
                deliveries=before.deliveries + 1 if before is not None else 1,
                consumer=event.consumer,
                until_ms=event.until_ms,
                delivered_at_ms=event.at_ms,
                slot=event.slots[place] if event.slots else 0,
            )
        )
    for place, sequence in enumerate(each_of(event.skipped)):
        backlog.put(Delivery(sequence=sequence, slot=event.skipped_slots[place]))
    state.reschedule(event.namespace, event.stream, event.group)


def apply_acked(state: State, event: RecordsAcked) -> None:
    group = _group(state, event)
    for sequence in each_of(event.sequences):
        group.backlog.remove(sequence)
    state.reschedule(event.namespace, event.stream, event.group)
    _count(state, event, failed=False)


def apply_returned(state: State, event: RecordsReturned) -> None:
    group = _group(state, event)
    until_ms = event.ready_at_ms if event.ready_at_ms > event.at_ms else None
    for sequence in each_of(event.sequences):
        delivery = group.backlog.deliveries[sequence]
        group.backlog.put(replace(delivery, consumer=None, until_ms=until_ms))
    state.reschedule(event.namespace, event.stream, event.group)
    _count(state, event, failed=True)


def apply_released(state: State, event: RecordsReleased) -> None:
    group = _group(state, event)
    for sequence in each_of(event.sequences):
        group.backlog.put(replace(group.backlog.deliveries[sequence], until_ms=None))
    state.reschedule(event.namespace, event.stream, event.group)


def apply_touched(state: State, event: RecordsTouched) -> None:
    group = _group(state, event)
    for sequence in each_of(event.sequences):
        delivery = group.backlog.deliveries[sequence]
        group.backlog.put(replace(delivery, until_ms=event.until_ms))
    state.reschedule(event.namespace, event.stream, event.group)


def group_of(state: State, message: OfGroup) -> ConsumerGroupState:
    """The group that is meant, which is there."""
    stream = named_stream(state.space(message.namespace), message.stream)
    group = stream.groups.get(message.group)
    if group is None:
        raise NotFound(
            f"group {message.group!r} of stream {message.stream!r} does not exist",
            code="group_not_found",
        )
    return group


def is_silent(
    message: OfGroup, group: ConsumerGroupState, consumer: ConsumerName, context: Context
) -> bool:
    """Whether a consumer has said nothing for longer than it may."""
    return context.now_ms > silent_after_ms(message, group, consumer, context)


def silent_after_ms(
    message: OfGroup, group: ConsumerGroupState, consumer: ConsumerName, context: Context
) -> int:
    """Until when a consumer is taken to be there if nothing more is heard of it."""
    until_ms = context.volatile.consumer_until_ms(
        message.namespace, message.stream, message.group, consumer
    )
    return until_ms or context.volatile.started_at_ms + group.settings.ack_timeout_ms


def heard(message: OfConsumer, context: Context, patience_ms: int) -> ConsumerHeard:
    return ConsumerHeard(
        namespace=message.namespace,
        stream=message.stream,
        group=message.group,
        consumer=message.consumer,
        until_ms=context.now_ms + patience_ms,
    )


def returned(
    message: OfGroup,
    sequences: Sequence[int],
    now_ms: int,
    ready_at_ms: int,
    worker_id: WorkerId | None = None,
) -> RecordsReturned:
    return RecordsReturned(
        namespace=message.namespace,
        stream=message.stream,
        group=message.group,
        sequences=in_parts(sequences),
        at_ms=now_ms,
        ready_at_ms=ready_at_ms,
        worker_id=worker_id,
    )


def _made(
    state: State, stream: StreamState | None, command: CreateGroup, context: Context
) -> tuple[Event, ...]:
    """The events that make a group, and its stream if need be."""
    check_stream_name(command.group, "the name of a group")
    events: list[Event] = []
    if stream is None:
        make = CreateStream(stream=command.stream, namespace=command.namespace)
        events.append(created(state, make, context))
    elif len(stream.groups) >= GROUPS_MAX:
        raise Conflict(
            f"stream {command.stream!r} has {GROUPS_MAX} groups, and that is the most",
            code="too_many_groups",
        )
    events.append(
        GroupCreated(
            namespace=command.namespace,
            stream=command.stream,
            group=command.group,
            number=state.groups_made + 1,
            settings=command.settings,
            next=_start(stream, command, context),
            at_ms=context.now_ms,
        )
    )
    return tuple(events)


def _start(stream: StreamState | None, command: CreateGroup, context: Context) -> int:
    if stream is None or command.start == START:
        return stream.first if stream is not None else 1
    if command.start == TAIL:
        return stream.next
    position = id_position(stream, context)
    assert position is not None
    return max(stream.first, position.sequence)


def _room_made(
    group: ConsumerGroupState, command: JoinGroup, context: Context
) -> tuple[Event, ...]:
    """Refuse one more consumer, or let those go who have been silent."""
    is_exclusive = group.settings.mode is GroupMode.EXCLUSIVE
    is_locked = is_exclusive and len(group.consumers) > group.settings.max_standbys
    if not is_locked and len(group.consumers) < CONSUMERS_MAX:
        return ()
    gone = [
        consumer
        for consumer in sorted(group.consumers)
        if consumer not in group.backlog.held and is_silent(command, group, consumer, context)
    ]
    if not gone and is_locked:
        raise Conflict(
            f"group {command.group!r} is held by {group.chosen!r}, and no more may stand by",
            code="group_locked",
        )
    if not gone:
        raise Conflict(
            f"group {command.group!r} has {CONSUMERS_MAX} consumers, and that is the most",
            code="too_many_consumers",
        )
    return tuple(
        ConsumerLeft(
            namespace=command.namespace,
            stream=command.stream,
            group=command.group,
            consumer=consumer,
        )
        for consumer in gone
    )


def _sequences(ids: list[StreamId]) -> list[int]:
    """The sequences that these ids mean, in order."""
    return sorted({parse_stream_id(one)[1] for one in ids})


def _held_by(
    group: ConsumerGroupState, consumer: ConsumerName | None, ids: list[StreamId]
) -> list[int]:
    """Those that are handed out, to this consumer if one is named."""
    held: list[int] = []
    for sequence in _sequences(ids):
        delivery = group.backlog.deliveries.get(sequence)
        holder = delivery.consumer if delivery is not None else None
        if holder is not None and consumer in (None, holder):
            held.append(sequence)
    return held


def _group(state: State, event: OfGroup) -> ConsumerGroupState:
    return state.spaces[event.namespace].streams[event.stream].groups[event.group]


def _count(state: State, event: RecordsAcked | RecordsReturned, *, failed: bool) -> None:
    """What a registered worker has acked or nacked counts for it."""
    if event.worker_id is not None:
        count = sum(last - first + 1 for first, last in event.sequences)
        count_run(
            state.spaces[event.namespace],
            event.worker_id,
            f"{event.stream}/{event.group}",
            event.at_ms,
            failed=failed,
            count=count,
        )
