"""A registered worker: commands, queries, replies."""

from enum import StrEnum
from typing import Any

import msgspec

from flo.model.base import Message, Nothing
from flo.model.ids import (
    LIST_LIMIT_DEFAULT,
    NAMESPACE_DEFAULT,
    ActionName,
    Labels,
    Namespace,
    RunId,
    WorkerId,
)
from flo.model.operation import Command, Permission, Query, operation

WORKERS_MAX = 10_000
ACTIONS_PER_WORKER_MAX = 1_000
CONCURRENCY_DEFAULT = 10
CONCURRENCY_MAX = 100_000
METADATA_LENGTH_MAX = 16_384
SILENCE_MS_MAX = 90_000
"""A worker not heard of for longer than this is unhealthy."""


class WorkerStatus(StrEnum):
    ACTIVE = "active"
    IDLE = "idle"
    DRAINING = "draining"
    UNHEALTHY = "unhealthy"


class WorkerType(StrEnum):
    ACTION = "action"
    STREAM = "stream"


class WorkerKnown(Message):
    """The answer to everything a worker says about itself."""

    worker_id: WorkerId
    status: WorkerStatus


class Notifications(Message):
    """Tasks the worker should stop, and whether to take no more; `last` goes into the next wait."""

    last: int
    cancelled: list[RunId] = msgspec.field(default_factory=list)
    draining: bool = False


class ProcessView(Message):
    name: str
    kind: str
    run_count: int
    fail_count: int
    last_run_at_ms: int | None


class WorkerView(Message):
    """A worker as its users see it."""

    worker_id: WorkerId
    worker_type: WorkerType
    status: WorkerStatus
    namespace: Namespace
    max_concurrency: int
    current_load: int
    tasks_completed: int
    tasks_failed: int
    registered_at_ms: int
    last_heartbeat_ms: int
    machine_id: str | None
    labels: Labels | None
    metadata: dict[str, Any] | None
    processes: list[ProcessView]


class WorkerPage(Message):
    items: list[WorkerView]
    cursor: str | None = None


@operation(opcode=40, permission=Permission.TASKS_WORK)
class RegisterWorker(Command[WorkerKnown]):
    """Announce a worker; the same id again replaces the registration."""

    worker_id: WorkerId
    actions: list[ActionName]
    namespace: Namespace = NAMESPACE_DEFAULT
    max_concurrency: int = CONCURRENCY_DEFAULT
    machine_id: str | None = None
    labels: Labels | None = None
    metadata: dict[str, Any] | None = None
    """Anything worth knowing; without `labels`, its flat values are the labels."""
    worker_type: WorkerType = WorkerType.ACTION
    incarnation: str = ""
    """Another one for every start of the worker's process: a drain lasts as long as it does."""


@operation(opcode=41, permission=Permission.TASKS_WORK)
class Heartbeat(Command[WorkerKnown]):
    worker_id: WorkerId
    namespace: Namespace = NAMESPACE_DEFAULT
    current_load: int = 0


@operation(opcode=42, permission=Permission.WORKERS_MANAGE)
class DrainWorker(Command[WorkerKnown]):
    """No new tasks for this worker, for as long as it is registered."""

    worker_id: WorkerId
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(opcode=43, permission=Permission.TASKS_WORK)
class DeregisterWorker(Command[Nothing]):
    worker_id: WorkerId
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(opcode=44, permission=Permission.WORKERS_READ)
class GetWorker(Query[WorkerView]):
    worker_id: WorkerId
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(opcode=45, permission=Permission.WORKERS_READ)
class ListWorkers(Query[WorkerPage]):
    namespace: Namespace = NAMESPACE_DEFAULT
    limit: int = LIST_LIMIT_DEFAULT
    cursor: str | None = None


@operation(opcode=46, permission=Permission.TASKS_WORK)
class AwaitNotifications(Query[Notifications]):
    """What the worker should know at once; wait up to `block_ms` for anything after `after`."""

    worker_id: WorkerId
    namespace: Namespace = NAMESPACE_DEFAULT
    after: int = 0
    block_ms: int = 30_000
