"""Read-only answers about streams and their groups."""

from collections.abc import Iterable, Mapping
from itertools import islice

from flo.engine.context import Context, RecordReader
from flo.engine.groups.reads import PAGE_LENGTH_MAX
from flo.engine.groups.rules import group_of
from flo.engine.queries import page_of
from flo.engine.state import ConsumerGroupState, State, StreamState
from flo.engine.streams.rules import first_id, id_place, last_id, named_stream, partition_of
from flo.model.fields import check_fields
from flo.model.groups import (
    ConsumerView,
    GetGroup,
    GroupPage,
    GroupView,
    ListGroups,
    ListPending,
    PendingPage,
    PendingView,
)
from flo.model.ids import (
    GroupName,
    Namespace,
    StreamName,
    check_range,
    parse_stream_id,
)
from flo.model.streams import (
    RECORDS_PER_READ_MAX,
    START,
    TAIL,
    GetStream,
    ListStreams,
    ReadStream,
    RecordPage,
    StreamPage,
    StreamPosition,
    StreamRecord,
    StreamView,
)


def get_stream(state: State, query: GetStream, context: Context) -> StreamView:
    stream = named_stream(state.space(query.namespace), query.stream)
    return _stream_view(query.namespace, query.stream, stream)


def list_streams(state: State, query: ListStreams, context: Context) -> StreamPage:
    streams = state.space(query.namespace).streams
    wanted = [name for name in streams if name.startswith(query.prefix)]
    names, cursor = page_of(wanted, query)
    views = [_stream_view(query.namespace, name, streams[name]) for name in names]
    return StreamPage(items=views, cursor=cursor)


def read_stream(state: State, query: ReadStream, context: Context) -> RecordPage:
    stream = state.space(query.namespace).streams.get(query.stream)
    if stream is None and query.block_ms:
        return RecordPage(last=START)  # it may come into being
    stream = named_stream(state.space(query.namespace), query.stream)
    start = start_of(stream, query, context.records, context.recalled.places)
    assert start is not None
    wanted = _partition_wanted(stream, query)
    until = parse_stream_id(query.until) if query.until is not None else None
    page = RecordPage(last=last_id(stream) if start == stream.next else _before(query, stream))
    length, last = 0, None
    for record in _records(stream, start, context.records):
        if until is not None and (record.at_ms, record.sequence) > until:
            break
        last = record
        if wanted is None or record.partition == wanted:
            page.items.append(record)
            length += record.length
            if len(page.items) >= query.limit or length >= PAGE_LENGTH_MAX:
                break
    return RecordPage(items=page.items, last=last.stream_id if last is not None else page.last)


def get_group(state: State, query: GetGroup, context: Context) -> GroupView:
    group = group_of(state, query)
    stream = state.spaces[query.namespace].streams[query.stream]
    return _group_view(query.namespace, query.stream, stream, query.group, group)


def list_groups(state: State, query: ListGroups, context: Context) -> GroupPage:
    stream = named_stream(state.space(query.namespace), query.stream)
    names, cursor = page_of(stream.groups, query)
    views = [
        _group_view(query.namespace, query.stream, stream, name, stream.groups[name])
        for name in names
    ]
    return GroupPage(items=views, cursor=cursor)


def list_pending(state: State, query: ListPending, context: Context) -> PendingPage:
    group = group_of(state, query)
    stream = state.spaces[query.namespace].streams[query.stream]
    wanted = pending_wanted(group, query)
    views: list[PendingView] = []
    for sequence in wanted[: query.limit]:
        record = context.records.record(stream.number, sequence)
        if record is None:
            break
        delivery = group.backlog.deliveries[sequence]
        assert delivery.consumer is not None
        assert delivery.delivered_at_ms is not None
        assert delivery.until_ms is not None
        views.append(
            PendingView(
                stream_id=record.stream_id,
                consumer=delivery.consumer,
                deliveries=delivery.deliveries,
                delivered_at_ms=delivery.delivered_at_ms,
                until_ms=delivery.until_ms,
            )
        )
    more = len(wanted) > len(views)
    return PendingPage(items=views, cursor=views[-1].stream_id if views and more else None)


