"""ManualClock: time moves when told."""

import heapq
from collections.abc import Callable
from itertools import count

NOON_MS = 1_790_000_000_000


class ManualAlarm:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class ManualClock:
    """Shows the same time until it is advanced; alarms on the way ring in order."""

    def __init__(self, now_ms: int = NOON_MS) -> None:
        self._now_ms = now_ms
        self._order = count()
        self._alarms: list[tuple[int, int, ManualAlarm]] = []

    def now_ms(self) -> int:
        return self._now_ms

    def call_at(self, at_ms: int, callback: Callable[[], None]) -> ManualAlarm:
        alarm = ManualAlarm(callback)
        heapq.heappush(self._alarms, (at_ms, next(self._order), alarm))
        return alarm

    def advance(self, by_ms: int) -> None:
        until_ms = self._now_ms + by_ms
        while self._alarms and self._alarms[0][0] <= until_ms:
            at_ms, _, alarm = heapq.heappop(self._alarms)
            self._now_ms = max(self._now_ms, at_ms)
            if alarm.callback is not None:
                alarm.callback()
        self._now_ms = until_ms

    def put_forward(self, at_ms: int) -> None:
        """Show this time at once, unless it is past already; alarms on the way ring."""
        self.advance(max(0, at_ms - self._now_ms))

    def set_back(self, by_ms: int) -> None:
        """A clock that was put right: the time goes back, alarms ring when it comes again."""
        self._now_ms -= by_ms

    def leap(self, by_ms: int) -> None:
        """Be so much later at once: the alarms on the way all ring then, and a year costs no more
        than a second.
        """
        self._now_ms += by_ms
        self.advance(0)
