"""Rules of streams: create, append, trim, delete.

    first                     next
      ▾                         ▾
  … │ 4   5   6   7   8   9   10 …       what is before `first` has been trimmed

The records themselves are in the store; what a rule needs to see of them is looked up before.
"""

from zlib import crc32

from flo.engine.context import Context
from flo.engine.decision import Decision
from flo.engine.due import GROUP
from flo.engine.state import Space, State, StreamState
from flo.engine.streams.events import (
    RecordsAppended,
    StreamAltered,
    StreamCreated,
    StreamDeleted,
    StreamTrimmed,
)
from flo.engine.streams.positions import trim_position
from flo.model.base import Event, Nothing
from flo.model.errors import Conflict, NotFound, TooLarge
from flo.model.ids import (
    KEY_LENGTH_MAX,
    StreamName,
    check_namespace,
    check_payload,
    check_range,
    check_stream_name,
    check_text,
    stream_id_of,
)
from flo.model.storage.records import Chunk, StreamRecord
from flo.model.streams import (
    HEADERS_LENGTH_MAX,
    HEADERS_MAX,
    AlterStream,
    Append,
    Appended,
    CreateStream,
    DeleteStream,
    NewRecord,
    Trimmed,
    TrimStream,
)

STREAMS_MAX = 100_000


def decide_create(state: State, command: CreateStream, context: Context) -> Decision:
    space = state.space(command.namespace)
    if command.stream in space.streams:
        raise Conflict(f"stream {command.stream!r} exists", code="stream_exists")
    return Decision(Nothing(), (created(state, command, context),))


def decide_alter(state: State, command: AlterStream, context: Context) -> Decision:
    named_stream(state.space(command.namespace), command.stream)
    altered = StreamAltered(
        namespace=command.namespace, stream=command.stream, retention=command.retention
    )
    return Decision(Nothing(), (altered,))


def decide_delete(state: State, command: DeleteStream, context: Context) -> Decision:
    named_stream(state.space(command.namespace), command.stream)
    deleted = StreamDeleted(namespace=command.namespace, stream=command.stream)
    return Decision(Nothing(), (deleted,))


def decide_append(state: State, command: Append, context: Context) -> Decision:
    stream = state.space(command.namespace).streams.get(command.stream)
    events: list[Event] = []
    if stream is None:
        make = CreateStream(stream=command.stream, namespace=command.namespace)
        events.append(created(state, make, context))
        stream = StreamState(state.streams_made + 1, context.now_ms)
    at_ms = max(context.now_ms, stream.last_at_ms)
    records = tuple(
        _record(stream, new, stream.next + place, at_ms, context)
        for place, new in enumerate(command.records)
    )
    length = sum(record.length for record in records)
    appended = RecordsAppended(
        namespace=command.namespace,
        stream=command.stream,
        count=len(records),
        at_ms=at_ms,
        length=length,
    )
    reply = Appended(
        stream_id=records[0].stream_id, last_id=records[-1].stream_id, count=len(records)
    )
    chunk = Chunk(stream=stream.number, first=stream.next, offset=stream.length, records=records)
    return Decision(reply, (*events, appended), chunks=(chunk,))


def decide_trim(state: State, command: TrimStream, context: Context) -> Decision:
    stream = named_stream(state.space(command.namespace), command.stream)
    place = trim_position(stream, command, context)
    removed = place.sequence - stream.first
    left = place.sequence < stream.next
    reply = Trimmed(
        removed=removed, first_id=stream_id_of(place.at_ms, place.sequence) if left else None
    )
    if not removed or command.dry_run:
        return Decision(reply)
    trimmed = StreamTrimmed(
        namespace=command.namespace,
        stream=command.stream,
        first=place.sequence,
        offset=place.offset,
        at_ms=place.at_ms,
    )
    return Decision(reply, (trimmed,))


def apply_created(state: State, event: StreamCreated) -> None:
    stream = StreamState(event.number, event.at_ms, event.partitions)
    stream.retention = event.retention
    state.streams_made = max(state.streams_made, event.number)
    state.space_made(event.namespace).streams[event.stream] = stream


def apply_altered(state: State, event: StreamAltered) -> None:
    state.spaces[event.namespace].streams[event.stream].retention = event.retention


def apply_deleted(state: State, event: StreamDeleted) -> None:
    stream = state.spaces[event.namespace].streams.pop(event.stream)
    for group in stream.groups:
        state.due.clear((GROUP, event.namespace, event.stream, group))


def apply_appended(state: State, event: RecordsAppended) -> None:
    stream = state.spaces[event.namespace].streams[event.stream]
    if stream.first == stream.next:
        stream.first_at_ms = event.at_ms
    stream.next += event.count
    stream.length += event.length
    stream.last_at_ms = event.at_ms


def apply_trimmed(state: State, event: StreamTrimmed) -> None:
    """The stream begins later; what its groups still held of the beginning is gone too."""
    stream = state.spaces[event.namespace].streams[event.stream]
    stream.first, stream.offset, stream.first_at_ms = event.first, event.offset, event.at_ms
    for name, group in stream.groups.items():
        group.next = max(group.next, event.first)
        gone = [sequence for sequence in group.backlog.deliveries if sequence < event.first]
        for sequence in gone:
            group.backlog.remove(sequence)
        state.reschedule(event.namespace, event.stream, name)


def created(state: State, command: CreateStream, context: Context) -> StreamCreated:
    """The event that makes this stream, once all is found to be in order."""
    check_namespace(command.namespace)
    check_stream_name(command.stream)
    if len(state.space(command.namespace).streams) >= STREAMS_MAX:
        raise Conflict(
            f"there are {STREAMS_MAX} streams, and that is the most: delete some",
            code="too_many_streams",
        )
    return StreamCreated(
        namespace=command.namespace,
        stream=command.stream,
        number=state.streams_made + 1,
        at_ms=context.now_ms,
        partitions=command.partitions,
        retention=command.retention,
    )


def named_stream(space: Space, name: StreamName) -> StreamState:
    stream = space.streams.get(name)
    if stream is None:
        raise NotFound(f"stream {name!r} does not exist", code="stream_not_found")
    return stream


def partition_of(key: str, partitions: int) -> int:
    return crc32(key.encode()) % partitions


def _record(
    stream: StreamState, new: NewRecord, sequence: int, at_ms: int, context: Context
) -> StreamRecord:
    check_payload(new.payload, "a record")
    if new.headers:
        _check_headers(new.headers)
    if new.key is not None:
        check_text(new.key, "a partition key", KEY_LENGTH_MAX)
    return StreamRecord(
        sequence=sequence,
        at_ms=at_ms,
        payload=new.payload,
        headers=new.headers or None,
        key=new.key,
        partition=_partition(stream, new, context),
    )


def _partition(stream: StreamState, new: NewRecord, context: Context) -> int:
    if new.partition is not None:
        check_range(new.partition, "partition", 0, stream.partitions - 1)
        return new.partition
    if stream.partitions == 1:
        return 0
    if new.key is not None:
        return partition_of(new.key, stream.partitions)
    return int(context.rng() * stream.partitions)


def _check_headers(headers: dict[str, str]) -> None:
    if len(headers) > HEADERS_MAX:
        raise TooLarge(f"expected at most {HEADERS_MAX} headers, got {len(headers)}")
    length = sum(len(name) + len(value) for name, value in headers.items())
    if length > HEADERS_LENGTH_MAX:
        raise TooLarge(f"expected headers of at most {HEADERS_LENGTH_MAX} characters, got {length}")
