"""What messages about consumer groups need from the store: records, positions, dead letters."""

from collections.abc import Hashable, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from flo.engine.context import Context
from flo.engine.feature import LookupRule
from flo.engine.groups.backlog import in_parts
from flo.engine.groups.reads import claimable, parts_wanted
from flo.engine.groups.records import ARCHIVE_KIND, Letter
from flo.engine.groups.rules import OfGroup, group_of
from flo.engine.lookup import Lookup, RecentRows, RecordLookup, RowLookup
from flo.engine.paging import parse_number
from flo.engine.state import ConsumerGroupState, State
from flo.engine.streams.lookups import records_missing
from flo.engine.streams.positions import id_bounds, lookups_of
from flo.model.archive import ArchiveAddress
from flo.model.base import Message
from flo.model.fields import check_fields
from flo.model.groups import (
    IDS_PER_COMMAND_MAX,
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
from flo.model.store import Store
from flo.model.streams import START, TAIL

_decode = msgspec.msgpack.Decoder(Letter).decode


class LetterLookup(RowLookup[Letter], frozen=True):
    """A dead letter, if it is still one."""

    at: ArchiveAddress

    def address(self) -> ArchiveAddress:
        return self.at

    def decode(self, body: bytes) -> Letter:
        return _decode(body)


class LetterPageLookup(Lookup[tuple[Letter, ...]], frozen=True):
    """The newest dead letters of a group, below a sequence."""

    archive_name: str
    name: str
    below: int = 0
    limit: int = 0

    def key(self) -> Hashable:
        return LetterPageLookup, self.archive_name, self.name

    def refreshed(
        self, recent: RecentRows, fetched: tuple[Letter, ...] | UnsetType
    ) -> tuple[Letter, ...] | UnsetType:
        """Of those that have left the archive, only the place remains: they count no deliveries."""
        if fetched is UNSET:
            return UNSET
        return tuple(
            replace(letter, deliveries=0) if self._is_gone(recent, letter) else letter
            for letter in fetched
        )

    async def fetch(self, store: Store) -> tuple[Letter, ...]:
        rows = await store.archive.page(
            ARCHIVE_KIND,
            self.archive_name,
            self.name,
            below=self.below,
            limit=self.limit,
            is_dead=True,
        )
        return tuple(_decode(row.body) for row in rows)

    def _is_gone(self, recent: RecentRows, letter: Letter) -> bool:
        sequence = letter.record.sequence
        address = ArchiveAddress(ARCHIVE_KIND, self.archive_name, self.name, sequence)
        return address in recent and recent[address] is None


def letter_address(state: State, message: OfGroup, sequence: int) -> ArchiveAddress:
    """Where the archive has the dead letter of a record, if it is one."""
    space = state.spaces[message.namespace]
    group = space.streams[message.stream].groups[message.group]
    return ArchiveAddress(ARCHIVE_KIND, space.archive_name, _letters_name(message, group), sequence)


def letter_addresses(state: State, command: RequeueLetters | PurgeLetters) -> list[ArchiveAddress]:
    """Where the letters that are named would be."""
    sequences = dict.fromkeys(
        parse_stream_id(one)[1] for one in (command.ids or ())[:IDS_PER_COMMAND_MAX]
    )
    return [letter_address(state, command, sequence) for sequence in sequences]


def found_letters(state: State, message: OfGroup, context: Context) -> tuple[Letter, ...]:
    """The page of dead letters that was looked up."""
    name = _letters_name(message, group_of(state, message))
    archive_name = state.spaces[message.namespace].archive_name
    return context.found.get(LetterPageLookup(archive_name, name)) or ()


def _letters_name(message: OfGroup, group: ConsumerGroupState) -> str:
    """What the letters of a group are filed under; no two groups ever share it."""
    return f"{message.stream}/{message.group}/{group.number}"


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
    return records_missing(stream, parts_wanted(state, command), command.limit, context)


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


def _for_letters(
    state: State, message: ListLetters | RequeueLetters | PurgeLetters, context: Context
) -> Sequence[Lookup[Any]]:
    """Dead letters: those that are named, or a page of them and one more."""
    group = group_of(state, message)
    if not isinstance(message, ListLetters) and message.ids is not None:
        return [LetterLookup(address) for address in letter_addresses(state, message)]
    space = state.spaces[message.namespace]
    below = space.streams[message.stream].next
    if isinstance(message, ListLetters) and message.cursor is not None:
        below = parse_number(message.cursor)
    limit = max(1, min(message.limit, LIST_LIMIT_MAX)) + 1
    name = _letters_name(message, group)
    return (LetterPageLookup(space.archive_name, name, below, limit),)


LOOKUPS: Mapping[type[Message], LookupRule] = {
    CreateGroup: _for_create,
    ReadGroup: for_read,
    ClaimRecords: _for_claim,
    ListPending: _for_pending,
    ListLetters: _for_letters,
    RequeueLetters: _for_letters,
    PurgeLetters: _for_letters,
}
