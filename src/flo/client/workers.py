"""What a worker sends to the server: register, claim, complete, fail, touch, drain."""

import asyncio
from collections.abc import Sequence
from typing import Any

from flo.client.arguments.choices import one_of
from flo.client.handles.leased_node import LeasedNode
from flo.client.noun import Noun
from flo.client.payloads.payload import encode_payload
from flo.model.ids import LIST_LIMIT_DEFAULT, ActionName, Labels, RunId, WorkerId
from flo.model.pipelines.names import LEASE_MS_DEFAULT, OfNode
from flo.model.pipelines.work import AwaitNode
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
    HandlerInfo,
    Heartbeat,
    HeldTask,
    ListWorkers,
    Notifications,
    RegisterWorker,
    Resumed,
    ResumeWorker,
    WorkerKnown,
    WorkerPage,
    WorkerType,
    WorkerView,
)

EXTEND_MS_DEFAULT = 30_000
BLOCK_MS_DEFAULT = 30_000


class Workers(Noun):
    """Reports name their `attempt`, so that one that arrives twice counts once.

    With attempt 0 they mean whichever attempt the worker holds when they arrive, and are not
    repeated after a lost connection.
    """

    async def register(
        self,
        worker_id: WorkerId | None = None,
        processes: Sequence[ActionName] = (),
        *,
        max_concurrency: int = CONCURRENCY_DEFAULT,
        machine_id: str | None = None,
        labels: Labels | None = None,
        metadata: dict[str, Any] | str | None = None,
        worker_type: WorkerType | str = WorkerType.ACTION,
        incarnation: str = "",
        connection_bound: bool = False,
        consumer: str | None = None,
        build_id: str | None = None,
        handlers: Sequence[HandlerInfo] = (),
    ) -> WorkerKnown:
        """Announce a worker; the same id again replaces the registration.

        Without a `worker_id` the server makes one, and answers it. `metadata` is anything worth
        knowing, as an object or as JSON text; without `labels`, its flat values are the labels. A
        drain outlives a registration of the same `incarnation`, and no other. With
        `connection_bound`, the worker is gone when this client's connection is: after a while, its
        tasks are released. `build_id` and `handlers` say which code it runs.
        """
        return await self._call(
            RegisterWorker(
                worker_id=worker_id or "",
                processes=list(processes),
                max_concurrency=max_concurrency,
                machine_id=machine_id,
                labels=labels,
                metadata=metadata,
                worker_type=one_of(WorkerType, worker_type, "worker_type"),
                incarnation=incarnation,
                connection_bound=connection_bound,
                consumer=consumer,
                build_id=build_id,
                handlers=[*handlers] or None,
            )
        )

    def _resume(
        self, worker_id: WorkerId, incarnation: str, held: list[HeldTask]
    ) -> asyncio.Future[Resumed]:
        """Say, first of all on a new connection, that the worker is back, and what it holds."""
        command = ResumeWorker(
            worker_id=worker_id, incarnation=incarnation, held=held, namespace=self._namespace
        )
        return self._session.call(command, once=True)

    async def heartbeat(
        self, worker_id: WorkerId, current_load: int = 0, *, abandoned: int = 0
    ) -> WorkerKnown:
        """`abandoned` of its load are handlers that were told to stop, and still run."""
        return await self._call(
            Heartbeat(worker_id=worker_id, current_load=current_load, abandoned=abandoned)
        )

    async def claim(
        self,
        worker_id: WorkerId,
        actions: list[ActionName],
        *,
        max_tasks: int = 1,
        block_ms: int = 0,
    ) -> Assigned:
        """Take up to `max_tasks` ready runs; wait up to `block_ms` for the first."""
        return await self._call(
            Claim(worker_id=worker_id, actions=actions, max_tasks=max_tasks, block_ms=block_ms)
        )

    async def complete(
        self,
        run_id: RunId,
        worker_id: WorkerId,
        output: Any = None,
        *,
        attempt: int = 0,
        outcome: str = OUTCOME_SUCCESS,
        took_ms: int | None = None,
        held_ms: int | None = None,
    ) -> Accepted:
        """`took_ms` is how long it took to execute, `held_ms` how long it was held before that."""
        return await self._call(
            Complete(
                run_id=run_id,
                worker_id=worker_id,
                attempt=attempt,
                output=encode_payload(output, "output"),
                outcome=outcome,
                took_ms=took_ms,
                held_ms=held_ms,
            )
        )

    async def fail(
        self,
        run_id: RunId,
        worker_id: WorkerId,
        error: str = "",
        *,
        code: str | None = None,
        attempt: int = 0,
        retry: bool = False,
        dead_letter: bool = True,
        timed_out: bool = False,
        took_ms: int | None = None,
        held_ms: int | None = None,
    ) -> Accepted:
        """Without `retry` the run has failed for good; `dead_letter` keeps it for a requeue.

        `code` is what plans and callers know the error by. `timed_out` says that it was for want of
        time: without a retry, the run has timed out.
        """
        return await self._call(
            Fail(
                run_id=run_id,
                worker_id=worker_id,
                attempt=attempt,
                error=error,
                code=code,
                retry=retry,
                dead_letter=dead_letter,
                timed_out=timed_out,
                took_ms=took_ms,
                held_ms=held_ms,
            )
        )

    async def touch(
        self,
        run_id: RunId,
        worker_id: WorkerId,
        *,
        attempt: int = 0,
        extend_ms: int = EXTEND_MS_DEFAULT,
    ) -> Touched:
        """Extend the lease to `extend_ms` from now."""
        return await self._call(
            Touch(run_id=run_id, worker_id=worker_id, attempt=attempt, extend_ms=extend_ms)
        )

    async def await_nodes(
        self,
        worker_id: WorkerId,
        roles: Sequence[str],
        *,
        holds: Sequence[OfNode] = (),
        max_nodes: int = 1,
        lease_ms: int = LEASE_MS_DEFAULT,
        block_ms: int = 0,
    ) -> list[LeasedNode]:
        """Take nodes of pipelines that wait for one of these roles; wait for the first.

        A node that is this worker's already, and not among those that it `holds`, is answered
        again.
        """
        answer = await self._call(
            AwaitNode(
                worker_id=worker_id,
                roles=list(roles),
                holds=list(holds),
                max_nodes=max_nodes,
                lease_ms=lease_ms,
                block_ms=block_ms,
            )
        )
        return [LeasedNode(self._call, start, worker_id, lease_ms) for start in answer.starts]

    async def await_notifications(
        self, worker_id: WorkerId, *, after: int = 0, block_ms: int = BLOCK_MS_DEFAULT
    ) -> Notifications:
        """What the worker must know at once; the `last` of one reply is the next `after`."""
        return await self._call(
            AwaitNotifications(worker_id=worker_id, after=after, block_ms=block_ms)
        )

    async def drain(self, worker_id: WorkerId) -> WorkerKnown:
        """No new tasks for this worker; those it holds go on."""
        return await self._call(DrainWorker(worker_id=worker_id))

    async def deregister(self, worker_id: WorkerId) -> None:
        """Remove the worker; the tasks that it still holds are free at once."""
        await self._call(DeregisterWorker(worker_id=worker_id))

    async def get(self, worker_id: WorkerId) -> WorkerView:
        return await self._call(GetWorker(worker_id=worker_id))

    async def list(
        self, limit: int = LIST_LIMIT_DEFAULT, cursor: str | None = None, *, all: bool = False
    ) -> WorkerPage:
        """With `all` also those that were lost more than an hour ago."""
        return await self._call(ListWorkers(limit=limit, cursor=cursor, all=all))
