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
from flo.wire.opcodes import BY_NAME

EXTEND_MS_DEFAULT = 30_000
BLOCK_MS_DEFAULT = 30_000

_REGISTER = BY_NAME["register_worker"]
_HEARTBEAT = BY_NAME["heartbeat"]
_CLAIM = BY_NAME["claim"]
_COMPLETE = BY_NAME["complete"]
_FAIL = BY_NAME["fail"]
_TOUCH = BY_NAME["touch"]
_AWAIT_NOTIFICATIONS = BY_NAME["await_news"]
_DRAIN = BY_NAME["drain_worker"]
_DEREGISTER = BY_NAME["deregister_worker"]
_GET = BY_NAME["get_worker"]
_LIST = BY_NAME["list_workers"]


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
        known: WorkerKnown = await self._session.call(_REGISTER, command)
        return known

    async def heartbeat(self, worker_id: WorkerId, current_load: int = 0) -> WorkerKnown:
        command = Heartbeat(
            worker_id=worker_id, namespace=self._namespace, current_load=current_load
        )
        known: WorkerKnown = await self._session.call(_HEARTBEAT, command)
        return known

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
        assigned: Assigned = await self._session.call(
            _CLAIM, command, timeout_s=block_ms / 1_000 + self._session.timeout_s
        )
        return assigned

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
        accepted: Accepted = await self._session.call(_COMPLETE, command, repeatable=attempt > 0)
        return accepted

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
        accepted: Accepted = await self._session.call(_FAIL, command, repeatable=attempt > 0)
        return accepted

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
        touched: Touched = await self._session.call(_TOUCH, command)
        return touched

    async def await_notifications(
        self, worker_id: WorkerId, *, after: int = 0, block_ms: int = BLOCK_MS_DEFAULT
    ) -> Notifications:
        """What the worker should know at once; the `last` of one answer is `after` in the next."""
        query = AwaitNotifications(
            worker_id=worker_id, namespace=self._namespace, after=after, block_ms=block_ms
        )
        notifications: Notifications = await self._session.call(
            _AWAIT_NOTIFICATIONS, query, timeout_s=block_ms / 1_000 + self._session.timeout_s
        )
        return notifications

    async def drain(self, worker_id: WorkerId) -> WorkerKnown:
        """No new tasks for this worker; those it holds go on."""
        command = DrainWorker(worker_id=worker_id, namespace=self._namespace)
        known: WorkerKnown = await self._session.call(_DRAIN, command)
        return known

    async def deregister(self, worker_id: WorkerId) -> None:
        """Forget the worker; what it still holds is free at once."""
        command = DeregisterWorker(worker_id=worker_id, namespace=self._namespace)
        await self._session.call(_DEREGISTER, command)

    async def get(self, worker_id: WorkerId) -> WorkerView:
        query = GetWorker(worker_id=worker_id, namespace=self._namespace)
        worker: WorkerView = await self._session.call(_GET, query)
        return worker

    async def list(self, limit: int = LIST_LIMIT_DEFAULT, cursor: str | None = None) -> WorkerPage:
        query = ListWorkers(namespace=self._namespace, limit=limit, cursor=cursor)
        page: WorkerPage = await self._session.call(_LIST, query)
        return page
