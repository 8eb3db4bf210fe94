"""The Clock protocol, and the system clock."""

import asyncio
import time
from collections.abc import Callable
from typing import Protocol


class ScheduledCall(Protocol):
    """A call that is set for later and can be called off."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        ...

    def call_at(self, at_ms: int, callback: Callable[[], None]) -> ScheduledCall:
        """Call back once the clock shows this time, never before."""
        ...

    def put_forward(self, at_ms: int) -> None:
        """Never show an earlier time than this from now on."""
        ...


class SystemClock:
    """The machine's time, which never goes back; alarms ring on the running event loop.

    When the machine's own time is put back, this one goes on at its pace until it is overtaken. So
    it does when it is put forward: the machine's time may have been put back while nobody looked.
    """

    def __init__(self) -> None:
        self._anchor_ns = time.time_ns()
        self._anchor_monotonic_ns = time.monotonic_ns()

    def now_ms(self) -> int:
        told_ns, monotonic_ns = time.time_ns(), time.monotonic_ns()
        steady_ns = self._anchor_ns + monotonic_ns - self._anchor_monotonic_ns
        if told_ns > steady_ns:
            self._anchor_ns, self._anchor_monotonic_ns = told_ns, monotonic_ns
            return told_ns // 1_000_000
        return steady_ns // 1_000_000

    def call_at(self, at_ms: int, callback: Callable[[], None]) -> ScheduledCall:
        loop = asyncio.get_running_loop()
        delay_ms = max(0, at_ms - self.now_ms())
        return loop.call_later(delay_ms / 1_000, callback)

    def put_forward(self, at_ms: int) -> None:
        if at_ms > self.now_ms():
            self._anchor_ns, self._anchor_monotonic_ns = at_ms * 1_000_000, time.monotonic_ns()
