"""Runs the handler for records: from the delivery of each to its ack or nack.

    begin ──▸ handler runs ──▸ ended: returned, or failed with an error
                  │
                  ├── its time is over, the worker must leave ──▸ failed at once, stop it
                  └── another consumer has the record ──▸ stop it, and that is all

How handlers are called and stopped is in worker/runner.py.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from flo.worker.handler import BoundHandler
from flo.worker.runner import HandlerCall, HandlerRunner
from flo.worker.streams.context import RecordPosition, StreamContext
from flo.worker.streams.held import HeldRecord

_logger = logging.getLogger("flo.worker")

OnEnded: TypeAlias = Callable[[HeldRecord, BaseException | None], None]


class RecordRunner(HandlerRunner[HeldRecord, StreamContext]):
    """`on_ended` is called once for every record that was begun and not lost."""

    def __init__(
        self,
        handler: BoundHandler,
        position: RecordPosition,
        on_ended: OnEnded,
        *,
        message_timeout_s: float,
        cancel_grace_s: float,
    ) -> None:
        super().__init__(timeout_s=message_timeout_s, cancel_grace_s=cancel_grace_s)
        self._handler = handler
        self._position = position
        self._on_ended = on_ended

    def run(self, held: HeldRecord, release: Callable[[], None]) -> Coroutine[Any, Any, None]:
        """Call the handler, and `release` its slot; it can be stopped from now on."""
        context = StreamContext(held.record, held.deliveries, self._position)
        call = HandlerCall(held, context)
        self._track(call)
        return self._run(call, release)

    def lose(self, held: HeldRecord) -> None:
        """Another consumer has the record: stop its handler, if it runs."""
        for call in tuple(self._running):
            if call.task is held and not call.is_stopped:
                self._stop(call)

    def give_up_all(self, reason: str) -> None:
        for call in tuple(self._running):
            self._give_up(call, reason)

    async def _run(
        self, call: HandlerCall[HeldRecord, StreamContext], release: Callable[[], None]
    ) -> None:
        call.asyncio_task = asyncio.current_task()
        try:
            if call.is_stopped:  # before it could begin
                return
            error = await self._call(self._handler, call, _no_error, _the_error)
            if not call.is_stopped:
                self._on_ended(call.task, error)
            elif not call.is_in_loop and error is None:
                _logger.warning(
                    "record %s: its handler returned too late, and that counts for nothing",
                    call.task.task_id,
                )
        finally:
            self._ended(call)
            release()

    def _overdue(self, call: HandlerCall[HeldRecord, StreamContext]) -> None:
        self._give_up(call, f"the handler ran over its message_timeout of {self._timeout_s:g} s")

    def _give_up(self, call: HandlerCall[HeldRecord, StreamContext], reason: str) -> None:
        """The record has failed at once, whether or not the handler can be stopped."""
        if not call.is_stopped:
            self._stop(call)
            self._on_ended(call.task, TimeoutError(reason))


def _no_error(returned: object) -> BaseException | None:
    return None


def _the_error(raised: BaseException) -> BaseException | None:
    return raised
