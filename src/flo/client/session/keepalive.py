"""Asks a silent server for a sign of life while answers are awaited.

    nothing received for a while ──▸ ping ──▸ anything at all is received ──▸ all is well
                                      └────▸ still nothing ──▸ silent: another connection is tried

A connection can be dead although nobody has closed it: the way to the server may be cut.
"""

import asyncio
from collections.abc import Callable
from math import inf
from typing import NamedTuple


class PingPolicy(NamedTuple):
    """How often to ping, and how long the answer may take; never, if `interval_s` is infinite."""

    interval_s: float = 1.0
    silence_s_max: float = 4.0
    dead_after_ms: int = 15_000
    """When the server may take a worker for dead from which nothing comes; 0 is never."""


NO_PINGS = PingPolicy(interval_s=inf, dead_after_ms=0)


class Keepalive:
    """`is_awaiting` says whether any answer is awaited; `on_silent` is called again and again."""

    def __init__(
        self,
        policy: PingPolicy,
        is_awaiting: Callable[[], bool],
        ping: Callable[[], None],
        on_silent: Callable[[], None],
    ) -> None:
        self._policy = policy
        self._is_awaiting = is_awaiting
        self._ping = ping
        self._on_silent = on_silent
        self._timer: asyncio.TimerHandle | None = None
        self._due_s = 0.0
        self._silent_since_s: float | None = None
        """When it was first pinged since something was received."""

    @property
    def is_silent(self) -> bool:
        """Whether it was pinged, and nothing has been received since."""
        return self._silent_since_s is not None

    def start(self) -> None:
        if self._policy.interval_s < inf:
            loop = asyncio.get_running_loop()
            self._due_s = loop.time() + self._policy.interval_s
            self._timer = loop.call_at(self._due_s, self._check)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def received(self) -> None:
        self._silent_since_s = None

    def _check(self) -> None:
        now_s = asyncio.get_running_loop().time()
        if now_s - self._due_s > self._policy.interval_s:
            self._silent_since_s = None  # this loop was blocked, and could not read
        if not self._is_awaiting():
            self._silent_since_s = None
        elif self._silent_since_s is None:
            self._silent_since_s = now_s
            self._ping()
        elif now_s - self._silent_since_s >= self._policy.silence_s_max:
            self._on_silent()
        self.start()
