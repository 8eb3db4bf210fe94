"""What the log remembers of workers."""

from flo.engine.workers.records import Worker
from flo.model.actions import ActionLimits
from flo.model.base import Event, Observation
from flo.model.ids import (
    ActionName,
    Namespace,
    RunId,
    WorkerId,
)


class WorkerRegistered(Event):
    namespace: Namespace
    worker: Worker


class WorkerDrained(Event):
    namespace: Namespace
    worker_id: WorkerId


class WorkerDeregistered(Event):
    namespace: Namespace
    worker_id: WorkerId
    at_ms: int


class WorkerLost(Event):
    """Its connection broke, and it did not come back in time: what it held is released."""

    namespace: Namespace
    worker_id: WorkerId
    at_ms: int
    since_ms: int = 0
    """When the connection broke."""


class WorkerBack(Event):
    """It is on another connection, and says what it holds: what else it had is released."""

    namespace: Namespace
    worker_id: WorkerId
    at_ms: int
    held: tuple[tuple[RunId, int], ...] = ()
    """Run and attempt of each task that it holds."""


class WorkerConnected(Observation):
    namespace: Namespace
    worker_id: WorkerId


class WorkerDisconnected(Observation):
    namespace: Namespace
    worker_id: WorkerId
    since_ms: int
    position: int = 0
    """How many events the log had by then."""


class RunsBegun(Observation):
    """So many runs of an action that is limited by rate have been handed out."""

    namespace: Namespace
    action: ActionName
    count: int
    limits: ActionLimits


class WorkerHeard(Observation):
    """A worker gave a sign of life."""

    namespace: Namespace
    worker_id: WorkerId
    position: int = 0


class LoadReported(Observation):
    """A worker said how busy it is, or began anew (None)."""

    namespace: Namespace
    worker_id: WorkerId
    load: int | None
    abandoned: int = 0
    position: int = 0


class TaskCancelled(Observation):
    """A task in the hands of a worker need not be finished."""

    namespace: Namespace
    worker_id: WorkerId
    run_id: RunId


class WorkerAskedToDrain(Observation):
    """A worker is to take no more tasks."""

    namespace: Namespace
    worker_id: WorkerId


class WorkerLeft(Observation):
    namespace: Namespace
    worker_id: WorkerId
