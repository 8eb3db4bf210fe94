"""Runs tasks: from the assignment of each to its report.

    begin ──▸ handler runs ──▸ report
                  │
                  ├── its time is over, the worker must leave ──▸ report at once, stop it
                  └── the run was cancelled, the lease is lost ──▸ stop it, report nothing

How handlers are called and stopped is in worker/runner.py.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from math import inf
from typing import Any, TypeAlias

from flo.client.workers import Workers
from flo.model.errors import Conflict, FloError, Invalid, NotFound, Unavailable
from flo.model.ids import ActionName, Namespace, RunId, WorkerId
from flo.model.runs import Task
from flo.worker.actions.context import ActionContext
from flo.worker.handler import BoundHandler
from flo.worker.lifecycle import RETRY_S
from flo.worker.outcome import Done, GiveUp, Outcome, TryAgain, outcome_of, outcome_of_error
from flo.worker.runner import HandlerCall, HandlerRunner

EXTEND_MS_MAX = 3_600_000

TaskCall: TypeAlias = HandlerCall[Task, ActionContext]

_logger = logging.getLogger("flo.worker")


class TaskRunner(HandlerRunner[Task, ActionContext]):
    """Runs any number of tasks at a time.

    `leases_ms` is how long the lease of a task is, by action; it is extended while the handler
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
        super().__init__(timeout_s=action_timeout_s, cancel_grace_s=cancel_grace_s)
        self._workers = workers
        self._worker_id = worker_id
        self._namespace = namespace
        self._handlers = handlers
        self._leases_ms = leases_ms
        self._auto_touch = auto_touch

    def run(self, task: Task, release: Callable[[], None]) -> Coroutine[Any, Any, None]:
        """Call the handler, `release` its slot, and report; it can be cancelled from now on."""
        return self._run(self._begin(task), release)

    def cancel(self, run_id: RunId) -> None:
        """The run was cancelled: stop its handler, if it runs here, and report nothing."""
        for call in tuple(self._running):
            if call.task.task_id == run_id and not call.is_stopped:
                _logger.info("task %s is cancelled", run_id)
                self._stop(call)

    async def give_up_all(self, reason: str) -> None:
        """Report whatever still runs as failed, and stop it."""
        for call in tuple(self._running):
            self._give_up(call, reason)
        if self._background:
            await asyncio.wait(self._background)

    def _begin(self, task: Task) -> TaskCall:
        context = ActionContext(task, self._namespace, self._worker_id, self._workers)
        call = HandlerCall(task, context)
        lease_ms = self._leases_ms.get(task.task_type, 0)
        if self._auto_touch and lease_ms:
            now_s = asyncio.get_running_loop().time()
            call.extend_ms = min(lease_ms, EXTEND_MS_MAX)
            call.touch_at_s = now_s + (lease_ms - call.extend_ms * 2 / 3) / 1_000
        self._track(call)
        return call

    async def _run(self, call: TaskCall, release: Callable[[], None]) -> None:
        call.asyncio_task = asyncio.current_task()
        try:
            if call.is_stopped:  # before it could begin
                return
            handler = self._handlers[call.task.task_type]
            outcome = await self._call(handler, call, outcome_of, outcome_of_error)
        finally:
            self._running.discard(call)
            release()
        if not call.is_stopped:
            await self._report(call.task, outcome)

    def _overdue(self, call: TaskCall) -> None:
        reason = f"the handler ran over its action_timeout of {self._timeout_s:g} s"
        self._give_up(call, reason)

    def _touch_due(self, call: TaskCall, now_s: float) -> None:
        self._in_background(self._touch(call))
        call.touch_at_s = now_s + call.extend_ms / 3_000

    def _give_up(self, call: TaskCall, reason: str) -> None:
        """Report at once, whether or not the handler can be stopped."""
        if not call.is_stopped:
            self._stop(call)
            self._in_background(self._report(call.task, GiveUp(reason)))

    async def _touch(self, call: TaskCall) -> None:
        try:
            await call.context.touch(call.extend_ms)
        except (Conflict, NotFound) as refusal:
            if call in self._running:
                _logger.warning("task %s is lost: %s", call.task.task_id, refusal)
                self._stop(call)
        except FloError as error:
            _logger.warning("task %s: no lease extension: %s", call.task.task_id, error)

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
            await asyncio.sleep(RETRY_S)

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
