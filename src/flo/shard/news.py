"""What events are news of, and whether a reply says anything new to whoever waits."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from flo.engine.kv.events import KeyDeleted, KeyExpired, KeyPut
from flo.engine.runs.events import RunCancelled
from flo.engine.state import State
from flo.engine.streams.events import RecordsAppended, StreamDeleted
from flo.engine.streams.queries import is_at_end
from flo.engine.workers.events import WorkerDeregistered, WorkerDrained
from flo.engine.workflows.events import WorkflowFinished
from flo.model.base import Event, Message
from flo.model.groups import GroupRecords
from flo.model.kv import GetKey, Value
from flo.model.runs import Assigned, Ended, WaitForRuns
from flo.model.streams import ReadStream, RecordPage
from flo.model.workers import AwaitNotifications, Notifications
from flo.model.workflows import ENDED, WaitForWorkflow, WorkflowRunView
from flo.shard.long_polls import KEY, STREAM, WORKER, WORKFLOW_RUN, Patient, Subject
from flo.shard.submission import Answer


def notifications_of(events: Iterable[Event]) -> dict[Subject, None]:
    """The subjects of which there is news, beside runs that have ended."""
    return dict.fromkeys(_subjects(events))


def is_nothing_new(state: State, query: Patient, reply: Message) -> bool:
    """Whether the reply says nothing that the asker does not know."""
    match query, reply:
        case WaitForRuns(), Ended(results=[], unknown=[]):
            return True
        case AwaitNotifications(after=after), Notifications(
            last=last, cancelled=[], draining=draining
        ):
            return last == after or not draining
        case ReadStream(), RecordPage(items=[]):
            return is_at_end(state, query, reply)
        case WaitForWorkflow(), WorkflowRunView(status=status):
            return status not in ENDED
        case GetKey(newer_than=None), Value(value=value):
            return value is None
        case GetKey(newer_than=version), Value(version=actual):
            return actual == version
        case _:
            return False


def is_empty(reply: Answer) -> bool:
    """Whether a read of a group has found nothing."""
    return isinstance(reply, GroupRecords) and not reply.items and not reply.draining


def found_nothing(reply: Answer) -> bool:
    """Whether a claim has found nothing."""
    return isinstance(reply, Assigned) and not reply.tasks and not reply.draining


def _subjects(events: Iterable[Event]) -> Iterator[Subject]:
    for event in events:
        find = _SUBJECTS.get(type(event))
        if find is not None and (subject := find(event)) is not None:
            yield subject


def _holder(event: RunCancelled) -> Subject | None:
    worker_id = event.worker_id
    return (WORKER, event.namespace, worker_id) if worker_id is not None else None


_SUBJECTS: dict[type[Event], Callable[[Any], Subject | None]] = {
    RunCancelled: _holder,
    WorkerDrained: lambda event: (WORKER, event.namespace, event.worker_id),
    WorkerDeregistered: lambda event: (WORKER, event.namespace, event.worker_id),
    RecordsAppended: lambda event: (STREAM, event.namespace, event.stream),
    StreamDeleted: lambda event: (STREAM, event.namespace, event.stream),
    KeyPut: lambda event: (KEY, event.namespace, event.key),
    KeyDeleted: lambda event: (KEY, event.namespace, event.key),
    KeyExpired: lambda event: (KEY, event.namespace, event.key),
    WorkflowFinished: lambda event: (WORKFLOW_RUN, event.namespace, event.run_id),
}
