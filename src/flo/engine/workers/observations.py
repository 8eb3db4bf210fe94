"""What is observed of workers: that they are there, and what they should know at once."""

from collections import deque
from collections.abc import Mapping

from flo.engine.feature import Observe
from flo.engine.volatile import Disconnected, Notification, Presence, VolatileState
from flo.engine.workers.events import (
    LoadReported,
    TaskCancelled,
    WorkerAskedToDrain,
    WorkerConnected,
    WorkerDisconnected,
    WorkerHeard,
    WorkerLeft,
)
from flo.model.base import Observation
from flo.model.ids import Namespace, RunId, WorkerId
from flo.model.workers import SILENCE_MS_MAX

NOTIFICATIONS_MAX = 1_000


def observe_heard(volatile: VolatileState, observation: WorkerHeard, now_ms: int) -> None:
    worker = observation.namespace, observation.worker_id
    known = volatile.heard(*worker)
    was_silent = now_ms - known.heard_at_ms > SILENCE_MS_MAX
    load = None if was_silent else known.reported_load
    volatile.presence[worker] = Presence(now_ms, load, known.abandoned, observation.position)


def observe_load(volatile: VolatileState, observation: LoadReported, now_ms: int) -> None:
    volatile.presence[observation.namespace, observation.worker_id] = Presence(
        now_ms, observation.load, observation.abandoned, observation.position
    )


def observe_connected(volatile: VolatileState, observation: WorkerConnected, now_ms: int) -> None:
    volatile.disconnected[observation.namespace, observation.worker_id] = None


def observe_disconnected(
    volatile: VolatileState, observation: WorkerDisconnected, now_ms: int
) -> None:
    volatile.disconnected[observation.namespace, observation.worker_id] = Disconnected(
        observation.since_ms, observation.position
    )


def observe_cancelled(volatile: VolatileState, observation: TaskCancelled, now_ms: int) -> None:
    notify(volatile, observation.namespace, observation.worker_id, observation.run_id)


def observe_drain(volatile: VolatileState, observation: WorkerAskedToDrain, now_ms: int) -> None:
    notify(volatile, observation.namespace, observation.worker_id, None)


def observe_left(volatile: VolatileState, observation: WorkerLeft, now_ms: int) -> None:
    worker = observation.namespace, observation.worker_id
    volatile.presence.pop(worker, None)
    volatile.disconnected.pop(worker, None)
    volatile.notifications.pop(worker, None)


def notify(
    volatile: VolatileState, namespace: Namespace, worker_id: WorkerId, cancelled: RunId | None
) -> None:
    """The worker should hear that a task is cancelled or, if none is, that it is to drain."""
    volatile.notifications_last += 1
    notifications = volatile.notifications.setdefault(
        (namespace, worker_id), deque(maxlen=NOTIFICATIONS_MAX)
    )
    notifications.append(Notification(volatile.notifications_last, cancelled))


OBSERVATIONS: Mapping[type[Observation], Observe] = {
    WorkerHeard: observe_heard,
    LoadReported: observe_load,
    WorkerConnected: observe_connected,
    WorkerDisconnected: observe_disconnected,
    TaskCancelled: observe_cancelled,
    WorkerAskedToDrain: observe_drain,
    WorkerLeft: observe_left,
}
