"""An event loop on virtual time, and a Clock that runs on it.

    something is ready   ──▸ it runs, and the time stands still
    nothing is ready     ──▸ the time is now that of the next timer
    nothing ever will be ──▸ Stuck

Sleeps, timeouts and timers of asyncio all go by the loop's time, so a day of sleeping costs
nothing, and the same calls happen in the same order at every run.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from flo.testing.clock import NOON_MS

T = TypeVar("T")


class Stuck(RuntimeError):
    """Everybody waits, and nobody for the time."""


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._virtual = _VirtualSelector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now_s


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """Like asyncio.run, on virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


class LoopClock:
    """A Clock by the running loop's time; like a machine's, it can be put forward or back.

    Alarms go by elapsed time, as the system clock's do: putting the clock moves none of them.
    """

    def __init__(self, now_ms: int = NOON_MS) -> None:
        self._loop = asyncio.get_running_loop()
        self._ahead_ms = now_ms - self._elapsed_ms()
        self._latest_ms = now_ms
        self.put_ms = 0
        """By how much the clock has been put, forward and back taken together."""

    def now_ms(self) -> int:
        now_ms = self._elapsed_ms() + self._ahead_ms
        self._latest_ms = max(self._latest_ms, now_ms)
        return now_ms

    def latest_ms(self) -> int:
        """The latest time it has ever shown."""
        return max(self._latest_ms, self.now_ms())

    def call_at(self, at_ms: int, callback: Callable[[], None]) -> asyncio.TimerHandle:
        return self._loop.call_later(max(0, at_ms - self.now_ms()) / 1_000, callback)

    def put(self, by_ms: int) -> None:
        """Put the clock forward, or back if `by_ms` is negative."""
        self.now_ms()
        self._ahead_ms += by_ms
        self.put_ms += abs(by_ms)

    def _elapsed_ms(self) -> int:
        return round(self._loop.time() * 1_000_000) // 1_000  # a float may fall just short of it


class _VirtualSelector(selectors.SelectSelector):
    """Looks at no file: where a loop would block, the time is moved on instead."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def select(
        self, timeout: float | None = None
    ) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise Stuck("expected a timer or something ready to run, got neither")
        self.now_s += max(0.0, timeout)
        return []
