"""What comes in one turn of the loop goes on together."""

import asyncio
from collections.abc import Callable


class Flush:
    """Calls `flush` once for all who ask for it in one turn, or within `delay_s`.

    What is to be flushed is the owner's to keep: a queue, a list, a dict.
    """

    __slots__ = ("_delay_s", "_flush", "_scheduled")

    def __init__(self, flush: Callable[[], None], delay_s: float = 0.0) -> None:
        self._flush = flush
        self._delay_s = delay_s
        self._scheduled: asyncio.Handle | None = None

    def soon(self) -> None:
        if self._scheduled is None:
            loop = asyncio.get_running_loop()
            if self._delay_s:
                self._scheduled = loop.call_later(self._delay_s, self._run)
            else:
                self._scheduled = loop.call_soon(self._run)

    def now(self) -> None:
        """At once, for all who have asked before."""
        if self._scheduled is not None:
            self._scheduled.cancel()
        self._run()

    def _run(self) -> None:
        self._scheduled = None
        self._flush()
