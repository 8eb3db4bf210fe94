"""Reads who caused the events of an append: every event has a caller, and is counted once."""

from flo.engine.callers import CallerNoted
from flo.engine.ticks import Tick
from flo.model.base import Event
from flo.model.storage.caller import Source
from simulator.checks.invariants import Invariant
from simulator.checks.observer import Observer
from simulator.reference.handlers import reads


class CallerReference:
    def __init__(self, observer: Observer) -> None:
        self._hold = observer.hold
        self._left = 0
        """How many events of the caller that was noted last are yet to come."""
        self.at_ms = 0

    def begin(self) -> None:
        self._left = 0

    def read(self, event: Event) -> None:
        """It belongs to the caller noted last; a caller is noted when all of the last are read."""
        is_noted = isinstance(event, CallerNoted)
        self._hold(Invariant.EVENTS_HAVE_CALLERS, is_noted is (self._left == 0), event, self._left)
        self._left -= not is_noted

    @reads
    def _noted(self, event: CallerNoted) -> None:
        counted = sum(count for _, count in event.operations)
        ticks = [name == Tick.__name__ for name, _ in event.operations]
        is_timer = event.caller.source is Source.TIMER
        is_said = event.events > 0 and counted > 0 and event.at_ms >= self.at_ms
        is_said = is_said and all(ticks) is is_timer is any(ticks)
        self._hold(Invariant.EVENTS_HAVE_CALLERS, is_said, event)
        self._left, self.at_ms = event.events, event.at_ms

    def finish(self) -> None:
        self._hold(Invariant.EVENTS_HAVE_CALLERS, self._left == 0, self._left)
