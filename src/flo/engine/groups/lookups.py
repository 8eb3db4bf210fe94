"""What messages about consumer groups need from the store: records, positions, dead letters."""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec

from flo.engine.context import Context
from flo.engine.dead_letters import DeadPageLookup, DeadRow, rows_wanted
from flo.engine.feature import LookupRule
from flo.engine.groups.backlog import in_parts
from flo.engine.groups.reads import claimable, parts_wanted
from flo.engine.groups.records import ARCHIVE_KIND, DeadRecord
from flo.engine.groups.rules import OfGroup, group_of
from flo.engine.lists.paging import parse_number
from flo.engine.lookup import Lookup, RecordLookup, RowLookup
from flo.engine.state import ConsumerGroupState, State
from flo.engine.streams.lookups import records_missing
from flo.engine.streams.positions import id_bounds, lookups_of
from flo.model.base import Message
from flo.model.declare.fields import check_fields
from flo.model.groups import (
    IDS_PER_COMMAND_MAX,
    ClaimRecords,
    CreateGroup,
    GroupMode,
    ListDeadRecords,
    ListPending,
    PurgeDeadRecords,
    ReadGroup,
    RequeueDeadRecords,
)
from flo.model.ids import parse_stream_id
from flo.model.storage.archive import ArchiveAddress
from flo.model.streams import START, TAIL

_decode = msgspec.msgpack.Decoder(DeadRecord).decode


class DeadRecordLookup(RowLookup[DeadRecord], frozen=True):
    """A dead letter, if it is still one."""

    at: ArchiveAddress

    def address(self) -> ArchiveAddress:
        return self.at

    def decode(self, body: bytes) -> DeadRecord:
        return _decode(body)


class DeadRecordPageLookup(DeadPageLookup[DeadRecord], frozen=True):
    """The newest dead letters of a group."""

    kind = ARCHIVE_KIND

    def decode(self, body: bytes) -> DeadRecord:
        return _decode(body)


def dead_address(state: State, message: OfGroup, sequence: int) -> ArchiveAddress:
    """Where the archive has the dead letter of a record, if it is one."""
    archive_name, name = _filed_under(state, message)
    return ArchiveAddress(ARCHIVE_KIND, archive_name, name, sequence)


def named_addresses(
    state: State, command: RequeueDeadRecords | PurgeDeadRecords
) -> list[ArchiveAddress]:
    """Where the dead letters that are named would be."""
    sequences = dict.fromkeys(
        parse_stream_id(one)[1] for one in (command.ids or ())[:IDS_PER_COMMAND_MAX]
    )
    return [dead_address(state, command, sequence) for sequence in sequences]


def found_dead(state: State, message: OfGroup, context: Context) -> tuple[DeadRow[DeadRecord], ...]:
    """The page of dead letters that was looked up."""
    return context.found.get(DeadRecordPageLookup(*_filed_under(state, message))) or ()


def _filed_under(state: State, message: OfGroup) -> tuple[str, str]:
    """What the archive has the dead letters of a group under; no two groups ever share it."""
    space = state.spaces[message.namespace]
    group = space.streams[message.stream].groups[message.group]
    return space.archive_name, f"{message.stream}/{message.group}/{group.number}"


def _for_create(state: State, command: CreateGroup, context: Context) -> Sequence[Lookup[Any]]:
    stream = state.space(command.namespace).streams.get(command.stream)
    if stream is None or command.start in (START, TAIL):
        return ()
    return lookups_of(stream, id_bounds(command.start, after=True))


def for_read(state: State, command: ReadGroup, context: Context) -> Sequence[RecordLookup]:
    check_fields(command)
    group = group_of(state, command)
    if group.settings.mode is GroupMode.EXCLUSIVE and group.chosen != command.consumer:
        return ()
    stream = state.spaces[command.namespace].streams[command.stream]
    return records_missing(stream, parts_wanted(state, command, context), command.limit, context)


def _for_claim(state: State, command: ClaimRecords, context: Context) -> Sequence[RecordLookup]:
    check_fields(command)
    group = group_of(state, command)
    stream = state.spaces[command.namespace].streams[command.stream]
    wanted = islice(claimable(group, command, context.now_ms), command.limit)
    parts = list(in_parts(delivery.sequence for delivery in wanted))
    return records_missing(stream, parts, command.limit, context)


def _for_pending(state: State, query: ListPending, context: Context) -> Sequence[RecordLookup]:
    group = group_of(state, query)
    stream = state.spaces[query.namespace].streams[query.stream]
    parts = list(in_parts(pending_wanted(group, query)))
    return records_missing(stream, parts, query.limit, context)


def pending_wanted(group: ConsumerGroupState, query: ListPending) -> list[int]:
    """The records of a page of what is under way, and the first of the next page."""
    check_fields(query)
    after = parse_stream_id(query.cursor)[1] if query.cursor is not None else 0
    if query.consumer is not None:
        held = list(group.backlog.held.get(query.consumer, ()))
    else:
        held = [one for held in group.backlog.held.values() for one in held]
    return list(islice(sorted(one for one in held if one > after), query.limit + 1))


def _for_dead(
    state: State,
    message: ListDeadRecords | RequeueDeadRecords | PurgeDeadRecords,
    context: Context,
) -> Sequence[Lookup[Any]]:
    """Dead letters: those that are named, or a page of them and one more."""
    group_of(state, message)
    if not isinstance(message, ListDeadRecords) and message.ids is not None:
        return [DeadRecordLookup(address) for address in named_addresses(state, message)]
    below = state.spaces[message.namespace].streams[message.stream].next
    if isinstance(message, ListDeadRecords) and message.cursor is not None:
        below = parse_number(message.cursor)
    filed_under = _filed_under(state, message)
    return (DeadRecordPageLookup(*filed_under, below, rows_wanted(message.limit)),)


LOOKUPS: Mapping[type[Message], LookupRule] = {
    CreateGroup: _for_create,
    ReadGroup: for_read,
    ClaimRecords: _for_claim,
    ListPending: _for_pending,
    ListDeadRecords: _for_dead,
    RequeueDeadRecords: _for_dead,
    PurgeDeadRecords: _for_dead,
}
