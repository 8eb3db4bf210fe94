"""Reads who caused the events of an append: every event has a caller, and is counted once.

What came over a connection is noted as carried out, by the number or the key of its request; no
request is noted twice.
"""

from math import inf

from flo.engine.callers import CallerNoted
from flo.engine.requests.events import KeyedRequestDone, RequestsDone, RequestsForgotten
from flo.engine.requests.table import KEY_WINDOW_MS, STEP_MS
from flo.engine.ticks import Tick
from flo.model.base import Event
from flo.model.declare.catalog import OPERATIONS
from flo.model.storage.caller import KNOWN_MAX, Caller, Source
from simulator.checks.invariants import Invariant
from simulator.checks.observer import Observer
from simulator.reference.handlers import reads

KEYED = frozenset(one.opcode for one in OPERATIONS if one.repeatable is False)
"""The operations that always come with a key."""


class CallerReference:
    def __init__(self, observer: Observer) -> None:
        self._hold = observer.hold
        self._unnoted = 0
        """How many requests of the append are yet to be noted, at least."""
        self._done: set[tuple[int, int]] = set()
        self._step_began_ms = inf
        """When requests were forgotten last, or the first was noted."""
        self._keyed: dict[tuple[str, str], int] = {}
        self._left = 0
        """How many events of the caller that was noted last are yet to come."""
        self.at_ms = 0
        self._callers: list[Caller] = []
        """Those that were noted with all that is known of them."""

    def begin(self) -> None:
        self._left = self._unnoted = 0

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
        if caller is not None and caller.source is Source.RPC:
            keyed = zip(operations, counts, strict=True)
            self._unnoted += sum(int(count) for code, count in keyed if code in KEYED)

    @reads
    def _requests_done(self, event: RequestsDone) -> None:
        for number in event.numbers:
            request = (event.session, event.unheard + number)
            self._hold(Invariant.ONE_CALL_ONE_EFFECT, request not in self._done, event)
            self._done.add(request)
        self._step_began_ms = min(self._step_began_ms, self.at_ms)
        self._unnoted -= len(event.numbers)

    @reads
    def _keyed_done(self, event: KeyedRequestDone) -> None:
        key = (event.namespace, event.key)
        last_ms = self._keyed.get(key)
        is_new = last_ms is None or last_ms + KEY_WINDOW_MS <= self.at_ms
        self._hold(Invariant.ONE_CALL_ONE_EFFECT, is_new, event, last_ms)
        self._keyed[key] = self.at_ms
        self._unnoted -= 1

    @reads
    def _forgotten(self, event: RequestsForgotten) -> None:
        """Whoever has been silent for so long sends nothing again; else it would be seen above."""
        is_due = self._step_began_ms + STEP_MS <= event.at_ms
        self._hold(Invariant.TIMERS_NOT_EARLY, is_due, event, self._step_began_ms)
        self._step_began_ms = event.at_ms

    def _meant(self, written: Caller | int) -> Caller | None:
        """A number is that of the last one noted as the so-manieth, round and round."""
        if isinstance(written, Caller):
            self._callers.append(written)
            return written
        count = len(self._callers)
        last = written + (count - 1 - written) // KNOWN_MAX * KNOWN_MAX
        return self._callers[last] if 0 <= last < count else None

    def finish(self) -> None:
        self._hold(Invariant.ONE_CALL_ONE_EFFECT, self._unnoted <= 0, self._unnoted)
        self._hold(Invariant.EVENTS_HAVE_CALLERS, self._left == 0, self._left)
