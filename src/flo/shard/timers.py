"""Sleeps until something falls due, then says so."""

from collections.abc import Callable

from flo.shard.clock import Clock, ScheduledCall

SLEEP_MS_MAX = 1_000
"""An alarm goes by elapsed time. A clock that is put forward is noticed within this time."""


class Timer:
    """One alarm that is moved as the earliest due moment moves."""

    def __init__(self, clock: Clock, ring: Callable[[], None]) -> None:
        self._clock = clock
        self._ring = ring
        self._at_ms: int | None = None
        self._alarm: ScheduledCall | None = None

    def set(self, at_ms: int | None) -> None:
        if at_ms == self._at_ms:
            return
        self.cancel()
        if at_ms is not None:
            self._at_ms = at_ms
            self._sleep(at_ms)

    def cancel(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = self._at_ms = None

    def _sleep(self, at_ms: int) -> None:
        until_ms = min(at_ms, self._clock.now_ms() + SLEEP_MS_MAX)
        self._alarm = self._clock.call_at(until_ms, lambda: self._wake(at_ms))

    def _wake(self, at_ms: int) -> None:
        if self._clock.now_ms() < at_ms:
            self._sleep(at_ms)
        else:
            self._alarm = self._at_ms = None
            self._ring()
