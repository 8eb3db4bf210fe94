"""Runs handlers, any number at a time, each for as long as it may take.

    begin ──▸ handler runs ──▸ report
                  │
                  └── its time is over, or the result no longer counts ──▸ stop it

An async handler is stopped by cancelling it; a sync one sees `cancelled` in its context. One that
has not ended after a grace period is cancelled again and named in the log, and keeps its slot: it
is abandoned.

Every way out of a handler is a report: also what is no Exception, such as KeyboardInterrupt.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from math import inf
from typing import Any, Generic, TypeVar

from flo.aio.deadlines import DeadlineTimer
from flo.model.ids import DURATION_MS_MAX
from flo.worker.context import BaseContext
from flo.worker.handler import BoundHandler
from flo.worker.threads import Threads
from flo.worker.watchdog import Running, Subject

_logger = logging.getLogger("flo.worker")


S = TypeVar("S", bound=Subject)
C = TypeVar("C", bound=BaseContext)
R = TypeVar("R")


class HandlerCall(Generic[S, C]):
    """One call of a handler: for a task, or for a record.

    `is_in_loop` says that the handler runs in the event loop, and not in a thread.
    """

    __slots__ = (
        "asyncio_task",
        "began_at_s",
        "context",
        "ended_at_s",
        "ends_at_s",
        "extend_ms",
        "is_in_loop",
        "received_at_s",
        "task",
        "touch_at_s",
    )

    def __init__(self, task: S, context: C) -> None:
        self.task = task
        self.context = context
        self.asyncio_task: asyncio.Task[None] | None = None
        self.is_in_loop = False
        self.received_at_s = self.began_at_s = self.ended_at_s = inf
        self.ends_at_s = inf
        self.touch_at_s = inf
        self.extend_ms = 0

    @property
    def is_stopped(self) -> bool:
        """Whether its result no longer counts."""
        return self.context.cancelled

    @property
    def deadline_s(self) -> float:
        """When its time is over: that of the worker, or that of its lease."""
        return min(self.ends_at_s, self.context.lease_ends_at_s)

    def spent_ms(self, now_s: float) -> tuple[int, int]:
        """How long it has been executed, and how long it was held before that."""
        began_at_s = min(self.began_at_s, now_s)
        took_s = min(self.ended_at_s, now_s) - began_at_s
        held_s = began_at_s - self.received_at_s
        return _milliseconds(took_s), _milliseconds(held_s)

    def enter_loop(self) -> None:
        """From now on, the handler runs in the loop, and can be cancelled there."""
        self.is_in_loop = True
        if self.is_stopped:  # while it was in a thread
            self.stop()

    def stop(self) -> None:
        """Stop the handler as far as one can: a thread goes on until it looks at its context."""
        self.context.cancelled = True
        if self.asyncio_task is not None and self.is_in_loop:
            self.asyncio_task.cancel()


class HandlerRunner(Generic[S, C]):
    """What the runners of tasks and of records share; they define `_overdue` and `_touch_due`."""

    def __init__(self, *, timeout_s: float, cancel_grace_s: float) -> None:
        self._timeout_s = timeout_s
        self._cancel_grace_s = cancel_grace_s
        self._threads = Threads("flo-handler")
        self._timer = DeadlineTimer(self._check_deadlines)
        self._running: set[HandlerCall[S, C]] = set()
        self._abandoned: dict[HandlerCall[S, C], None] = {}
        self.taker: asyncio.Task[None] | None = None
        """Who takes the work; when that has ended, handlers are cancelled without a report."""
        self.on_abandoned: Callable[[], None] = _nothing
        """Called whenever `abandoned` has changed."""
        self._background: set[asyncio.Task[None]] = set()

    def running(self) -> Running:
        """What the handlers work on, each with its asyncio task; may be called from any thread."""
        return [(call.task, call.asyncio_task) for call in tuple(self._running)]

    def abandoned(self) -> list[S]:
        """What those handlers work on that were told to stop, and have not in time."""
        return [call.task for call in self._abandoned]

    def stop(self) -> None:
        self._timer.clear()
        for call in self._running:
            call.context.cancelled = True
        self._threads.stop()
        for background in self._background:
            background.cancel()

    def _overdue(self, call: HandlerCall[S, C]) -> None:
        """Its time is over."""
        raise NotImplementedError

    def _touch_due(self, call: HandlerCall[S, C], now_s: float) -> None:
        """Its `touch_at_s` has come."""
        raise NotImplementedError

    def _track(self, call: HandlerCall[S, C]) -> None:
        """From now on it can be stopped, and its time is running."""
        call.received_at_s = asyncio.get_running_loop().time()
        call.ends_at_s = call.received_at_s + self._timeout_s
        self._running.add(call)
        self._timer.set(min(call.deadline_s, call.touch_at_s))

    async def _call(
        self,
        handler: BoundHandler,
        call: HandlerCall[S, C],
        returned: Callable[[Any], R],
        raised: Callable[[BaseException], R],
    ) -> R:
        """Call the handler; what `returned` makes of its value, or `raised` of its error."""
        asyncio_task = call.asyncio_task
        assert asyncio_task is not None
        clock = asyncio.get_running_loop().time
        try:
            if handler.is_async:
                call.began_at_s = clock()
                doing = handler.call(call.context)
            else:
                job = partial(_call_in_thread, handler, call, clock, returned, raised)
                in_thread = await self._threads.run(job)
                if isinstance(in_thread, _Ended):
                    return in_thread.result
                doing = in_thread
            call.enter_loop()
            return returned(await doing)
        except asyncio.CancelledError as error:
            if asyncio_task.cancelling() and not call.is_stopped and self._is_leaving():
                raise
            return raised(error)
        except BaseException as error:  # whatever a handler raises is an outcome
            if isinstance(error, GeneratorExit) and not _is_current(asyncio_task):
                raise  # nobody raised it: this coroutine is closed, with its loop
            return raised(error)
        finally:
            call.ended_at_s = min(call.ended_at_s, clock())

    def _check_deadlines(self) -> float:
        """Stop handlers that are overdue, extend the leases of the rest; when to check again."""
        now_s = asyncio.get_running_loop().time()
        next_s = inf
        for call in tuple(self._running):
            if call.is_stopped:
                if call.ends_at_s <= now_s:
                    self._stop_again(call)
                next_s = min(next_s, call.ends_at_s)
                continue
            if call.deadline_s <= now_s:
                self._overdue(call)
                continue
            if call.touch_at_s <= now_s:
                self._touch_due(call, now_s)
            next_s = min(next_s, call.deadline_s, call.touch_at_s)
        return next_s

    def _stop(self, call: HandlerCall[S, C]) -> None:
        """Tell the handler to stop, and check after the grace period whether it has."""
        call.stop()
        call.ends_at_s = asyncio.get_running_loop().time() + self._cancel_grace_s
        self._timer.set(call.ends_at_s)

    def _stop_again(self, call: HandlerCall[S, C]) -> None:
        task_id = call.task.task_id
        _logger.warning("task %s: its handler was told to stop, and still runs", task_id)
        call.stop()
        call.ends_at_s = inf
        self._abandoned[call] = None
        self.on_abandoned()

    def _ended(self, call: HandlerCall[S, C]) -> None:
        """Its handler runs no more."""
        self._running.discard(call)
        if call in self._abandoned:
            del self._abandoned[call]
            self.on_abandoned()

    def _is_leaving(self) -> bool:
        return self.taker is None or self.taker.done() or self.taker.cancelling() > 0

    def _in_background(self, coroutine: Coroutine[Any, Any, None]) -> None:
        background = asyncio.get_running_loop().create_task(coroutine)
        self._background.add(background)
        background.add_done_callback(self._background.discard)


def _nothing() -> None:
    pass


class _Ended(Generic[R]):
    """The result of a handler that has returned or raised in its thread."""

    def __init__(self, result: R) -> None:
        self.result = result


def _is_current(task: asyncio.Task[None]) -> bool:
    """Whether it is this task that is being executed."""
    try:
        return asyncio.current_task() is task
    except RuntimeError:  # no loop runs
        return False


def _milliseconds(seconds: float) -> int:
    return min(max(round(seconds * 1_000), 0), DURATION_MS_MAX)


def _call_in_thread(
    handler: BoundHandler,
    call: HandlerCall[S, C],
    clock: Callable[[], float],
    returned: Callable[[Any], R],
    raised: Callable[[BaseException], R],
) -> "_Ended[R] | Awaitable[Any]":
    """The result, or what must still be awaited for it."""
    call.began_at_s = clock()
    try:
        value = handler.call(call.context)
        if inspect.isawaitable(value):
            return value
        call.ended_at_s = clock()
        return _Ended(returned(value))
    except BaseException as error:  # whatever a handler raises is an outcome
        call.ended_at_s = clock()
        return _Ended(raised(error))
