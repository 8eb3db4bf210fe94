"""What the state and the archive hold of workers."""

from typing import Any

from flo.model.base import Record
from flo.model.ids import (
    ActionName,
    Labels,
    WorkerId,
)
from flo.model.workers import CONCURRENCY_DEFAULT, WorkerType


class Process(Record):
    """What a worker has done for one action."""

    name: ActionName
    run_count: int = 0
    fail_count: int = 0
    last_run_at_ms: int | None = None


class Worker(Record):
    worker_id: WorkerId
    actions: tuple[ActionName, ...]
    registered_at_ms: int
    max_concurrency: int = CONCURRENCY_DEFAULT
    machine_id: str | None = None
    labels: Labels | None = None
    draining: bool = False
    worker_type: WorkerType = WorkerType.ACTION
    metadata: dict[str, Any] | None = None
    incarnation: str = ""
