"""Who caused the events that follow, and when: the time and the caller that folds know.

    CallerNoted │ RunQueued │ RunQueued │ CallerNoted │ RunClaimed │      one append
     2 events   └─ by invoke, invoke ─┘    1 event    └ by claim ┘

It comes before the events of one caller's commands that were decided at one time. Replay folds it
like any other event, so that folds know the same as when it was lived. As there is one for every
append, it is short: its tag, and a number for a caller that was noted not long ago.
"""

from collections.abc import Iterator

from flo.engine.snapshot import Section, SnapshotPart
from flo.engine.state import State
from flo.model.base import Event
from flo.model.storage.caller import Caller, KnownCallers, by_of


class CallerNoted(Event, tag="By"):
    """The events that follow were caused by these commands of this caller."""

    at_ms: int
    caller: Caller | int
    """The number of a caller that is known, see `State.callers`."""
    operations: tuple[int | str, ...] = ()
    """Opcodes, or the names of commands that have none, each followed by its count."""
    events: int = 0
    """How many events follow that they caused."""


def note_of(state: State, caller: Caller, now_ms: int) -> CallerNoted:
    """What comes before the events of a caller that are decided now."""
    return CallerNoted(at_ms=now_ms, caller=state.callers.numbered(caller))


def apply_caller(state: State, event: CallerNoted) -> None:
    caller, known = event.caller, state.callers
    number = caller if isinstance(caller, int) else known.learn(caller)
    state.at_ms, state.caller, state.by = event.at_ms, known.callers[number], known.words[number]


class MomentPart(SnapshotPart):
    """How far the state is, and what holds for the next event unless another caller is noted."""

    position: int
    at_ms: int
    caller: Caller | None
    callers: tuple[Caller, ...]
    """Those that are known, by their numbers."""
    oldest: int


def _dump(state: State) -> Iterator[MomentPart]:
    known = state.callers
    yield MomentPart(
        position=state.position,
        at_ms=state.at_ms,
        caller=state.caller,
        callers=tuple(known.callers),
        oldest=known.oldest,
    )


def _restore(state: State, part: MomentPart) -> None:
    state.position, state.at_ms, state.caller = part.position, part.at_ms, part.caller
    state.by = by_of(part.caller)
    state.callers = KnownCallers(part.callers, part.oldest)


MOMENT = Section(MomentPart, _dump, _restore)
