"""One timer for many deadlines."""

import asyncio
from collections.abc import Callable
from math import inf

REST_S = 0.01
"""The least time between two rings: many deadlines close together cost one ring, not many."""


class DeadlineTimer:
    """Rings no later than the earliest moment it was set for.

    `ring` looks through whatever may be due, and gives back the next moment to ring at, or
    infinity. So a deadline costs a comparison when it is set, and nothing when it is met.
    """

    def __init__(self, ring: Callable[[], float]) -> None:
        self._ring = ring
        self._at_s = inf
        self._handle: asyncio.TimerHandle | None = None

    def set(self, at_s: float) -> None:
        if at_s < self._at_s:
            self.clear()
            self._at_s = at_s
            self._handle = asyncio.get_running_loop().call_at(at_s, self._go_off)

    def clear(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._handle = None
        self._at_s = inf

    def _go_off(self) -> None:
        self.clear()
        at_s = self._ring()
        if at_s < inf:
            self.set(max(at_s, asyncio.get_running_loop().time() + REST_S))
