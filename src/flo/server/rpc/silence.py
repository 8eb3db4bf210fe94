"""Notices a connection on which nothing is heard any more, though nobody has closed it.

A client that pings says so in its hello. The kernel notices a machine that is gone; what stands in
between, a proxy, may keep a connection whose other end is dead.
"""

from collections.abc import Callable

from flo.shard.clock import Clock, ScheduledCall

CHECKS = 3
"""So many checks in a row must have heard nothing."""


class SilenceWatch:
    """`on_dead` is called when nothing was heard for most of `dead_after_ms`, and no later."""

    def __init__(self, clock: Clock, dead_after_ms: int, on_dead: Callable[[], None]) -> None:
        self.was_heard = False
        """Set by whoever hears something."""
        self._clock = clock
        self._interval_ms = max(dead_after_ms // (CHECKS + 1), 1)
        self._on_dead = on_dead
        self._silent_checks = 0
        self._due_ms = 0
        self._alarm: ScheduledCall | None = None

    def start(self) -> None:
        self._due_ms = self._clock.now_ms() + self._interval_ms
        self._alarm = self._clock.call_at(self._due_ms, self._check)

    def stop(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _check(self) -> None:
        is_late = self._clock.now_ms() - self._due_ms > self._interval_ms
        if self.was_heard or is_late:  # this loop stood still, and could not hear
            self._silent_checks = 0
        else:
            self._silent_checks += 1
        self.was_heard = False
        if self._silent_checks < CHECKS:
            self.start()
        else:
            self._alarm = None
            self._on_dead()
