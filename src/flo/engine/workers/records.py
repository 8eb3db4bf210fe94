"""What the state and the archive hold of workers."""

from typing import Any

from flo.model.base import Record
from flo.model.ids import (
    ActionName,
    ConsumerName,
    Labels,
    WorkerId,
)
from flo.model.storage.since import Since
from flo.model.workers import CONCURRENCY_DEFAULT, Effect, WorkerType


class Process(Record):
    """What a worker has done for one action."""

    name: ActionName
    run_count: int = 0
    fail_count: int = 0
    last_run_at_ms: int | None = None


class Departure(Record):
    """The last worker that has left an action."""

    worker_id: WorkerId
    at_ms: int
    position: int = 0


class RegisteredHandler(Record):
    """The code that a worker performs an action with, as it says."""

    action: ActionName
    effect: Effect
    code_digest: str | None = None
    input_schema: dict[str, Any] | None = None
    output_schema: dict[str, Any] | None = None


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
    connection_bound: bool = False
    """Its connection is its sign of life."""
    consumer: ConsumerName | None = None
    """Who it is to the groups that it reads through."""
    lost_at_ms: int | None = None
    """When it was given up; None while it is not lost."""
    began_at_ms: int = 0
    """When this incarnation of it registered first."""
    build_id: str | None = None
    handlers: tuple[RegisteredHandler, ...] = ()
    draining_since: Since | None = None
    """None while it is not draining."""
    lost_since: Since | None = None
    """None while it is not lost."""
