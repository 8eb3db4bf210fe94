"""An event loop on virtual time, and clocks that run on it.

    something is ready   ──▸ it runs, and the time stands still
    nothing is ready     ──▸ the time is now that of the next timer
    nothing ever will be ──▸ Stuck

Sleeps, timeouts and timers of asyncio all go by the loop's time, so a day of sleeping costs
nothing, and the same calls happen in the same order at every run.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from flo.testing.clock import NOON_MS

T = TypeVar("T")


class Stuck(RuntimeError):
    """Everybody waits, and nobody for the time."""


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._virtual = _VirtualSelector()
        super().__init__(self._virtual)

        self.set_default_executor(_AtOnce())

    def time(self) -> float:
        return self._virtual.now_s

    async def shutdown_default_executor(self) -> None:
        """It has no thread to wait for; waiting in another one would be found stuck."""


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """Like asyncio.run, on virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


class WallTime:
    """What a machine on a running loop takes for the time; it can be put forward or back."""

    def __init__(self, now_ms: int = NOON_MS) -> None:
        self._loop = asyncio.get_running_loop()
        self.ahead_ms = now_ms - self.elapsed_ms()
        """By how much it is ahead of the time that has elapsed."""

    def now_ms(self) -> int:
        return self.elapsed_ms() + self.ahead_ms

    def put(self, by_ms: int) -> None:
        """Put it forward, or back if `by_ms` is negative."""
        self.ahead_ms += by_ms

    def elapsed_ms(self) -> int:
        return round(self._loop.time() * 1_000_000) // 1_000  # a float may fall just short of it


class LoopClock:
    """The Clock of a process on such a machine, with the manners of the system's.

    It follows the wall time forward but never back, and its alarms go by elapsed time.
    """

    def __init__(self, wall: WallTime | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._wall = wall or WallTime()
        self._ahead_ms = self._wall.ahead_ms

    def now_ms(self) -> int:
        self._ahead_ms = max(self._ahead_ms, self._wall.ahead_ms)
        return self._wall.elapsed_ms() + self._ahead_ms

    def call_at(self, at_ms: int, callback: Callable[[], None]) -> asyncio.TimerHandle:
        return self._loop.call_later(max(0, at_ms - self.now_ms()) / 1_000, callback)

    def put_forward(self, at_ms: int) -> None:
        self._ahead_ms = max(self._ahead_ms, at_ms - self._wall.elapsed_ms())


class _AtOnce(ThreadPoolExecutor):
    """What is given to a thread is done on the spot: no other order can be repeated."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> "Future[T]":
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class _VirtualSelector(selectors.SelectSelector):
    """Looks at no file: where a loop would block, the time is moved on instead."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise Stuck("expected a timer or something ready to run, got neither")
        self.now_s += max(0.0, timeout)
        return []
