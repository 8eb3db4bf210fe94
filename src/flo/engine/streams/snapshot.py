"""Streams in a snapshot, without their records: those are in the store."""

from collections.abc import Iterable

from sortedcontainers import SortedDict

from flo.engine.snapshot import Section, SnapshotPart
from flo.engine.state import State, StreamState
from flo.model.base import Record
from flo.model.ids import Namespace, StreamName
from flo.model.streams import Retention


class _Stream(Record):
    number: int
    created_at_ms: int
    partitions: int
    retention: Retention
    first: int
    next: int
    first_at_ms: int
    last_at_ms: int
    offset: int
    length: int


class StreamsPart(SnapshotPart):
    made: int
    spaces: dict[Namespace, dict[StreamName, _Stream]]


def _dump(state: State) -> Iterable[StreamsPart]:
    if not state.streams_made:
        return
    spaces = {
        namespace: {name: _dumped(stream) for name, stream in space.streams.items()}
        for namespace, space in state.spaces.items()
        if space.streams
    }
    yield StreamsPart(made=state.streams_made, spaces=spaces)


def _restore(state: State, part: StreamsPart) -> None:
    state.streams_made = part.made
    for namespace, streams in part.spaces.items():
        space = state.spaces[namespace]
        space.streams = SortedDict((name, _restored(one)) for name, one in streams.items())


def _dumped(stream: StreamState) -> _Stream:
    return _Stream(
        number=stream.number,
        created_at_ms=stream.created_at_ms,
        partitions=stream.partitions,
        retention=stream.retention,
        first=stream.first,
        next=stream.next,
        first_at_ms=stream.first_at_ms,
        last_at_ms=stream.last_at_ms,
        offset=stream.offset,
        length=stream.length,
    )


def _restored(part: _Stream) -> StreamState:
    stream = StreamState(part.number, part.created_at_ms, part.partitions)
    stream.retention = part.retention
    stream.first, stream.next = part.first, part.next
    stream.first_at_ms, stream.last_at_ms = part.first_at_ms, part.last_at_ms
    stream.offset, stream.length = part.offset, part.length
    return stream


SNAPSHOT = (Section(StreamsPart, _dump, _restore),)
