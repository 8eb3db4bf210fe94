"""What a worker says to the server: register, claim, complete, fail, touch, news, drain."""

from typing import Any

from flo.client.payloads.payload import encode_payload
from flo.client.session.session import Session
from flo.model.ids import LIST_LIMIT_DEFAULT, ActionName, Labels, Namespace, RunId, WorkerId
from flo.model.runs import (
    OUTCOME_SUCCESS,
    Accepted,
    Assigned,
    Claim,
    Complete,
    Fail,
    Touch,
    Touched,
)
from flo.model.workers import (
    CONCURRENCY_DEFAULT,
    AwaitNotifications,
    DeregisterWorker,
    DrainWorker,
    GetWorker,
    Heartbeat,
    ListWorkers,
    Notifications,
    RegisterWorker,
    WorkerKnown,
    WorkerPage,
    WorkerType,
    WorkerView,
)

EXTEND_MS_DEFAULT = 30_000
BLOCK_MS_DEFAULT = 30_000


class Workers:
    """Reports name their `attempt`, so that one that arrives twice counts once.

    With attempt 0 they mean whichever attempt the worker holds when they arrive, and are not
    repeated after a lost connection.
    """

    def __init__(self, session: Session, namespace: Namespace) -> None:
        self._session = session
        self._namespace = namespace

    async def register(
        self,
        worker_id: WorkerId,
        actions: list[ActionName],
        *,
        max_concurrency: int = CONCURRENCY_DEFAULT,
        machine_id: str | None = None,
        labels: Labels | None = None,
        metadata: dict[str, Any] | None = None,
        worker_type: WorkerType | str = WorkerType.ACTION,
        incarnation: str = "",
    ) -> WorkerKnown:
        """Announce a worker; the same id again replaces the registration.

        `metadata` is anything worth knowing; without `labels`, its flat values are the labels. A
        drain outlives a registration of the same `incarnation`, and no other.
        """
        command = RegisterWorker(
            worker_id=worker_id,
            actions=actions,
            namespace=self._namespace,
            max_concurrency=max_concurrency,
            machine_id=machine_id,
            labels=labels,
            metadata=metadata,
            worker_type=WorkerType(worker_type),
            incarnation=incarnation,
        )
        return await self._session.call(command)

    async def heartbeat(self, worker_id: WorkerId, current_load: int = 0) -> WorkerKnown:
        command = Heartbeat(
            worker_id=worker_id, namespace=self._namespace, current_load=current_load
        )
        return await self._session.call(command)

    async def claim(
        self,
        worker_id: WorkerId,
        actions: list[ActionName],
        *,
        max_tasks: int = 1,
        block_ms: int = 0,
    ) -> Assigned:
        """Take up to `max_tasks` ready runs; wait up to `block_ms` for the first."""
        command = Claim(
            worker_id=worker_id,
            actions=actions,
            namespace=self._namespace,
            max_tasks=max_tasks,
            block_ms=block_ms,
        )
        return await self._session.call(
            command, timeout_s=block_ms / 1_000 + self._session.timeout_s
        )

    async def complete(
        self,
        run_id: RunId,
        worker_id: WorkerId,
        output: Any = None,
        *,
        attempt: int = 0,
        outcome: str = OUTCOME_SUCCESS,
    ) -> Accepted:
        command = Complete(
            run_id=run_id,
            worker_id=worker_id,
            namespace=self._namespace,
            attempt=attempt,
            output=encode_payload(output),
            outcome=outcome,
        )
        return await self._session.call(command, repeatable=attempt > 0)

    async def fail(
        self,
        run_id: RunId,
        worker_id: WorkerId,
        error: str = "",
        *,
        attempt: int = 0,
        retry: bool = False,
        dead_letter: bool = True,
    ) -> Accepted:
        """Without `retry` the run has failed for good; `dead_letter` keeps it for a requeue."""
        command = Fail(
            run_id=run_id,
            worker_id=worker_id,
            namespace=self._namespace,
            attempt=attempt,
            error=error,
            retry=retry,
            dead_letter=dead_letter,
        )
        return await self._session.call(command, repeatable=attempt > 0)

    async def touch(
        self,
        run_id: RunId,
        worker_id: WorkerId,
        *,
        attempt: int = 0,
        extend_ms: int = EXTEND_MS_DEFAULT,
    ) -> Touched:
        """Extend the lease to `extend_ms` from now."""
        command = Touch(
            run_id=run_id,
            worker_id=worker_id,
            namespace=self._namespace,
            attempt=attempt,
            extend_ms=extend_ms,
        )
        return await self._session.call(command)

    async def await_notifications(
        self, worker_id: WorkerId, *, after: int = 0, block_ms: int = BLOCK_MS_DEFAULT
    ) -> Notifications:
        """What the worker should know at once; the `last` of one answer is `after` in the next."""
        query = AwaitNotifications(
            worker_id=worker_id, namespace=self._namespace, after=after, block_ms=block_ms
        )
        return await self._session.call(query, timeout_s=block_ms / 1_000 + self._session.timeout_s)

    async def drain(self, worker_id: WorkerId) -> WorkerKnown:
        """No new tasks for this worker; those it holds go on."""
        command = DrainWorker(worker_id=worker_id, namespace=self._namespace)
        return await self._session.call(command)

    async def deregister(self, worker_id: WorkerId) -> None:
        """Forget the worker; what it still holds is free at once."""
        command = DeregisterWorker(worker_id=worker_id, namespace=self._namespace)
        await self._session.call(command)

    async def get(self, worker_id: WorkerId) -> WorkerView:
        query = GetWorker(worker_id=worker_id, namespace=self._namespace)
        return await self._session.call(query)

    async def list(self, limit: int = LIST_LIMIT_DEFAULT, cursor: str | None = None) -> WorkerPage:
        query = ListWorkers(namespace=self._namespace, limit=limit, cursor=cursor)
        return await self._session.call(query)
