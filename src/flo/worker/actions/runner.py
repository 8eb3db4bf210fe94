"""Runs tasks: from the assignment of each to its report.

    begin ──▸ handler runs ──▸ report
                  │
                  ├── its time is over, the worker must leave ──▸ report at once, stop it;
                  │                                               a result that comes now is dropped
                  └── the run was cancelled, the lease is lost ──▸ stop it, report nothing

How handlers are called and stopped is in worker/runner.py.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from math import inf
from typing import Any, TypeAlias

from flo.client.session.tracing import SWITCH
from flo.client.workers import Workers
from flo.model.errors import TIMEOUT_CODE, Conflict, FloError, Invalid, NotFound, Unavailable
from flo.model.ids import ActionName, Namespace, RunId, WorkerId
from flo.model.runs import TOUCH_MS_MAX, Accepted, Task
from flo.model.views.attempts import AttemptEnd
from flo.model.workers import HeldTask
from flo.worker.actions.attempts import log_end, log_late, log_refused
from flo.worker.actions.context import ActionContext
from flo.worker.actions.tracing import traced
from flo.worker.handler import BoundHandler
from flo.worker.lifecycle import RETRY_S
from flo.worker.logs import log_trouble
from flo.worker.outcome import (
    Done,
    GiveUp,
    Outcome,
    OutOfTime,
    TryAgain,
    outcome_of,
    outcome_of_error,
)
from flo.worker.runner import HandlerCall, HandlerRunner

TaskCall: TypeAlias = HandlerCall[Task, ActionContext]

_logger = logging.getLogger("flo.worker")


class TaskRunner(HandlerRunner[Task, ActionContext]):
    """Runs any number of tasks at a time.

    With `auto_touch`, the lease of a task is extended while its handler runs.
    """

    def __init__(
        self,
        workers: Workers,
        worker_id: WorkerId,
        namespace: Namespace,
        handlers: Mapping[ActionName, BoundHandler],
        *,
        action_timeout_s: float,
        cancel_grace_s: float,
        auto_touch: bool,
    ) -> None:
        super().__init__(timeout_s=action_timeout_s, cancel_grace_s=cancel_grace_s)
        self._workers = workers
        self._worker_id = worker_id
        self._namespace = namespace
        self._handlers = handlers
        self._auto_touch = auto_touch
        self._held: dict[tuple[RunId, int], None] = {}
        """Run and attempt of each task, from its assignment until its report is answered."""

    def run(self, task: Task, release: Callable[[], None]) -> Coroutine[Any, Any, None]:
        """Call the handler, `release` its slot, and report; it can be cancelled from now on."""
        return self._run(self._begin(task), release)

    def cancel(self, run_id: RunId) -> None:
        """The run was cancelled: stop its handler, if it runs here, and report nothing."""
        for call in tuple(self._running):
            if call.task.task_id == run_id and not call.is_stopped:
                _logger.info("task %s is cancelled", run_id)
                self._stop(call)
                self._let_go(call.task)

    def lose(self, run_id: RunId) -> None:
        """The server has given the run to others: stop its handler, if it runs here."""
        for call in tuple(self._running):
            if call.task.task_id == run_id and not call.is_stopped:
                _logger.warning("task %s is lost: the worker was away for too long", run_id)
                self._stop(call)
                self._let_go(call.task)

    def held(self) -> list[HeldTask]:
        return [HeldTask(run_id=run_id, attempt=attempt) for run_id, attempt in self._held]

    async def give_up_all(self, reason: str) -> None:
        """Report whatever still runs as failed, and stop it."""
        for call in tuple(self._running):
            self._end(call, GiveUp(reason, code=AttemptEnd.WORKER_LEFT))
        if self._background:
            await asyncio.wait(self._background)

    def _begin(self, task: Task) -> TaskCall:
        context = ActionContext(task, self._namespace, self._worker_id, self._workers)
        call = HandlerCall(task, context)
        if self._auto_touch and task.timeout_ms:
            call.extend_ms = min(task.timeout_ms, TOUCH_MS_MAX)
            call.touch_at_s = context.lease_ends_at_s - call.extend_ms * 2 / 3_000
        self._track(call)
        self._held[task.task_id, task.attempt] = None
        return call

    def _let_go(self, task: Task) -> None:
        self._held.pop((task.task_id, task.attempt), None)

    async def _run(self, call: TaskCall, release: Callable[[], None]) -> None:
        call.asyncio_task = asyncio.current_task()
        try:
            if call.is_stopped:  # before it could begin
                return
            handler = self._handlers[call.task.task_type]
            calling = self._call(handler, call, outcome_of, outcome_of_error)
            if call.task.trace is not None and SWITCH.tracing is not None:
                calling = traced(SWITCH.tracing, call.task, self._worker_id, calling)
            outcome = await calling
        finally:
            self._ended(call)
            release()
        if not call.is_stopped:
            await self._report(call, outcome)
        elif not call.is_in_loop and isinstance(outcome, Done):
            log_late(call.task)

    def _overdue(self, call: TaskCall) -> None:
        if call.context.lease_ends_at_s <= call.ends_at_s:
            timeout_ms = call.task.timeout_ms
            error = f"the handler ran over the timeout_ms of its action, {timeout_ms}"
            self._end(call, OutOfTime(error))
        else:
            reason = f"the handler ran over its action_timeout of {self._timeout_s:g} s"
            self._end(call, GiveUp(reason, code=TIMEOUT_CODE))

    def _touch_due(self, call: TaskCall, now_s: float) -> None:
        self._in_background(self._touch(call))
        call.touch_at_s = now_s + call.extend_ms / 3_000

    def _end(self, call: TaskCall, outcome: Outcome) -> None:
        """Report at once, whether or not the handler can be stopped."""
        if not call.is_stopped:
            self._stop(call)
            self._in_background(self._report(call, outcome))

    async def _touch(self, call: TaskCall) -> None:
        try:
            await call.context.touch(call.extend_ms)
        except (Conflict, NotFound) as refusal:
            if call in self._running:
                _logger.warning("task %s is lost: %s", call.task.task_id, refusal)
                self._stop(call)
                self._let_go(call.task)
        except FloError as error:
            log_trouble(error, "task %s: no lease extension: %s", call.task.task_id, error)

    async def _report(self, call: TaskCall, outcome: Outcome) -> None:
        took_ms, held_ms = call.spent_ms(asyncio.get_running_loop().time())
        try:
            await self._tell_in_time(call.task, outcome, took_ms, held_ms)
        finally:
            self._let_go(call.task)

    async def _tell_in_time(self, task: Task, outcome: Outcome, took_ms: int, held_ms: int) -> None:
        """Tell the server, for as long as the lease may last if it cannot be told at once."""
        loop = asyncio.get_running_loop()
        give_up_at_s = loop.time() + task.timeout_ms / 1_000 if task.timeout_ms else inf
        while True:
            try:
                accepted = await self._tell(task, outcome, took_ms, held_ms)
            except Unavailable as error:
                log_trouble(error, "task %s: no report: %s", task.task_id, error)
            except FloError as refusal:
                log_refused(task, outcome, refusal)
                if not (isinstance(outcome, Done) and isinstance(refusal, Invalid)):
                    return
                outcome = GiveUp(f"the result was refused: {refusal.message}", code=refusal.code)
                continue
            else:
                log_end(task, outcome, accepted.status)
                return
            if loop.time() >= give_up_at_s:
                return
            await asyncio.sleep(RETRY_S)

    def _tell(
        self, task: Task, outcome: Outcome, took_ms: int, held_ms: int
    ) -> Awaitable[Accepted]:
        run_id, worker_id, attempt = task.task_id, self._worker_id, task.attempt
        if isinstance(outcome, Done):
            return self._workers.complete(
                run_id,
                worker_id,
                outcome.output,
                attempt=attempt,
                outcome=outcome.outcome,
                took_ms=took_ms,
                held_ms=held_ms,
            )
        return self._workers.fail(
            run_id,
            worker_id,
            outcome.error,
            code=outcome.code,
            attempt=attempt,
            retry=isinstance(outcome, TryAgain | OutOfTime),
            dead_letter=not isinstance(outcome, GiveUp) or outcome.dead_letter,
            timed_out=isinstance(outcome, OutOfTime),
            took_ms=took_ms,
            held_ms=held_ms,
        )