def pending_wanted(group: ConsumerGroupState, query: ListPending) -> list[int]:
    """The records of a page of what is under way, and the first of the next page."""
    check_fields(query)
    after = parse_stream_id(query.cursor)[1] if query.cursor is not None else 0
    held: Iterable[int]
    if query.consumer is not None:
        held = group.backlog.held.get(query.consumer, ())
    else:
        held = (one for held in group.backlog.held.values() for one in held)
    return list(islice(sorted(one for one in held if one > after), query.limit + 1))


def start_of(
    stream: StreamState,
    query: ReadStream,
    reach: RecordReader,
    places: Mapping[tuple[int, str], StreamPosition],
) -> int | None:
    """The sequence that a read begins with; None while that has to be looked up."""
    if query.last:
        return max(stream.first, stream.next - query.last)
    if query.after == TAIL:
        return stream.next
    at_ms, sequence = parse_stream_id(query.after)
    if at_ms < stream.first_at_ms or stream.first == stream.next:
        return stream.first
    if (at_ms, sequence) >= (stream.last_at_ms, stream.next - 1):
        return stream.next
    record = reach.record(stream.number, sequence)
    if record is not None and record.at_ms == at_ms:
        return max(stream.first, sequence + 1)
    try:
        return max(stream.first, id_place(stream, places).sequence)
    except KeyError:
        return None


def is_at_end(state: State, query: ReadStream, page: RecordPage) -> bool:
    """Whether a read has seen everything there is, so that it may wait for more."""
    stream = state.space(query.namespace).streams.get(query.stream)
    if stream is None or page.last == last_id(stream):
        return True
    return stream.first == stream.next


def _before(query: ReadStream, stream: StreamState) -> str:
    """Where to go on from when nothing at all was found."""
    return last_id(stream) if query.after == TAIL else query.after


def _records(stream: StreamState, start: int, reach: RecordReader) -> Iterable[StreamRecord]:
    for sequence in range(start, min(stream.next, start + RECORDS_PER_READ_MAX)):
        record = reach.record(stream.number, sequence)
        if record is None:
            return
        yield record


def _partition_wanted(stream: StreamState, query: ReadStream) -> int | None:
    if query.partition is not None:
        check_range(query.partition, "partition", 0, stream.partitions - 1)
        return query.partition
    if query.key is not None:
        return partition_of(query.key, stream.partitions)
    return None


def _stream_view(namespace: Namespace, name: StreamName, stream: StreamState) -> StreamView:
    first = first_id(stream)
    return StreamView(
        name=name,
        namespace=namespace,
        created_at_ms=stream.created_at_ms,
        partitions=stream.partitions,
        retention=stream.retention,
        count=stream.next - stream.first,
        bytes=stream.length - stream.offset,
        first_id=first,
        last_id=last_id(stream) if first is not None else None,
        groups=sorted(stream.groups),
    )


def _group_view(
    namespace: Namespace,
    stream_name: StreamName,
    stream: StreamState,
    name: GroupName,
    group: ConsumerGroupState,
) -> GroupView:
    held = group.backlog.held
    pending = sum(len(sequences) for sequences in held.values())
    return GroupView(
        name=name,
        stream=stream_name,
        namespace=namespace,
        settings=group.settings,
        created_at_ms=group.created_at_ms,
        lag=stream.next - group.next,
        pending=pending,
        waiting=len(group.backlog) - pending,
        dead=group.dead_count,
        consumers=[
            ConsumerView(
                name=consumer,
                joined_at_ms=joined_at_ms,
                pending=len(held.get(consumer, ())),
                is_chosen=consumer == group.chosen,
            )
            for consumer, joined_at_ms in sorted(group.consumers.items())
        ],
    )
