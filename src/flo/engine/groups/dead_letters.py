"""Rules of the dead letters of a group: what was handed out too often, to be requeued or purged.

A dead letter is in the archive, with all that was in its record: it outlives the record itself. It
is looked up there, and the archive lets go of it in the same append as the rule decides.
"""

from collections.abc import Sequence

import msgspec

from flo.engine.context import Context
from flo.engine.decision import Decision
from flo.engine.groups.events import LetterPurged, LetterRevived, RecordDied
from flo.engine.groups.lookups import (
    LetterLookup,
    found_letters,
    letter_address,
    letter_addresses,
)
from flo.engine.groups.reads import slot_of
from flo.engine.groups.records import Delivery, Letter
from flo.engine.groups.rules import OfGroup, group_of
from flo.engine.state import ConsumerGroupState, State
from flo.model.archive import ArchiveAddress, Archived
from flo.model.errors import Conflict, NotFound
from flo.model.groups import (
    LettersChanged,
    PurgeLetters,
    RequeueLetters,
)

STATUS = "dead"

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
    address = letter_address(state, event, event.letter.record.sequence)
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
    return letter_address(state, event, event.sequence)


def _letters(
    state: State, command: RequeueLetters | PurgeLetters, context: Context
) -> tuple[Sequence[Letter], bool]:
    """The letters that are meant, and whether there are more of them."""
    group_of(state, command)
    if command.ids is None:
        found = found_letters(state, command, context)
        there = [letter for letter in found if letter.deliveries][: command.limit]
        return there, len(there) < len(found)
    letters: list[Letter] = []
    for address in letter_addresses(state, command):
        letter = context.found.get(LetterLookup(address))
        if letter is None:
            raise NotFound(
                f"record {address.number} is no dead letter of group {command.group!r}",
                code="letter_not_found",
            )
        letters.append(letter)
    return letters, False


def _group(state: State, message: OfGroup) -> ConsumerGroupState:
    return state.spaces[message.namespace].streams[message.stream].groups[message.group]


def _ids(letters: Sequence[Letter]) -> list[str]:
    return [letter.record.stream_id for letter in letters]
