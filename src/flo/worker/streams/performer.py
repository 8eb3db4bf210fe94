"""One record from a group to what came of it.

    begin ──▸ handler runs ──▸ settle: it returned, or why not
                  │
                  ├── its time is over, the worker must leave ──▸ settle at once, stop it
                  └── another consumer has the record ──▸ stop it, settle nothing

How handlers are called and stopped is in worker/calls.py.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from flo.worker.calls import Calls, Performance
from flo.worker.handler import BoundHandler
from flo.worker.streams.context import RecordPosition, StreamContext
from flo.worker.streams.held import HeldRecord

Settle: TypeAlias = Callable[[HeldRecord, BaseException | None], None]


class RecordPerformer(Calls[HeldRecord, StreamContext]):
    """`settle` is told once of every record that was begun and not lost."""

    def __init__(
        self,
        handler: BoundHandler,
        place: RecordPosition,
        settle: Settle,
        *,
        message_timeout_s: float,
        cancel_grace_s: float,
    ) -> None:
        super().__init__(timeout_s=message_timeout_s, cancel_grace_s=cancel_grace_s)
        self._handler = handler
        self._place = place
        self._settle = settle

    def perform(self, held: HeldRecord, release: Callable[[], None]) -> Coroutine[Any, Any, None]:
        """Call the handler, settle, and `release` its slot; it can be stopped from now on."""
        context = StreamContext(held.record, held.deliveries, self._place)
        performance = Performance(held, context)
        self._watch_over(performance)
        return self._perform(performance, release)

    def lose(self, held: HeldRecord) -> None:
        """It is not ours any more: stop its handler, if it runs."""
        for performance in tuple(self._running):
            if performance.task is held and not performance.is_stopped:
                self._stop(performance)

    def give_up_all(self, reason: str) -> None:
        for performance in tuple(self._running):
            self._give_up(performance, reason)

    async def _perform(
        self, performance: Performance[HeldRecord, StreamContext], release: Callable[[], None]
    ) -> None:
        performance.runner = asyncio.current_task()
        try:
            if performance.is_stopped:  # before it could begin
                return
            error = await self._call(self._handler, performance, _nothing_wrong, _as_it_is)
            if not performance.is_stopped:
                self._settle(performance.task, error)
        finally:
            self._running.discard(performance)
            release()

    def _overdue(self, performance: Performance[HeldRecord, StreamContext]) -> None:
        self._give_up(
            performance, f"the handler ran over its message_timeout of {self._timeout_s:g} s"
        )

    def _give_up(self, performance: Performance[HeldRecord, StreamContext], reason: str) -> None:
        """Settle at once, whether or not the handler can be stopped."""
        if not performance.is_stopped:
            self._stop(performance)
            self._settle(performance.task, TimeoutError(reason))


def _nothing_wrong(returned: object) -> BaseException | None:
    return None


def _as_it_is(raised: BaseException) -> BaseException | None:
    return raised
