"""Read-only answers about streams and their groups."""

from collections.abc import Iterable, Mapping
from itertools import islice

from flo.core.group_reads import PAGE_LENGTH_MAX
from flo.core.groups import group_of
from flo.core.moment import Moment, Reach
from flo.core.state import Group, State, Stream
from flo.core.streams import first_id, id_place, last_id, named_stream, partition_of
from flo.core.views import page_of
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
    BLOCK_MS_MAX,
    LIST_LIMIT_MAX,
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
    Place,
    ReadStream,
    RecordPage,
    StreamPage,
    StreamRecord,
    StreamView,
)


def get_stream(state: State, question: GetStream, moment: Moment) -> StreamView:
    stream = named_stream(state.space(question.namespace), question.stream)
    return _stream_view(question.namespace, question.stream, stream)


def list_streams(state: State, question: ListStreams, moment: Moment) -> StreamPage:
    streams = state.space(question.namespace).streams
    wanted = [name for name in streams if name.startswith(question.prefix)]
    names, cursor = page_of(wanted, question)
    views = [_stream_view(question.namespace, name, streams[name]) for name in names]
    return StreamPage(items=views, cursor=cursor)


def read_stream(state: State, question: ReadStream, moment: Moment) -> RecordPage:
    check_read(question)
    stream = state.space(question.namespace).streams.get(question.stream)
    if stream is None and question.block_ms:
        return RecordPage(last=START)  # it may come into being
    stream = named_stream(state.space(question.namespace), question.stream)
    start = start_of(stream, question, moment.records, moment.recalled.places)
    assert start is not None
    wanted = _partition_wanted(stream, question)
    until = parse_stream_id(question.until) if question.until is not None else None
    page = RecordPage(last=last_id(stream) if start == stream.next else _before(question, stream))
    length, last = 0, None
    for record in _records(stream, start, moment.records):
        if until is not None and (record.at_ms, record.sequence) > until:
            break
        last = record
        if wanted is None or record.partition == wanted:
            page.items.append(record)
            length += record.length
            if len(page.items) >= question.limit or length >= PAGE_LENGTH_MAX:
                break
    return RecordPage(items=page.items, last=last.stream_id if last is not None else page.last)


def get_group(state: State, question: GetGroup, moment: Moment) -> GroupView:
    group = group_of(state, question)
    stream = state.spaces[question.namespace].streams[question.stream]
    return _group_view(question.namespace, question.stream, stream, question.group, group)


def list_groups(state: State, question: ListGroups, moment: Moment) -> GroupPage:
    stream = named_stream(state.space(question.namespace), question.stream)
    names, cursor = page_of(stream.groups, question)
    views = [
        _group_view(question.namespace, question.stream, stream, name, stream.groups[name])
        for name in names
    ]
    return GroupPage(items=views, cursor=cursor)


def list_pending(state: State, question: ListPending, moment: Moment) -> PendingPage:
    group = group_of(state, question)
    stream = state.spaces[question.namespace].streams[question.stream]
    wanted = pending_wanted(group, question)
    views: list[PendingView] = []
    for sequence in wanted[: question.limit]:
        record = moment.records.record(stream.number, sequence)
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


def pending_wanted(group: Group, question: ListPending) -> list[int]:
    """The records of a page of what is under way, and the first of the next page."""
    check_range(question.limit, "limit", 1, LIST_LIMIT_MAX)
    after = parse_stream_id(question.cursor)[1] if question.cursor is not None else 0
    held: Iterable[int]
    if question.consumer is not None:
        held = group.backlog.held.get(question.consumer, ())
    else:
        held = (one for held in group.backlog.held.values() for one in held)
    return list(islice(sorted(one for one in held if one > after), question.limit + 1))


def start_of(
    stream: Stream, question: ReadStream, reach: Reach, places: Mapping[tuple[int, str], Place]
) -> int | None:
    """The sequence that a read begins with; None while that has to be looked up."""
    if question.last:
        return max(stream.first, stream.next - question.last)
    if question.after == TAIL:
        return stream.next
    at_ms, sequence = parse_stream_id(question.after)
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


def is_at_end(state: State, question: ReadStream, page: RecordPage) -> bool:
    """Whether a read has seen everything there is, so that it may wait for more."""
    stream = state.space(question.namespace).streams.get(question.stream)
    if stream is None or page.last == last_id(stream):
        return True
    return stream.first == stream.next


def check_read(question: ReadStream) -> None:
    check_range(question.limit, "limit", 1, RECORDS_PER_READ_MAX)
    check_range(question.last, "last", 0, RECORDS_PER_READ_MAX)
    check_range(question.block_ms, "block_ms", 0, BLOCK_MS_MAX)
    if question.after != TAIL:
        parse_stream_id(question.after)
    if question.until is not None:
        parse_stream_id(question.until)


def _before(question: ReadStream, stream: Stream) -> str:
    """Where to go on from when nothing at all was found."""
    return last_id(stream) if question.after == TAIL else question.after


def _records(stream: Stream, start: int, reach: Reach) -> Iterable[StreamRecord]:
    for sequence in range(start, min(stream.next, start + RECORDS_PER_READ_MAX)):
        record = reach.record(stream.number, sequence)
        if record is None:
            return
        yield record


def _partition_wanted(stream: Stream, question: ReadStream) -> int | None:
    if question.partition is not None:
        check_range(question.partition, "partition", 0, stream.partitions - 1)
        return question.partition
    if question.key is not None:
        return partition_of(question.key, stream.partitions)
    return None


def _stream_view(namespace: Namespace, name: StreamName, stream: Stream) -> StreamView:
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
    namespace: Namespace, stream_name: StreamName, stream: Stream, name: GroupName, group: Group
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
