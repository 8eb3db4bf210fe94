"""Positions in a stream: where an id, an age, a length or a number of bytes is reached.

The store knows them. A bound says what is to be reached; the position of each bound is looked up.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeAlias

from flo.engine.context import Context
from flo.engine.lookup import Lookup
from flo.engine.state import StreamState
from flo.model.errors import Unavailable
from flo.model.ids import StreamId, parse_stream_id, stream_id_of
from flo.model.storage.records import PositionBy, StreamPosition
from flo.model.storage.store import Store
from flo.model.streams import TrimStream

BY_LENGTH = "length"
BY_AGE = "age"
BY_BYTES = "bytes"
FROM_TIME = "from_time"
FROM_SEQUENCE = "from_sequence"
UNTIL_TIME = "until_time"

Bound: TypeAlias = tuple[PositionBy, int]
"""What is to be reached, and how much of it."""

_NOWHERE = StreamPosition(0, 0, 0)


class PositionLookup(Lookup[StreamPosition], frozen=True):
    """The position in a stream at which a bound is reached; `end` if that is nowhere."""

    stream: int
    bound: str
    by: PositionBy = PositionBy.SEQUENCE
    least: int = 0
    end: StreamPosition = _NOWHERE

    def key(self) -> Hashable:
        return PositionLookup, self.stream, self.bound

    async def fetch(self, store: Store) -> StreamPosition:
        return await store.records.place(self.stream, self.by, self.least) or self.end


def lookups_of(stream: StreamState, bounds: Mapping[str, Bound]) -> Sequence[PositionLookup]:
    end = StreamPosition(stream.next, stream.length, 0)
    return [
        PositionLookup(stream.number, bound, by, least, end)
        for bound, (by, least) in bounds.items()
    ]


def id_bounds(stream_id: StreamId, *, after: bool = False) -> dict[str, Bound]:
    """What the first record that has this id, or comes after it, lies between."""
    at_ms, sequence = parse_stream_id(stream_id)
    return {
        FROM_TIME: (PositionBy.TIME, at_ms),
        FROM_SEQUENCE: (PositionBy.SEQUENCE, sequence + after),
        UNTIL_TIME: (PositionBy.TIME, at_ms + 1),
    }


def id_position(stream: StreamState, context: Context) -> StreamPosition | None:
    """The position that the bounds of an id say; None while it has to be looked up."""
    found = _found(stream, (FROM_TIME, FROM_SEQUENCE, UNTIL_TIME), context)
    return sorted(found)[1] if len(found) == 3 else None


def trim_bounds(stream: StreamState, command: TrimStream, now_ms: int) -> dict[str, Bound]:
    """The bounds that a trim sets: what is before such a position goes."""
    kept = stream.retention if _has_no_bound(command) else command
    bounds: dict[str, Bound] = {}
    if kept.max_length is not None and stream.next - stream.first > kept.max_length:
        bounds[BY_LENGTH] = (PositionBy.SEQUENCE, stream.next - kept.max_length)
    if kept.max_age_ms is not None and 0 < stream.first_at_ms < now_ms - kept.max_age_ms:
        bounds[BY_AGE] = (PositionBy.TIME, now_ms - kept.max_age_ms)
    if kept.max_bytes is not None and stream.length - stream.offset > kept.max_bytes:
        bounds[BY_BYTES] = (PositionBy.OFFSET, stream.length - kept.max_bytes)
    if command.before is not None:
        bounds |= id_bounds(command.before)
    return bounds


def trim_position(stream: StreamState, command: TrimStream, context: Context) -> StreamPosition:
    """Where the stream would begin; positions that were found a little earlier are good enough."""
    positions = _found(stream, (BY_LENGTH, BY_AGE, BY_BYTES), context)
    if command.before is not None:
        named = id_position(stream, context)
        assert named is not None
        positions.append(named)
    beginning = StreamPosition(stream.first, stream.offset, stream.first_at_ms)
    position = max([beginning, *positions], key=lambda position: position.sequence)
    if position.at_ms or position.sequence == stream.next:
        return position
    record = context.records.record(stream.number, position.sequence)  # it has come in meanwhile
    if record is None:
        raise Unavailable(f"stream {command.stream!r} is being appended to: try again")
    return position._replace(at_ms=record.at_ms)


def first_id(stream: StreamState) -> StreamId | None:
    """The id of the first record that is kept, if there is one."""
    if stream.first == stream.next:
        return None
    return stream_id_of(stream.first_at_ms, stream.first)


def last_id(stream: StreamState) -> StreamId:
    """The id of the newest record there has been; 0-0 if there has been none."""
    return stream_id_of(stream.last_at_ms, stream.next - 1)


def _found(stream: StreamState, bounds: Sequence[str], context: Context) -> list[StreamPosition]:
    lookups = (PositionLookup(stream.number, bound) for bound in bounds)
    found = (context.found.get(lookup) for lookup in lookups)
    return [position for position in found if position is not None]


def _has_no_bound(command: TrimStream) -> bool:
    bounds = (command.before, command.max_length, command.max_age_ms, command.max_bytes)
    return all(bound is None for bound in bounds)
