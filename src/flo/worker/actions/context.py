"""What a handler knows about its task."""

import asyncio
from collections.abc import Awaitable, Mapping
from datetime import UTC, datetime
from math import ceil, inf
from typing import Any

from flo.client.payloads.payload import encode_payload
from flo.client.workers import EXTEND_MS_DEFAULT, Workers
from flo.model.errors import Conflict, Invalid, NotFound
from flo.model.ids import ActionName, Namespace, RunId, WorkerId, check_range
from flo.model.runs import TOUCH_MS_MAX, Task
from flo.worker.context import BaseContext
from flo.worker.outcome import ActionResult, NonRetryableError


class ActionContext(BaseContext):
    """`cancelled` turns true when the run is cancelled, the lease is lost or the time is over: the
    result no longer counts. An async handler is cancelled then as well; a sync one must check it.
    """

    __slots__ = ("_loop", "_task", "_worker_id", "_workers", "namespace")

    def __init__(
        self, task: Task, namespace: Namespace, worker_id: WorkerId, workers: Workers
    ) -> None:
        super().__init__()
        self._task = task
        self._worker_id = worker_id
        self._workers = workers
        self._loop = asyncio.get_running_loop()
        self.namespace = namespace
        if task.timeout_ms:
            self.lease_ends_at_s = self._loop.time() + task.timeout_ms / 1_000

    def __repr__(self) -> str:
        return f"ActionContext(task_id={self.task_id!r}, attempt={self.attempt})"

    @property
    def task_id(self) -> RunId:
        return self._task.task_id

    @property
    def action_name(self) -> ActionName:
        return self._task.task_type

    @property
    def payload(self) -> bytes:
        return self._task.payload

    @property
    def input(self) -> bytes:
        return self._task.payload

    @property
    def secrets(self) -> Mapping[str, str]:
        """The values of the secrets that the action names, by their names."""
        return self._task.secrets

    @property
    def attempt(self) -> int:
        """Starts at 1."""
        return self._task.attempt

    @property
    def created_at(self) -> datetime:
        return datetime.fromtimestamp(self._task.created_at_ms / 1_000, UTC)

    def to_bytes(self, value: Any) -> bytes:
        """JSON for the result; what cannot be sent now never will be."""
        try:
            return encode_payload(value, "output")
        except Invalid as error:
            message = f"the result cannot be sent: {error.message}"
            raise NonRetryableError(message, code=error.code) from error

    def result(self, outcome: str, data: Any = None) -> ActionResult:
        """A result with a name of its own: return it, and a workflow takes that transition."""
        return ActionResult(outcome, data)

    def touch(self, extend_ms: int = EXTEND_MS_DEFAULT) -> Awaitable[None]:
        """Let this attempt execute for `extend_ms` from now; Conflict or NotFound if it is lost.

        The time that is left is never shortened. In an async handler it is awaited; in a sync one
        it has happened when the call returns.
        """
        check_range(extend_ms, "extend_ms", 1, TOUCH_MS_MAX)
        touching = self._touch(extend_ms)
        if _running_loop() is self._loop:
            return touching
        asyncio.run_coroutine_threadsafe(touching, self._loop).result()
        return _Happened()

    def _unreadable(self, error: Invalid) -> Exception:
        """What cannot be read now never will be."""
        return NonRetryableError(f"the input cannot be read: {error.message}", code="input_invalid")

    async def _touch(self, extend_ms: int) -> None:
        task, left_ms = self._task, self._left_ms()
        if left_ms > TOUCH_MS_MAX:  # more than a touch can give
            return
        extend_ms = max(extend_ms, left_ms)
        try:
            await self._workers.touch(
                task.task_id, self._worker_id, attempt=task.attempt, extend_ms=extend_ms
            )
        except (Conflict, NotFound):
            self.cancelled = True
            raise
        if self.lease_ends_at_s < inf:
            self.lease_ends_at_s = self._loop.time() + extend_ms / 1_000

    def _left_ms(self) -> int:
        """How long this attempt may still execute; 0 if its time is not bounded."""
        if self.lease_ends_at_s == inf:
            return 0
        return ceil((self.lease_ends_at_s - self._loop.time()) * 1_000)


class _Happened(Awaitable[None]):
    def __await__(self) -> Any:
        return iter(())


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
