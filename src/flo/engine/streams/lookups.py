"""What a word about streams needs to know of the store before it can be settled.

records    those that a read begins with, unless they are within reach
places     where in a stream a time or a number of bytes is reached
letters    the dead letters of a group
"""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

from flo.engine.context import NO_RECORDS, NOTHING_RECALLED, Recalled, RecordReader
from flo.engine.groups.backlog import in_parts
from flo.engine.groups.dead_letters import letter_addresses, letters_name, parse_cursor
from flo.engine.groups.reads import Part, claimable, parts_wanted
from flo.engine.groups.rules import group_of
from flo.engine.state import State, StreamState
from flo.engine.streams.queries import pending_wanted, start_of
from flo.engine.streams.rules import Bound, id_bounds, named_stream, trim_bounds
from flo.model.archive import ArchiveAddress
from flo.model.base import Message
from flo.model.fields import check_fields
from flo.model.groups import (
    ClaimRecords,
    CreateGroup,
    GroupMode,
    ListLetters,
    ListPending,
    PurgeLetters,
    ReadGroup,
    RequeueLetters,
)
from flo.model.ids import LIST_LIMIT_MAX, parse_stream_id
from flo.model.schedules import PullTrigger
from flo.model.streams import (
    START,
    TAIL,
    PositionBy,
    ReadStream,
    StreamPosition,
    TrimStream,
)

PARTS_MAX = 8
"""So many unbroken parts are fetched for one read; what is left is fetched for the next."""


class Known(NamedTuple):
    """What is known without a look into the store."""

    now_ms: int
    recalled: Recalled
    records: RecordReader


NOTHING_KNOWN = Known(0, NOTHING_RECALLED, NO_RECORDS)


class RecallRecords(NamedTuple):
    """The records from a sequence on."""

    stream: int
    sequence: int
    limit: int


class RecallPlace(NamedTuple):
    """The place in a stream at which this is reached; `end` if that is nowhere."""

    stream: int
    what: str
    by: PositionBy
    least: int
    end: StreamPosition


class RecallLetter(NamedTuple):
    address: ArchiveAddress


class RecallLetters(NamedTuple):
    """The newest dead letters of a group, below a sequence."""

    filed_under: str
    name: str
    below: int
    limit: int


StreamRecall: TypeAlias = RecallRecords | RecallPlace | RecallLetter | RecallLetters


def recall_read(state: State, query: ReadStream, known: Known) -> Sequence[StreamRecall]:
    stream = state.space(query.namespace).streams.get(query.stream)
    if stream is None:
        return ()
    check_fields(query)
    start = start_of(stream, query, known.records, known.recalled.places)
    if start is not None:
        return _out_of_reach(stream, [(start, stream.next - 1)], query.limit, known)
    _, sequence = parse_stream_id(query.after)
    is_there = stream.first <= sequence < stream.next
    places = _places(stream, id_bounds(query.after, after=True))
    if is_there and known.records.record(stream.number, sequence) is None:
        # what was fetched may be pushed out again before the rest is, but a place is kept
        return (RecallRecords(stream.number, sequence, query.limit + 1), *places)
    return places


def recall_trim(state: State, command: TrimStream, known: Known) -> Sequence[StreamRecall]:
    stream = named_stream(state.space(command.namespace), command.stream)
    check_fields(command)
    return _places(stream, trim_bounds(stream, command, known.now_ms))


def recall_group_start(state: State, command: CreateGroup, known: Known) -> Sequence[StreamRecall]:
    stream = state.space(command.namespace).streams.get(command.stream)
    if stream is None or command.start in (START, TAIL):
        return ()
    return _places(stream, id_bounds(command.start, after=True))


def recall_group_read(state: State, command: ReadGroup, known: Known) -> Sequence[StreamRecall]:
    check_fields(command)
    group = group_of(state, command)
    if group.settings.mode is GroupMode.EXCLUSIVE and group.chosen != command.consumer:
        return ()
    stream = state.spaces[command.namespace].streams[command.stream]
    return _out_of_reach(stream, parts_wanted(state, command), command.limit, known)


def recall_claim(state: State, command: ClaimRecords, known: Known) -> Sequence[StreamRecall]:
    check_fields(command)
    group = group_of(state, command)
    stream = state.spaces[command.namespace].streams[command.stream]
    wanted = islice(claimable(group, command, known.now_ms), command.limit)
    parts = list(in_parts(delivery.sequence for delivery in wanted))
    return _out_of_reach(stream, parts, command.limit, known)


def recall_pending(state: State, query: ListPending, known: Known) -> Sequence[StreamRecall]:
    group = group_of(state, query)
    stream = state.spaces[query.namespace].streams[query.stream]
    parts = list(in_parts(pending_wanted(group, query)))
    return _out_of_reach(stream, parts, query.limit, known)


def recall_letters(
    state: State, message: ListLetters | RequeueLetters | PurgeLetters, known: Known
) -> Sequence[StreamRecall]:
    """Dead letters: those that are named, or a page of them and one more."""
    group = group_of(state, message)
    if not isinstance(message, ListLetters) and message.ids is not None:
        return [RecallLetter(address) for address in letter_addresses(state, message)]
    stream = state.spaces[message.namespace].streams[message.stream]
    below = stream.next
    if isinstance(message, ListLetters) and message.cursor is not None:
        below = parse_cursor(message.cursor)
    limit = max(1, min(message.limit, LIST_LIMIT_MAX)) + 1
    name = letters_name(message.stream, message.group, group)
    filed_under = state.spaces[message.namespace].archive_name
    return (RecallLetters(filed_under, name, below, limit),)


def _out_of_reach(
    stream: StreamState, parts: Sequence[Part], limit: int, known: Known
) -> Sequence[RecallRecords]:
    """What to fetch of these parts; nothing if the first record of all is within reach."""
    if not parts or parts[0][0] > parts[0][1]:
        return ()
    if known.records.record(stream.number, parts[0][0]) is not None:
        return ()
    return [
        RecallRecords(stream.number, first, min(last - first + 1, limit))
        for first, last in parts[:PARTS_MAX]
    ]


def _places(stream: StreamState, bounds: dict[str, Bound]) -> Sequence[RecallPlace]:
    end = StreamPosition(stream.next, stream.length, 0)
    return [
        RecallPlace(stream.number, what, by, least, end) for what, (by, least) in bounds.items()
    ]


STREAM_RECALLS: dict[type[Message], Callable[[State, Any, Known], Sequence[StreamRecall]]] = {
    ReadStream: recall_read,
    TrimStream: recall_trim,
    CreateGroup: recall_group_start,
    ReadGroup: recall_group_read,
    PullTrigger: recall_group_read,
    ClaimRecords: recall_claim,
    ListPending: recall_pending,
    ListLetters: recall_letters,
    RequeueLetters: recall_letters,
    PurgeLetters: recall_letters,
}
