"""Who caused the events that follow, and when: the time and the caller that folds know.

    CallerNoted │ RunQueued │ RunQueued │ CallerNoted │ RunClaimed │      one append
     2 events   └─ by invoke, invoke ─┘    1 event    └ by claim ┘

It comes before the events of one caller's commands that were decided at one time. Replay folds it
like any other event, so that folds know the same as when it was lived.
"""

from collections.abc import Iterator

from flo.engine.snapshot import Section, SnapshotPart
from flo.engine.state import State
from flo.model.base import Event
from flo.model.storage.caller import Caller


class CallerNoted(Event):
    """The events that follow were caused by these commands of this caller."""

    at_ms: int
    caller: Caller
    operations: tuple[tuple[int | str, int], ...] = ()
    """The opcodes of the operations, or the names of those that have none; each with its count."""
    events: int = 0
    """How many events follow that they caused."""


def apply_caller(state: State, event: CallerNoted) -> None:
    state.at_ms = event.at_ms
    state.caller = event.caller


class MomentPart(SnapshotPart):
    """How far the state is, and what holds for the next event unless another caller is noted."""

    position: int
    at_ms: int
    caller: Caller | None


def _dump(state: State) -> Iterator[MomentPart]:
    yield MomentPart(position=state.position, at_ms=state.at_ms, caller=state.caller)


def _restore(state: State, part: MomentPart) -> None:
    state.position, state.at_ms, state.caller = part.position, part.at_ms, part.caller


MOMENT = Section(MomentPart, _dump, _restore)
