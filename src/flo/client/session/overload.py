"""Calls that an overloaded server has refused: they are sent again, later and not all at once.

The server has not begun with a call that it refuses so: it may be sent again, whatever it asks. It
is, after the time that the server has named, and longer with every refusal; up to its deadline.
"""

import asyncio
from collections.abc import Callable

from flo.client.session.outbox import PendingCall
from flo.model.errors import Overloaded

DELAY_S_MAX = 5.0


class PutOffCalls:
    """`send_again` is given calls whose time has come."""

    def __init__(
        self, send_again: Callable[[list[PendingCall]], None], rng: Callable[[], float]
    ) -> None:
        self._send_again = send_again
        self._rng = rng
        self._put_off: dict[int, tuple[asyncio.TimerHandle, list[PendingCall]]] = {}
        self._last_number = 0

    def put_off(self, calls: list[PendingCall], error: Overloaded) -> None:
        """Send these later; those whose deadline is before that are refused now."""
        loop = asyncio.get_running_loop()
        delay_s = self._delay_s(error, max(call.refusals for call in calls))
        waiting = []
        for call in calls:
            call.refusals += 1
            if loop.time() + delay_s < call.deadline_s:
                waiting.append(call)
            else:
                call.refuse(Overloaded(error.message, code=error.code, details=error.details))
        if waiting:
            self._last_number = number = self._last_number + 1
            self._put_off[number] = loop.call_later(delay_s, self._is_time, number), waiting

    def send_now(self) -> None:
        """Wait no longer."""
        for timer, calls in self._put_off.values():
            timer.cancel()
            self._send_again(calls)
        self._put_off.clear()

    def _is_time(self, number: int) -> None:
        _, calls = self._put_off.pop(number)
        self._send_again(calls)

    def _delay_s(self, error: Overloaded, refusals: int) -> float:
        """At least what the server says; jitter spreads many clients over as long again."""
        least = error.retry_after_ms / 1_000 * 2.0 ** min(refusals, 16)
        return max(min(least, DELAY_S_MAX), error.retry_after_ms / 1_000) * (1 + self._rng())
