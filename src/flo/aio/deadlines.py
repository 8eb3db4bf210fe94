"""One timer for many deadlines."""

import asyncio
from collections.abc import Callable
from math import inf

INTERVAL_S_MIN = 0.01
"""The least time between two checks: many deadlines close together cost one check, not many."""


class DeadlineTimer:
    """Calls `check` no later than the earliest time it was set for.

    `check` handles whatever is due, and returns when it must be called next, or infinity. So a
    deadline costs a comparison when it is set, and nothing when it is met.
    """

    def __init__(self, check: Callable[[], float]) -> None:
        self._check = check
        self._at_s = inf
        self._handle: asyncio.TimerHandle | None = None

    def set(self, at_s: float) -> None:
        if at_s < self._at_s:
            self.clear()
            self._at_s = at_s
            self._handle = asyncio.get_running_loop().call_at(at_s, self._fire)

    def clear(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._handle = None
        self._at_s = inf

    def _fire(self) -> None:
        self.clear()
        at_s = self._check()
        if at_s < inf:
            self.set(max(at_s, asyncio.get_running_loop().time() + INTERVAL_S_MIN))
