"""One task from assignment to report.

    begin ──▸ handler runs ──▸ report
                  │
                  ├── its time is over, the worker must leave ──▸ report at once, stop it
                  └── the run was cancelled, the lease is lost ──▸ stop it, report nothing

Stopping is asking: an async handler is cancelled, a sync one sees it in its context. Whoever has
not ended after a grace period is cancelled again and named in the log, and keeps its slot.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from math import inf
from typing import Any

from flo.client.alarm import Alarm
from flo.client.workers import Workers
from flo.model.errors import Conflict, FloError, Invalid, NotFound, Unavailable
from flo.model.ids import ActionName, Namespace, RunId, WorkerId
from flo.model.runs import Task
from flo.worker.context import ActionContext
from flo.worker.handler import BoundHandler
from flo.worker.outcome import Done, GiveUp, Outcome, TryAgain, outcome_of, outcome_of_error
from flo.worker.threads import Threads

EXTEND_MS_MAX = 3_600_000
REPORT_AGAIN_S = 1.0

_logger = logging.getLogger("flo.worker")


class Performance:
    """A task while its handler runs.

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

    def __init__(self, task: Task, context: ActionContext) -> None:
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


class Performer:
    """Performs any number of tasks at a time.

    `leases_ms` says how long the lease of an action's tasks is; it is extended while the handler
    runs, unless `auto_touch` is off.
    """

    def __init__(
        self,
        workers: Workers,
        worker_id: WorkerId,
        namespace: Namespace,
        handlers: Mapping[ActionName, BoundHandler],
        leases_ms: Mapping[ActionName, int],
        *,
        action_timeout_s: float,
        cancel_grace_s: float,
        auto_touch: bool,
    ) -> None:
        self._workers = workers
        self._worker_id = worker_id
        self._namespace = namespace
        self._handlers = handlers
        self._leases_ms = leases_ms
        self._action_timeout_s = action_timeout_s
        self._cancel_grace_s = cancel_grace_s
        self._auto_touch = auto_touch
        self._threads = Threads("flo-handler")
        self._alarm = Alarm(self._look_after)
        self._running: set[Performance] = set()
        self._asides: set[asyncio.Task[None]] = set()

    def perform(self, task: Task, release: Callable[[], None]) -> Coroutine[Any, Any, None]:
        """Call the handler, `release` its slot, and report; it can be cancelled from now on."""
        return self._perform(self._begin(task), release)

    def cancel(self, run_id: RunId) -> None:
        """The run was cancelled: stop its handler, if it runs here. Nobody waits for a report."""
        for performance in tuple(self._running):
            if performance.task.task_id == run_id and not performance.is_stopped:
                _logger.info("task %s is cancelled", run_id)
                self._stop(performance)

    def running(self) -> list[tuple[Task, asyncio.Task[None] | None]]:
        """The tasks whose handlers run, each with what runs it; may be asked from any thread."""
        return [(performance.task, performance.runner) for performance in tuple(self._running)]

    async def give_up_all(self, reason: str) -> None:
        """Report whatever still runs as failed, and stop it."""
        for performance in tuple(self._running):
            self._give_up(performance, reason)
        if self._asides:
            await asyncio.wait(self._asides)

    def stop(self) -> None:
        self._alarm.clear()
        for performance in self._running:
            performance.context.cancelled = True
        self._threads.stop()
        for aside in self._asides:
            aside.cancel()

    def _begin(self, task: Task) -> Performance:
        context = ActionContext(task, self._namespace, self._worker_id, self._workers)
        performance = Performance(task, context)
        now_s = asyncio.get_running_loop().time()
        performance.ends_at_s = now_s + self._action_timeout_s
        lease_ms = self._leases_ms.get(task.task_type, 0)
        if self._auto_touch and lease_ms:
            performance.extend_ms = min(lease_ms, EXTEND_MS_MAX)
            performance.touch_at_s = now_s + (lease_ms - performance.extend_ms * 2 / 3) / 1_000
        self._running.add(performance)
        self._alarm.set(min(performance.ends_at_s, performance.touch_at_s))
        return performance

    async def _perform(self, performance: Performance, release: Callable[[], None]) -> None:
        runner = performance.runner = asyncio.current_task()
        assert runner is not None
        try:
            if performance.is_stopped:  # before it could begin
                return
            outcome = await self._call_handler(performance, runner)
        finally:
            self._running.discard(performance)
            release()
        if not performance.is_stopped:
            await self._report(performance.task, outcome)

    async def _call_handler(self, performance: Performance, runner: asyncio.Task[None]) -> Outcome:
        handler = self._handlers[performance.task.task_type]
        try:
            if handler.is_async:
                doing = handler.call(performance.context)
            else:
                doing = await self._threads.run(partial(_call, handler, performance.context))
                if isinstance(doing, Done | TryAgain | GiveUp):
                    return doing
            performance.enter_loop()
            return outcome_of(await doing)
        except asyncio.CancelledError as error:
            if performance.is_stopped or not runner.cancelling():
                return outcome_of_error(error)
            raise
        except (Exception, SystemExit) as error:  # whatever a handler raises is an outcome
            return outcome_of_error(error)

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
                reason = f"the handler ran over its action_timeout of {self._action_timeout_s:g} s"
                self._give_up(performance, reason)
                continue
            if performance.touch_at_s <= now_s:
                self._aside(self._touch(performance))
                performance.touch_at_s = now_s + performance.extend_ms / 3_000
            next_s = min(next_s, performance.ends_at_s, performance.touch_at_s)
        return next_s

    def _give_up(self, performance: Performance, reason: str) -> None:
        """Report at once, whether or not the handler can be stopped."""
        if not performance.is_stopped:
            self._stop(performance)
            self._aside(self._report(performance.task, GiveUp(reason)))

    def _stop(self, performance: Performance) -> None:
        """Ask the handler to end, and look after a while whether it has."""
        performance.stop()
        performance.ends_at_s = asyncio.get_running_loop().time() + self._cancel_grace_s
        self._alarm.set(performance.ends_at_s)

    def _insist(self, performance: Performance) -> None:
        task = performance.task
        _logger.warning("task %s: its handler has been told to end, and runs on", task.task_id)
        performance.stop()
        performance.ends_at_s = inf

    async def _touch(self, performance: Performance) -> None:
        try:
            await performance.context.touch(performance.extend_ms)
        except (Conflict, NotFound) as refusal:
            if performance in self._running:
                _logger.warning("task %s is lost: %s", performance.task.task_id, refusal)
                self._stop(performance)
        except FloError as error:
            _logger.warning("task %s: no lease extension: %s", performance.task.task_id, error)

    async def _report(self, task: Task, outcome: Outcome) -> None:
        """Tell the server, for as long as the lease may last if it cannot be told at once."""
        loop = asyncio.get_running_loop()
        lease_ms = self._leases_ms.get(task.task_type, 0)
        give_up_at_s = loop.time() + lease_ms / 1_000 if lease_ms else inf
        while True:
            try:
                await self._tell(task, outcome)
            except Unavailable as error:
                _logger.warning("task %s: no report: %s", task.task_id, error)
            except FloError as refusal:
                _logger.warning("task %s: the report was refused: %s", task.task_id, refusal)
                if not (isinstance(outcome, Done) and isinstance(refusal, Invalid)):
                    return
                outcome = GiveUp(f"the result was refused: {refusal.message}")
                continue
            else:
                return
            if loop.time() >= give_up_at_s:
                return
            await asyncio.sleep(REPORT_AGAIN_S)

    def _tell(self, task: Task, outcome: Outcome) -> Awaitable[object]:
        run_id, worker_id, attempt = task.task_id, self._worker_id, task.attempt
        match outcome:
            case Done(output=output, outcome=name):
                return self._workers.complete(
                    run_id, worker_id, output, attempt=attempt, outcome=name
                )
            case TryAgain(error=error):
                return self._workers.fail(run_id, worker_id, error, attempt=attempt, retry=True)
            case GiveUp(error=error, dead_letter=dead_letter):
                return self._workers.fail(
                    run_id, worker_id, error, attempt=attempt, dead_letter=dead_letter
                )

    def _aside(self, coroutine: Any) -> None:
        aside = asyncio.get_running_loop().create_task(coroutine)
        self._asides.add(aside)
        aside.add_done_callback(self._asides.discard)


def _call(handler: BoundHandler, context: ActionContext) -> Outcome | Awaitable[Any]:
    """In a thread: the outcome, or what is still to be awaited for it."""
    try:
        value = handler.call(context)
        return value if inspect.isawaitable(value) else outcome_of(value)
    except BaseException as error:  # whatever a handler raises is an outcome
        return outcome_of_error(error)
