"""The Clock protocol, and the system clock."""

import asyncio
import time
from collections.abc import Callable
from typing import Protocol


class Alarm(Protocol):
    """A call that is set for later and can be called off."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        ...

    def call_at(self, at_ms: int, callback: Callable[[], None]) -> Alarm:
        """Call back once the clock shows this time, never before."""
        ...


class SystemClock:
    """The machine's time; alarms ring on the running event loop."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def call_at(self, at_ms: int, callback: Callable[[], None]) -> Alarm:
        loop = asyncio.get_running_loop()
        delay_ms = max(0, at_ms - self.now_ms())
        return loop.call_later(delay_ms / 1_000, callback)
