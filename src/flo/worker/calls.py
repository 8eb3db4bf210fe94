"""Calls of handlers while they run: any number at a time, each with its end.

    begin ──▸ handler runs ──▸ settle
                  │
                  └── its time is over, or nobody wants the result ──▸ stop it

Stopping is asking: an async handler is cancelled, a sync one sees it in its context. Whoever has
not ended after a grace period is cancelled again and named in the log, and keeps its slot.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from math import inf
from typing import Any, Generic, Protocol, TypeVar

from flo.client.session.deadlines import DeadlineTimer
from flo.worker.handler import BoundHandler
from flo.worker.threads import Threads
from flo.worker.watchdog import Running, Subject

_logger = logging.getLogger("flo.worker")


class Stoppable(Protocol):
    """What every context knows."""

    cancelled: bool


S = TypeVar("S", bound=Subject)
C = TypeVar("C", bound=Stoppable)
R = TypeVar("R")


class Performance(Generic[S, C]):
    """A task, or a record, while its handler runs.

    `is_in_loop` says that the handler runs in the event loop, and not in a thread.
    """

    __slots__ = (
        "context",
        "ends_at_s",
        "extend_ms",
        "is_in_loop",
        "runner",
        "task",
        "touch_at_s",
    )

    def __init__(self, task: S, context: C) -> None:
        self.task = task
        self.context = context
        self.runner: asyncio.Task[None] | None = None
        self.is_in_loop = False
        self.ends_at_s = inf
        self.touch_at_s = inf
        self.extend_ms = 0

    @property
    def is_stopped(self) -> bool:
        """Whether its result no longer counts."""
        return self.context.cancelled

    def enter_loop(self) -> None:
        """From now on, the handler runs in the loop, and can be cancelled there."""
        self.is_in_loop = True
        if self.is_stopped:  # while it was in a thread
            self.stop()

    def stop(self) -> None:
        """Stop the handler as far as one can: a thread goes on until it looks at its context."""
        self.context.cancelled = True
        if self.runner is not None and self.is_in_loop:
            self.runner.cancel()


class Calls(Generic[S, C]):
    """What every performer shares; `_overdue` and `_touch_due` are its own."""

    def __init__(self, *, timeout_s: float, cancel_grace_s: float) -> None:
        self._timeout_s = timeout_s
        self._cancel_grace_s = cancel_grace_s
        self._threads = Threads("flo-handler")
        self._alarm = DeadlineTimer(self._look_after)
        self._running: set[Performance[S, C]] = set()
        self._asides: set[asyncio.Task[None]] = set()

    def running(self) -> Running:
        """What the handlers work on, each with what runs it; may be asked from any thread."""
        return [(performance.task, performance.runner) for performance in tuple(self._running)]

    def stop(self) -> None:
        self._alarm.clear()
        for performance in self._running:
            performance.context.cancelled = True
        self._threads.stop()
        for aside in self._asides:
            aside.cancel()

    def _overdue(self, performance: Performance[S, C]) -> None:
        """Its time is over."""
        raise NotImplementedError

    def _touch_due(self, performance: Performance[S, C], now_s: float) -> None:
        """Its `touch_at_s` has come."""
        raise NotImplementedError

    def _watch_over(self, performance: Performance[S, C]) -> None:
        """From now on it can be stopped, and its time is running."""
        performance.ends_at_s = asyncio.get_running_loop().time() + self._timeout_s
        self._running.add(performance)
        self._alarm.set(min(performance.ends_at_s, performance.touch_at_s))

    async def _call(
        self,
        handler: BoundHandler,
        performance: Performance[S, C],
        returned: Callable[[Any], R],
        raised: Callable[[BaseException], R],
    ) -> R:
        """Call the handler, and say what came of it: of its value, or of whatever it raised."""
        runner = performance.runner
        assert runner is not None
        try:
            if handler.is_async:
                doing = handler.call(performance.context)
            else:
                call = partial(_call_in_thread, handler, performance.context, returned, raised)
                came = await self._threads.run(call)
                if isinstance(came, _Ended):
                    return came.result
                doing = came
            performance.enter_loop()
            return returned(await doing)
        except asyncio.CancelledError as error:
            if performance.is_stopped or not runner.cancelling():
                return raised(error)
            raise
        except (Exception, SystemExit) as error:  # whatever a handler raises is an outcome
            return raised(error)

    def _look_after(self) -> float:
        """End what runs over its time, extend the leases of the rest; when to look again."""
        now_s = asyncio.get_running_loop().time()
        next_s = inf
        for performance in tuple(self._running):
            if performance.is_stopped:
                if performance.ends_at_s <= now_s:
                    self._insist(performance)
                next_s = min(next_s, performance.ends_at_s)
                continue
            if performance.ends_at_s <= now_s:
                self._overdue(performance)
                continue
            if performance.touch_at_s <= now_s:
                self._touch_due(performance, now_s)
            next_s = min(next_s, performance.ends_at_s, performance.touch_at_s)
        return next_s

    def _stop(self, performance: Performance[S, C]) -> None:
        """Ask the handler to end, and look after a while whether it has."""
        performance.stop()
        performance.ends_at_s = asyncio.get_running_loop().time() + self._cancel_grace_s
        self._alarm.set(performance.ends_at_s)

    def _insist(self, performance: Performance[S, C]) -> None:
        task_id = performance.task.task_id
        _logger.warning("task %s: its handler has been told to end, and runs on", task_id)
        performance.stop()
        performance.ends_at_s = inf

    def _aside(self, coroutine: Coroutine[Any, Any, None]) -> None:
        aside = asyncio.get_running_loop().create_task(coroutine)
        self._asides.add(aside)
        aside.add_done_callback(self._asides.discard)


class _Ended(Generic[R]):
    """What came of a handler that has returned or raised in its thread."""

    def __init__(self, result: R) -> None:
        self.result = result


def _call_in_thread(
    handler: BoundHandler,
    context: Any,
    returned: Callable[[Any], R],
    raised: Callable[[BaseException], R],
) -> "_Ended[R] | Awaitable[Any]":
    """What came of it, or what is still to be awaited for it."""
    try:
        value = handler.call(context)
        return value if inspect.isawaitable(value) else _Ended(returned(value))
    except BaseException as error:  # whatever a handler raises is an outcome
        return _Ended(raised(error))
