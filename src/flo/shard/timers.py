"""Sleeps until the next due moment, then rings."""

from collections.abc import Callable

from flo.shard.clock import Alarm, Clock


class Timer:
    """One alarm that is moved as the earliest due moment moves."""

    def __init__(self, clock: Clock, ring: Callable[[], None]) -> None:
        self._clock = clock
        self._ring = ring
        self._at_ms: int | None = None
        self._alarm: Alarm | None = None

    def set(self, at_ms: int | None) -> None:
        if at_ms == self._at_ms:
            return
        self.cancel()
        if at_ms is not None:
            self._at_ms = at_ms
            self._alarm = self._clock.call_at(at_ms, self._rung)

    def cancel(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = self._at_ms = None

    def _rung(self) -> None:
        self._alarm = self._at_ms = None
        self._ring()
