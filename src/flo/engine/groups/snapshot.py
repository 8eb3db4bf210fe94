"""Consumer groups in a snapshot: their settings, and the records on their way through them."""

from collections.abc import Iterable

from flo.engine.groups.records import Delivery
from flo.engine.snapshot import Section, SnapshotPart, in_chunks
from flo.engine.state import ConsumerGroupState, State
from flo.model.groups import GroupSettings
from flo.model.ids import ConsumerName, GroupName, Namespace, StreamName

DELIVERIES_PER_CHUNK = 10_000


class GroupsMadePart(SnapshotPart):
    count: int


class GroupPart(SnapshotPart):
    namespace: Namespace
    stream: StreamName
    group: GroupName
    number: int
    settings: GroupSettings
    next: int
    created_at_ms: int
    consumers: dict[ConsumerName, int]
    chosen: ConsumerName | None
    dead_count: int
    owners: tuple[tuple[int, ConsumerName], ...] = ()


class BacklogPart(SnapshotPart):
    namespace: Namespace
    stream: StreamName
    group: GroupName
    deliveries: list[Delivery]


def _groups(
    state: State,
) -> Iterable[tuple[Namespace, StreamName, GroupName, ConsumerGroupState]]:
    for namespace, space in sorted(state.spaces.items()):
        for stream_name, stream in sorted(space.streams.items()):
            for name, group in sorted(stream.groups.items()):
                yield namespace, stream_name, name, group


def _dump_count(state: State) -> Iterable[GroupsMadePart]:
    if state.groups_made:
        yield GroupsMadePart(count=state.groups_made)


def _restore_count(state: State, part: GroupsMadePart) -> None:
    state.groups_made = part.count


def _dump_groups(state: State) -> Iterable[GroupPart]:
    for namespace, stream, name, group in _groups(state):
        yield GroupPart(
            namespace=namespace,
            stream=stream,
            group=name,
            number=group.number,
            settings=group.settings,
            next=group.next,
            created_at_ms=group.created_at_ms,
            consumers=group.consumers,
            chosen=group.chosen,
            dead_count=group.dead_count,
            owners=tuple(sorted(group.owners.by_slot.items())),
        )


def _restore_group(state: State, part: GroupPart) -> None:
    group = ConsumerGroupState(part.number, part.settings, part.next, part.created_at_ms)
    group.consumers, group.chosen = part.consumers, part.chosen
    group.dead_count = part.dead_count
    for slot, consumer in part.owners:
        group.owners.give(slot, consumer)
    state.spaces[part.namespace].streams[part.stream].groups[part.group] = group


def _dump_backlogs(state: State) -> Iterable[BacklogPart]:
    for namespace, stream, name, group in _groups(state):
        ordered = (one for _, one in sorted(group.backlog.deliveries.items()))
        for deliveries in in_chunks(ordered, DELIVERIES_PER_CHUNK):
            yield BacklogPart(namespace=namespace, stream=stream, group=name, deliveries=deliveries)


def restore_backlog(state: State, part: BacklogPart) -> None:
    group = state.spaces[part.namespace].streams[part.stream].groups[part.group]
    for delivery in part.deliveries:
        group.backlog.put(delivery)
    state.reschedule(part.namespace, part.stream, part.group)


SNAPSHOT = (
    Section(GroupsMadePart, _dump_count, _restore_count),
    Section(GroupPart, _dump_groups, _restore_group),
    Section(BacklogPart, _dump_backlogs, restore_backlog),
)
