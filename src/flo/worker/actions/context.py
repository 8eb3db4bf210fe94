"""What a handler knows about its task."""

import asyncio
from collections.abc import Awaitable
from datetime import UTC, datetime
from typing import Any, TypeVar, overload

from flo.client.payloads.payload import decode_payload, encode_payload
from flo.client.workers import EXTEND_MS_DEFAULT, Workers
from flo.model.errors import Conflict, Invalid, NotFound
from flo.model.ids import ActionName, Namespace, RunId, WorkerId
from flo.model.runs import Task
from flo.worker.outcome import ActionResult, NonRetryableError

T = TypeVar("T")


class ActionContext:
    """`cancelled` turns true when the run is cancelled, the lease is lost or the time is over: the
    result no longer counts. An async handler is cancelled then as well; a sync one must check it.
    """

    __slots__ = ("_loop", "_task", "_worker_id", "_workers", "cancelled", "namespace")

    def __init__(
        self, task: Task, namespace: Namespace, worker_id: WorkerId, workers: Workers
    ) -> None:
        self._task = task
        self._worker_id = worker_id
        self._workers = workers
        self._loop = asyncio.get_running_loop()
        self.namespace = namespace
        self.cancelled = False

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
    def attempt(self) -> int:
        """Starts at 1."""
        return self._task.attempt

    @property
    def created_at(self) -> datetime:
        return datetime.fromtimestamp(self._task.created_at_ms / 1_000, UTC)

    def raise_if_cancelled(self) -> None:
        """For sync handlers: end here, as an async one would, if the result no longer counts."""
        if self.cancelled:
            raise asyncio.CancelledError(f"task {self.task_id} is cancelled")

    def json(self) -> Any:
        return self.into(Any)

    @overload
    def into(self, type: type[T]) -> T: ...
    @overload
    def into(self, type: Any) -> Any: ...
    def into(self, type: Any) -> Any:
        """The input as a value of this type; what cannot be read now never will be."""
        try:
            return decode_payload(self._task.payload, type)
        except Invalid as error:
            raise NonRetryableError(f"the input cannot be read: {error.message}") from error

    def to_bytes(self, value: Any) -> bytes:
        return encode_payload(value)

    def result(self, outcome: str, data: Any = None) -> ActionResult:
        """A result with a name of its own: return it, and a workflow takes that transition."""
        return ActionResult(outcome, data)

    def touch(self, extend_ms: int = EXTEND_MS_DEFAULT) -> Awaitable[None]:
        """Extend the lease to `extend_ms` from now; Conflict or NotFound if it is lost.

        In an async handler it is awaited; in a sync one it has happened when the call returns.
        """
        touching = self._touch(extend_ms)
        if _running_loop() is self._loop:
            return touching
        asyncio.run_coroutine_threadsafe(touching, self._loop).result()
        return _Happened()

    async def _touch(self, extend_ms: int) -> None:
        task = self._task
        try:
            await self._workers.touch(
                task.task_id, self._worker_id, attempt=task.attempt, extend_ms=extend_ms
            )
        except (Conflict, NotFound):
            self.cancelled = True
            raise


class _Happened(Awaitable[None]):
    def __await__(self) -> Any:
        return iter(())


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
