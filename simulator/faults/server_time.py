"""What the servers of a simulation take for the time, and what excuses them for being late."""

import asyncio

from simulator.faults.loop import LoopClock, WallTime


class ServerTime:
    def __init__(self) -> None:
        self.wall = WallTime()
        self._clock = LoopClock(self.wall)
        self._latest_ms = 0
        self.set_back_ms = 0
        """By how much, all in all, servers came up with an earlier time than those before."""
        self._loop = asyncio.get_running_loop()
        self._down_s = 0.0
        self._down_since_s: float | None = self._loop.time()
        self._up_since_s = self._loop.time()

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def latest_ms(self) -> int:
        """The latest that any server has ever taken for the time."""
        return max(self._latest_ms, self._clock.now_ms())

    def up(self) -> LoopClock:
        """A server comes up, with a clock of its own."""
        self._latest_ms = self.latest_ms()
        clock = LoopClock(self.wall)
        self.set_back_ms += max(0, self._clock.now_ms() - clock.now_ms())
        self._clock = clock
        self._down_s = self._down_so_far_s()
        self._down_since_s = None
        self._up_since_s = self._loop.time()
        return self._clock

    def down(self) -> None:
        if self._down_since_s is None:
            self._down_since_s = self._loop.time()

    def up_since_s(self) -> float | None:
        """Since when the server is up; None if it is not."""
        return self._up_since_s if self._down_since_s is None else None

    def excuses_s(self) -> float:
        """For how long, all in all, timers could not go off, or were put off with the time."""
        return self._down_so_far_s() + self.set_back_ms / 1_000

    def _down_so_far_s(self) -> float:
        since_s = self._down_since_s
        return self._down_s + (self._loop.time() - since_s if since_s is not None else 0.0)
