"""Reads less from a connection that goes on sending although it is refused.

A refusal says when to try again. Who does not wait would make the server read, check and refuse all
that it sends, and others would wait for that. So what is refused is read at a bounded rate: while a
connection is ahead of it, nothing is read from it. Who waits as told notices nothing.
"""

from collections.abc import Callable

from flo.shard.clock import Clock, ScheduledCall

LENGTH_PER_MS = 8 * 1024
"""Bytes that are refused."""
REFUSAL_LENGTH = 32 * 1024
"""A refusal costs as much as so many bytes, besides those that are refused."""
FREE_MS = 250
"""So far a connection may be ahead of the rate."""
PAUSE_MS_MAX = 500
"""No longer, since reports of a worker may stand behind what is refused."""


class RefusalPace:
    """`go_on` is called when the connection may be read from again."""

    def __init__(self, clock: Clock, go_on: Callable[[], None]) -> None:
        self._clock = clock
        self._go_on = go_on
        self._even_at_ms = 0
        """When it will no longer be ahead, if nothing more is refused."""
        self._alarm: ScheduledCall | None = None

    @property
    def is_pausing(self) -> bool:
        return self._alarm is not None

    def refused(self, length: int) -> None:
        """So many bytes were read, and refused."""
        now_ms = self._clock.now_ms()
        cost_ms = (length + REFUSAL_LENGTH) // LENGTH_PER_MS
        latest_ms = now_ms + FREE_MS + PAUSE_MS_MAX
        self._even_at_ms = min(max(self._even_at_ms, now_ms) + cost_ms, latest_ms)
        if self._alarm is None and self._even_at_ms - now_ms > FREE_MS:
            self._set_alarm()

    def end(self) -> None:
        """The connection has ended."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _set_alarm(self) -> None:
        self._alarm = self._clock.call_at(self._even_at_ms - FREE_MS, self._look)

    def _look(self) -> None:
        self._alarm = None
        if self._even_at_ms - self._clock.now_ms() > FREE_MS:  # more was refused meanwhile
            self._set_alarm()
        else:
            self._go_on()
