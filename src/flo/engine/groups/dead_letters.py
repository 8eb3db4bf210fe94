"""Rules of the dead letters of a group: what was handed out too often, to be requeued or purged.

A letter is in the archive, with all that was in its record: it outlives the record itself. The
shard recalls it, the rule decides on what was recalled, and the archive lets go of it in the same
append.
"""

import re
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from flo.engine.context import Context
from flo.engine.decision import Decision
from flo.engine.groups.events import LetterPurged, LetterRevived, RecordDied
from flo.engine.groups.reads import slot_of
from flo.engine.groups.records import Delivery, Letter
from flo.engine.groups.rules import OfGroup, group_of
from flo.engine.state import ConsumerGroupState, State
from flo.model.archive import ArchiveAddress, Archived
from flo.model.errors import Conflict, Invalid, NotFound
from flo.model.groups import (
    IDS_PER_COMMAND_MAX,
    LetterPage,
    LettersChanged,
    LetterView,
    ListLetters,
    PurgeLetters,
    RequeueLetters,
)
from flo.model.ids import GroupName, StreamName, parse_stream_id

ARCHIVE_KIND = "letter"
STATUS = "dead"

_CURSOR = re.compile(r"[0-9]{1,18}")
_encode = msgspec.msgpack.Encoder().encode


def decide_requeue(state: State, command: RequeueLetters, context: Context) -> Decision:
    group = group_of(state, command)
    stream = state.spaces[command.namespace].streams[command.stream]
    letters, more = _letters(state, command, context)
    kept = [letter for letter in letters if letter.record.sequence >= stream.first]
    if command.ids is not None and len(kept) < len(letters):
        raise Conflict(
            f"the stream has been trimmed past some of these records; it begins at {stream.first}",
            code="record_trimmed",
        )
    revived = tuple(
        LetterRevived(
            namespace=command.namespace,
            stream=command.stream,
            group=command.group,
            sequence=letter.record.sequence,
            slot=slot_of(stream, group, letter.record),
        )
        for letter in kept
    )
    is_trimmed_from_here = len(kept) < len(letters)  # what comes next is older still
    return Decision(LettersChanged(ids=_ids(kept), more=more and not is_trimmed_from_here), revived)


def decide_purge(state: State, command: PurgeLetters, context: Context) -> Decision:
    letters, more = _letters(state, command, context)
    purged = tuple(
        LetterPurged(
            namespace=command.namespace,
            stream=command.stream,
            group=command.group,
            sequence=letter.record.sequence,
        )
        for letter in letters
    )
    return Decision(LettersChanged(ids=_ids(letters), more=more), purged)


def list_letters(state: State, query: ListLetters, context: Context) -> LetterPage:
    """A page of dead letters; one more was asked for, to know whether there is more."""
    group = group_of(state, query)
    if query.cursor is not None:
        parse_cursor(query.cursor)
    found = context.recalled.letter_pages[letters_name(query.stream, query.group, group)]
    page = found[: query.limit]
    views = [
        LetterView(record=letter.record, deliveries=letter.deliveries, died_at_ms=letter.at_ms)
        for letter in page
        if letter.deliveries
    ]
    more = len(found) > len(page)
    return LetterPage(items=views, cursor=str(page[-1].record.sequence) if more else None)


def apply_died(state: State, event: RecordDied) -> None:
    group = _group(state, event)
    group.backlog.remove(event.letter.record.sequence)
    group.dead_count += 1
    state.reschedule(event.namespace, event.stream, event.group)


def apply_revived(state: State, event: LetterRevived) -> None:
    group = _group(state, event)
    group.dead_count -= 1
    group.backlog.put(Delivery(sequence=event.sequence, slot=event.slot))


def apply_purged(state: State, event: LetterPurged) -> None:
    _group(state, event).dead_count -= 1


def archive_letter(state: State, event: RecordDied) -> tuple[Archived]:
    address = _address(state, event, event.letter.record.sequence)
    row = Archived(
        kind=address.kind,
        namespace=address.namespace,
        name=address.name,
        number=address.number,
        status=STATUS,
        finished_at_ms=event.letter.at_ms,
        key=None,
        body=_encode(event.letter),
        dead=True,
    )
    return (row,)


def address_of(state: State, event: LetterRevived | LetterPurged) -> ArchiveAddress:
    return _address(state, event, event.sequence)


def parse_cursor(cursor: str) -> int:
    """The sequence that a page of dead letters goes on below."""
    if not _CURSOR.fullmatch(cursor):
        raise Invalid(f"expected the cursor of an earlier page, got {cursor[:80]!r}")
    return int(cursor)


def gone(letter: Letter) -> Letter:
    """A letter that has left the archive since that was asked: nothing of it counts any more."""
    return replace(letter, deliveries=0)


def letters_name(stream: StreamName, name: GroupName, group: ConsumerGroupState) -> str:
    """What the letters of a group are filed under; no two groups ever share it."""
    return f"{stream}/{name}/{group.number}"


def letter_addresses(state: State, command: RequeueLetters | PurgeLetters) -> list[ArchiveAddress]:
    """Where the letters that are named would be."""
    sequences = dict.fromkeys(
        parse_stream_id(one)[1] for one in (command.ids or ())[:IDS_PER_COMMAND_MAX]
    )
    return [_address(state, command, sequence) for sequence in sequences]


def _letters(
    state: State, command: RequeueLetters | PurgeLetters, context: Context
) -> tuple[Sequence[Letter], bool]:
    """The letters that are meant, and whether there are more of them."""
    group = group_of(state, command)
    if command.ids is None:
        name = letters_name(command.stream, command.group, group)
        found = context.recalled.letter_pages[name]
        there = [letter for letter in found if letter.deliveries][: command.limit]
        return there, len(there) < len(found)
    letters: list[Letter] = []
    for address in letter_addresses(state, command):
        letter = context.recalled.letters.get(address)
        if letter is None:
            raise NotFound(
                f"record {address.number} is no dead letter of group {command.group!r}",
                code="letter_not_found",
            )
        letters.append(letter)
    return letters, False


def _address(state: State, message: OfGroup, sequence: int) -> ArchiveAddress:
    space = state.spaces[message.namespace]
    group = _group(state, message)
    name = letters_name(message.stream, message.group, group)
    return ArchiveAddress(ARCHIVE_KIND, space.archive_name, name, sequence)


def _group(state: State, message: OfGroup) -> ConsumerGroupState:
    return state.spaces[message.namespace].streams[message.stream].groups[message.group]


def _ids(letters: Sequence[Letter]) -> list[str]:
    return [letter.record.stream_id for letter in letters]
