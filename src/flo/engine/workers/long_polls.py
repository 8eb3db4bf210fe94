"""Workers wait for what they should know at once: a task is cancelled, or they are to drain."""

from collections.abc import Iterable, Mapping

from flo.engine.feature import Wake
from flo.engine.long_poll import (
    NOTIFICATIONS,
    WORKER_DRAINS,
    WORKER_LEFT,
    LongPoll,
    Subject,
    whole_namespace,
)
from flo.engine.state import State
from flo.engine.workers.events import WorkerDeregistered, WorkerDrained, WorkerRegistered
from flo.model.base import Event, Message
from flo.model.workers import AwaitNotifications, Notifications


def _subjects(query: AwaitNotifications) -> Iterable[Subject]:
    return (
        (NOTIFICATIONS, query.namespace, query.worker_id),
        whole_namespace(query.namespace),
    )


def _is_nothing_new(state: State, query: AwaitNotifications, reply: Message) -> bool:
    if not isinstance(reply, Notifications) or reply.cancelled:
        return False
    return reply.last == query.after or not reply.draining


def _registered(state: State, event: WorkerRegistered) -> Iterable[Subject]:
    return ((WORKER_DRAINS, event.namespace, event.worker.worker_id),)


def _drained(state: State, event: WorkerDrained) -> Iterable[Subject]:
    return (
        (NOTIFICATIONS, event.namespace, event.worker_id),
        (WORKER_DRAINS, event.namespace, event.worker_id),
    )


def _left(state: State, event: WorkerDeregistered) -> Iterable[Subject]:
    return (
        (NOTIFICATIONS, event.namespace, event.worker_id),
        (WORKER_LEFT, event.namespace, event.worker_id),
    )


LONG_POLLS: Mapping[type[Message], LongPoll] = {
    AwaitNotifications: LongPoll(subjects=_subjects, is_empty=_is_nothing_new),
}

WAKES: Mapping[type[Event], Wake] = {
    WorkerRegistered: _registered,
    WorkerDrained: _drained,
    WorkerDeregistered: _left,
}
