"""Reads who caused the events of an append: every event has a caller, and is counted once."""

from flo.engine.callers import CallerNoted
from flo.engine.ticks import Tick
from flo.model.base import Event
from flo.model.storage.caller import KNOWN_MAX, Caller, Source
from simulator.checks.invariants import Invariant
from simulator.checks.observer import Observer
from simulator.reference.handlers import reads


class CallerReference:
    def __init__(self, observer: Observer) -> None:
        self._hold = observer.hold
        self._left = 0
        """How many events of the caller that was noted last are yet to come."""
        self.at_ms = 0
        self._callers: list[Caller] = []
        """Those that were noted with all that is known of them."""

    def begin(self) -> None:
        self._left = 0

    def read(self, event: Event) -> None:
        """It belongs to the caller noted last; a caller is noted when all of the last are read."""
        is_noted = isinstance(event, CallerNoted)
        self._hold(Invariant.EVENTS_HAVE_CALLERS, is_noted is (self._left == 0), event, self._left)
        self._left -= not is_noted

    @reads
    def _noted(self, event: CallerNoted) -> None:
        operations, counts = event.operations[::2], event.operations[1::2]
        ticks = [name == Tick.__name__ for name in operations]
        caller = self._meant(event.caller)
        is_timer = caller is not None and caller.source is Source.TIMER
        is_said = (
            caller is not None and event.events > 0 and all(counts) and event.at_ms >= self.at_ms
        )
        is_said = is_said and all(ticks) is is_timer is any(ticks)
        self._hold(Invariant.EVENTS_HAVE_CALLERS, is_said, event)
        self._left, self.at_ms = event.events, event.at_ms

    def _meant(self, written: Caller | int) -> Caller | None:
        """A number is that of the last one noted as the so-manieth, round and round."""
        if isinstance(written, Caller):
            self._callers.append(written)
            return written
        count = len(self._callers)
        last = written + (count - 1 - written) // KNOWN_MAX * KNOWN_MAX
        return self._callers[last] if 0 <= last < count else None

    def finish(self) -> None:
        self._hold(Invariant.EVENTS_HAVE_CALLERS, self._left == 0, self._left)
