"""The HTTP routes of workers: register, heartbeat, drain, leave, take tasks, hear news, list."""

from typing import Annotated, Any

from litestar import delete, get, post
from litestar.di import NamedDependency
from litestar.params import JSONBody, QueryParameter
from msgspec.structs import asdict

from flo.model.base import Message, Nothing
from flo.model.ids import (
    BLOCK_MS_MAX,
    LIST_LIMIT_DEFAULT,
    NAMESPACE_DEFAULT,
    ActionName,
    Labels,
    RunId,
    WorkerId,
)
from flo.model.payload import Encoding, payload_to_json
from flo.model.runs import Assigned, Claim, Task
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
from flo.server.http.asker import Asker
from flo.server.http.errors import refusals
from flo.server.http.request import (
    BodyOptional,
    CursorQuery,
    FloRequest,
    LimitQuery,
    NamespaceQuery,
    WorkerPath,
)

BLOCK_MS_DEFAULT = 30_000


class WorkerBody(Message):
    """A registration; the same id again replaces it.

    `metadata` is anything worth knowing; without `labels`, its flat values are the labels.
    `incarnation` is to be another one for every start of the worker's process: a drain lasts for
    as long as it is the same.
    """

    worker_id: WorkerId
    actions: list[ActionName]
    max_concurrency: int = CONCURRENCY_DEFAULT
    machine_id: str | None = None
    labels: Labels | None = None
    metadata: dict[str, Any] | None = None
    worker_type: WorkerType = WorkerType.ACTION
    incarnation: str = ""


class HeartbeatBody(Message):
    """How many tasks the worker has in hand."""

    current_load: int = 0


class AwaitBody(Message):
    """Which tasks to wait for, how many at most, and how long."""

    actions: list[ActionName]
    max_tasks: int = 1
    block_ms: int = BLOCK_MS_DEFAULT


class TaskJson(Message):
    """A task to carry out before its lease expires (null: it never does).

    `payload` is the run's input: JSON if its bytes are, base64 if not, null if it is empty.
    """

    task_id: RunId
    task_type: ActionName
    payload: Any
    payload_encoding: Encoding | None
    created_at_ms: int
    attempt: int
    lease_expires_at_ms: int | None


class AssignedJson(Message):
    """The tasks, none if the time ran out; a draining worker gets no more."""

    tasks: list[TaskJson]
    draining: bool


@get("/workers", tags=["workers"], responses=refusals())
async def list_workers(
    asker: NamedDependency[Asker],
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
    limit: LimitQuery = LIST_LIMIT_DEFAULT,
    cursor: CursorQuery = None,
) -> WorkerPage:
    """The registered workers, by id."""
    query = ListWorkers(namespace=namespace, limit=limit, cursor=cursor)
    return await asker.ask(query, WorkerPage)


@post("/workers", tags=["workers"], responses=refusals(409, 413))
async def register_worker(
    asker: NamedDependency[Asker],
    data: JSONBody[WorkerBody],
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
) -> WorkerKnown:
    """Register a worker, or replace its registration."""
    return await asker.ask(RegisterWorker(namespace=namespace, **asdict(data)), WorkerKnown)


@get("/workers/{worker_id:str}", tags=["workers"], responses=refusals(404))
async def get_worker(
    asker: NamedDependency[Asker],
    worker_id: WorkerPath,
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
) -> WorkerView:
    """A worker: its status, its load, and what it has done for each action."""
    return await asker.ask(GetWorker(worker_id=worker_id, namespace=namespace), WorkerView)


@post(
    "/workers/{worker_id:str}/heartbeat",
    status_code=200,
    tags=["workers"],
    operation_class=BodyOptional,
    responses=refusals(404, 413),
)
async def heartbeat_worker(
    asker: NamedDependency[Asker],
    worker_id: WorkerPath,
    data: JSONBody[HeartbeatBody | None] = None,
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
) -> WorkerKnown:
    """Say that the worker is alive; the answer tells it when it is to drain."""
    current_load = data.current_load if data else 0
    command = Heartbeat(worker_id=worker_id, namespace=namespace, current_load=current_load)
    return await asker.ask(command, WorkerKnown)


@post("/workers/{worker_id:str}/drain", status_code=200, tags=["workers"], responses=refusals(404))
async def drain_worker(
    asker: NamedDependency[Asker],
    worker_id: WorkerPath,
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
) -> WorkerKnown:
    """No new tasks for this worker, for as long as its process lives (see `incarnation`)."""
    return await asker.ask(DrainWorker(worker_id=worker_id, namespace=namespace), WorkerKnown)


@delete("/workers/{worker_id:str}", tags=["workers"], responses=refusals())
async def deregister_worker(
    asker: NamedDependency[Asker],
    worker_id: WorkerPath,
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
) -> None:
    """Take a worker off the list; what it holds goes back at once. Gone already is fine."""
    await asker.ask(DeregisterWorker(worker_id=worker_id, namespace=namespace), Nothing)


@post("/workers/{worker_id:str}/await", status_code=200, tags=["workers"], responses=refusals(413))
async def await_tasks(
    asker: NamedDependency[Asker],
    request: FloRequest,
    worker_id: WorkerPath,
    data: JSONBody[AwaitBody],
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
) -> AssignedJson:
    """Take up to `max_tasks` tasks, waiting up to `block_ms` for the first."""
    command = Claim(worker_id=worker_id, namespace=namespace, **asdict(data))
    assigned = await asker.wait(command, Assigned, request)
    return AssignedJson(
        tasks=[task_json(task) for task in assigned.tasks], draining=assigned.draining
    )


@get("/workers/{worker_id:str}/news", tags=["workers"], responses=refusals(404))
async def await_notifications(
    asker: NamedDependency[Asker],
    request: FloRequest,
    worker_id: WorkerPath,
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
    after: Annotated[
        int,
        QueryParameter(name="after", ge=0, description="The `last` of the answer before this one."),
    ] = 0,
    block_ms: Annotated[
        int,
        QueryParameter(
            name="block_ms", ge=0, le=BLOCK_MS_MAX, description="Wait so long for news to come."
        ),
    ] = BLOCK_MS_DEFAULT,
) -> Notifications:
    """What a worker should know at once: which of its tasks were cancelled, and whether to drain.

    The answer comes as soon as there is any; a worker that drains has it without waiting.
    """
    query = AwaitNotifications(
        worker_id=worker_id, namespace=namespace, after=after, block_ms=block_ms
    )
    return await asker.wait(query, Notifications, request)


def task_json(task: Task) -> TaskJson:
    shown = payload_to_json(task.payload)
    fields = asdict(task) | {"payload": shown.value, "payload_encoding": shown.encoding}
    return TaskJson(**fields)


ROUTES = (
    list_workers,
    register_worker,
    get_worker,
    heartbeat_worker,
    drain_worker,
    deregister_worker,
    await_tasks,
    await_notifications,
)
