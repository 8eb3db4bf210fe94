"""What messages about streams need from the store: records, and positions in a stream."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from flo.engine.context import Context
from flo.engine.feature import LookupRule
from flo.engine.lookup import Lookup, RecordLookup
from flo.engine.state import State, StreamState
from flo.engine.streams.positions import id_bounds, lookups_of, trim_bounds
from flo.engine.streams.queries import start_of
from flo.engine.streams.rules import named_stream
from flo.model.base import Message
from flo.model.declare.fields import check_fields
from flo.model.ids import parse_stream_id
from flo.model.streams import ReadStream, TrimStream

PARTS_MAX = 8
"""So many unbroken parts are fetched for one read; what is left is fetched for the next."""

Part: TypeAlias = tuple[int, int]
"""The first and the last of some sequences without a gap."""


def records_missing(
    stream: StreamState, parts: Sequence[Part], limit: int, context: Context
) -> Sequence[RecordLookup]:
    """What to fetch of these parts; nothing if the first record of all is in memory."""
    if not parts or parts[0][0] > parts[0][1]:
        return ()
    if context.records.record(stream.number, parts[0][0]) is not None:
        return ()
    return [
        RecordLookup(stream.number, first, min(last - first + 1, limit))
        for first, last in parts[:PARTS_MAX]
    ]


def _for_read(state: State, query: ReadStream, context: Context) -> Sequence[Lookup[Any]]:
    stream = state.space(query.namespace).streams.get(query.stream)
    if stream is None:
        return ()
    check_fields(query)
    start = start_of(stream, query, context)
    if start is not None:
        return records_missing(stream, [(start, stream.next - 1)], query.limit, context)
    _, sequence = parse_stream_id(query.after)
    is_there = stream.first <= sequence < stream.next
    positions = lookups_of(stream, id_bounds(query.after, after=True))
    if is_there and context.records.record(stream.number, sequence) is None:
        # what was fetched may be pushed out again before the rest is, but a position is kept
        return (RecordLookup(stream.number, sequence, query.limit + 1), *positions)
    return positions


def _for_trim(state: State, command: TrimStream, context: Context) -> Sequence[Lookup[Any]]:
    stream = named_stream(state.space(command.namespace), command.stream)
    check_fields(command)
    return lookups_of(stream, trim_bounds(stream, command, context.now_ms))


LOOKUPS: Mapping[type[Message], LookupRule] = {
    ReadStream: _for_read,
    TrimStream: _for_trim,
}
