"""Queries about streams, and reads of their records."""

from collections.abc import Iterable

from flo.engine.context import Context, RecordReader
from flo.engine.lists.paging import page_of
from flo.engine.state import State, StreamState
from flo.engine.streams.positions import first_id, id_position, last_id
from flo.engine.streams.rules import named_stream, partition_of
from flo.model.ids import (
    Namespace,
    StreamName,
    check_range,
    parse_stream_id,
)
from flo.model.storage.records import StreamRecord
from flo.model.streams import (
    RECORDS_PER_READ_MAX,
    START,
    TAIL,
    GetStream,
    ListStreams,
    ReadStream,
    RecordPage,
    StreamPage,
    StreamView,
)

PAGE_LENGTH_MAX = 1024 * 1024


def get_stream(state: State, query: GetStream, context: Context) -> StreamView:
    stream = named_stream(state.space(query.namespace), query.stream)
    return _stream_view(query.namespace, query.stream, stream)


def list_streams(state: State, query: ListStreams, context: Context) -> StreamPage:
    streams = state.space(query.namespace).streams
    names, cursor = page_of(streams, query, prefix=query.prefix)
    views = [_stream_view(query.namespace, name, streams[name]) for name in names]
    return StreamPage(items=views, cursor=cursor)


def read_stream(state: State, query: ReadStream, context: Context) -> RecordPage:
    stream = state.space(query.namespace).streams.get(query.stream)
    if stream is None and query.block_ms:
        return RecordPage(last=START)  # it may come into being
    stream = named_stream(state.space(query.namespace), query.stream)
    start = start_of(stream, query, context)
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


def start_of(stream: StreamState, query: ReadStream, context: Context) -> int | None:
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
    record = context.records.record(stream.number, sequence)
    if record is not None and record.at_ms == at_ms:
        return max(stream.first, sequence + 1)
    position = id_position(stream, context)
    return max(stream.first, position.sequence) if position is not None else None


def is_at_end(state: State, query: ReadStream, page: RecordPage) -> bool:
    """Whether a read has seen everything there is, so that it may wait for more."""
    stream = state.space(query.namespace).streams.get(query.stream)
    if stream is None or page.last == last_id(stream):
        return True
    return stream.first == stream.next


def _before(query: ReadStream, stream: StreamState) -> str:
    """Where to go on from when nothing at all was found."""
    return last_id(stream) if query.after == TAIL else query.after


def _records(stream: StreamState, start: int, records: RecordReader) -> Iterable[StreamRecord]:
    for sequence in range(start, min(stream.next, start + RECORDS_PER_READ_MAX)):
        record = records.record(stream.number, sequence)
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
        groups=list(stream.groups),
    )
