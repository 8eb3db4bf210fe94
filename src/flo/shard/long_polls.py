"""Parked long polls: claims and group reads that found nothing, questions without an answer yet.

A parked claim stands in the line of every action it names. When work appears, the line is walked
from the least busy worker on, and each is offered its share; when its worker drains, it is let go,
and when its worker leaves, with nothing.
A parked read stands in the line of its stream, and is asked again whenever there may be something.
A parked question stands in the line of each subject it asks about.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, TypeAlias, TypeVar

from msgspec.structs import replace

from flo.engine.actions.events import ActionRegistered
from flo.engine.groups.events import (
    ConsumerLeft,
    GroupDeleted,
    LetterRevived,
    RecordDied,
    RecordsAcked,
    RecordsReleased,
    RecordsReturned,
)
from flo.engine.groups.reads import has_something
from flo.engine.namespaces.events import NamespaceDeleted
from flo.engine.runs.events import (
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunQueued,
    RunReleased,
    RunRequeued,
    RunRevived,
    RunTimedOut,
)
from flo.engine.state import State
from flo.engine.streams.events import RecordsAppended, StreamDeleted, StreamTrimmed
from flo.engine.workers.events import WorkerDeregistered, WorkerDrained
from flo.engine.workflows.events import WorkflowFinished
from flo.model.base import Event, Message
from flo.model.errors import NotFound
from flo.model.groups import GroupRecords, ReadGroup
from flo.model.ids import ActionName, Namespace, StreamName, WorkerId
from flo.model.kv import GetKey
from flo.model.runs import Assigned, Claim, WaitForRuns
from flo.model.schedules import PullTrigger
from flo.model.streams import ReadStream
from flo.model.workers import AwaitNotifications
from flo.model.workflows import WaitForWorkflow
from flo.shard.submission import Submission

Line: TypeAlias = dict[Submission, Claim]
Patient: TypeAlias = WaitForRuns | AwaitNotifications | ReadStream | GetKey | WaitForWorkflow
"""The questions that may wait for an answer."""
Subject: TypeAlias = tuple[str, Namespace, str]
"""What a question may wait for: the kind of thing, its namespace and its name."""

RUN = "run"
WORKFLOW_RUN = "workflow run"
WORKER = "worker"
STREAM = "stream"
KEY = "key"

_MORE_TO_READ = (
    RecordsAppended,
    RecordsReturned,
    RecordsReleased,
    RecordsAcked,
    RecordDied,
    LetterRevived,
    ConsumerLeft,
    GroupDeleted,
    StreamDeleted,
    StreamTrimmed,
)

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Waiters:
    def __init__(self) -> None:
        self._actions: dict[tuple[Namespace, ActionName], Line] = {}
        self._workers: dict[tuple[Namespace, WorkerId], Line] = {}
        self._reads: dict[tuple[Namespace, StreamName], dict[Submission, ReadGroup]] = {}
        self._questions: dict[Subject, dict[Submission, None]] = {}

    def park_claim(self, submission: Submission, claim: Claim) -> None:
        for name in claim.actions:
            self._actions.setdefault((claim.namespace, name), {})[submission] = claim
        self._workers.setdefault((claim.namespace, claim.worker_id), {})[submission] = claim

    def leave_claim(self, submission: Submission, claim: Claim) -> None:
        for name in claim.actions:
            _leave(self._actions, (claim.namespace, name), submission)
        _leave(self._workers, (claim.namespace, claim.worker_id), submission)

    def park_read(self, submission: Submission, read: ReadGroup) -> None:
        self._reads.setdefault((read.namespace, read.stream), {})[submission] = read

    def leave_read(self, submission: Submission, read: ReadGroup) -> None:
        _leave(self._reads, (read.namespace, read.stream), submission)

    def park_question(self, submission: Submission, query: Patient) -> None:
        for subject in subjects_of(query):
            self._questions.setdefault(subject, {})[submission] = None

    def leave_question(self, submission: Submission, query: Patient) -> None:
        for subject in subjects_of(query):
            _leave(self._questions, subject, submission)

    def asking_about(self, *subject: str) -> Iterable[Submission]:
        """Those who wait for an answer about this subject."""
        kind, namespace, name = subject
        return self._questions.get((kind, namespace, name), ())

    def questions_of(self, namespace: Namespace) -> list[Submission]:
        """Those who wait for an answer about anything in this namespace."""
        waiting = (line for (_, theirs, _), line in self._questions.items() if theirs == namespace)
        return list(dict.fromkeys(chain.from_iterable(waiting)))

    def reads_woken_by(
        self, events: Sequence[Event], state: State
    ) -> list[tuple[Submission, ReadGroup]]:
        """The reads that may find something now, or have lost what they wait for."""
        if not self._reads:
            return []
        found: dict[Submission, ReadGroup] = {}
        ended: dict[Submission, ReadGroup] = {}
        for event in events:
            if isinstance(event, _MORE_TO_READ):
                found |= self._reads.get((event.namespace, event.stream), {})
            elif isinstance(event, WorkflowFinished):
                found |= self._pulls(event.namespace)
            elif isinstance(event, NamespaceDeleted | WorkerDrained):
                ended |= self._reads_ended_by(event)
        worth_while = {one: read for one, read in found.items() if _is_worth_while(state, read)}
        return list((worth_while | ended).items())

    def _pulls(self, namespace: Namespace) -> dict[Submission, ReadGroup]:
        """The triggers that start runs in this namespace."""
        return {
            one: read
            for line in self._reads.values()
            for one, read in line.items()
            if isinstance(read, PullTrigger) and read.workflow_namespace == namespace
        }

    def _reads_ended_by(
        self, event: NamespaceDeleted | WorkerDrained | WorkerDeregistered
    ) -> dict[Submission, ReadGroup]:
        everyone = ((one, read) for line in self._reads.values() for one, read in line.items())
        if isinstance(event, NamespaceDeleted):
            return {one: read for one, read in everyone if read.namespace == event.name}
        whose = event.namespace, event.worker_id
        return {one: read for one, read in everyone if (read.namespace, read.worker_id) == whose}

    def left_by(self, events: Sequence[Event]) -> list[tuple[Submission, Message]]:
        """The claims and reads of workers that have left, and the nothing that they are told."""
        left: dict[Submission, Message] = {}
        for event in events if self._workers or self._reads else ():
            if isinstance(event, WorkerDeregistered):
                claims = self._workers.get((event.namespace, event.worker_id), ())
                left |= dict.fromkeys(claims, Assigned())
                left |= dict.fromkeys(self._reads_ended_by(event), GroupRecords())
        return list(left.items())

    def woken_by(self, events: Sequence[Event], state: State) -> Iterator[tuple[Submission, Claim]]:
        """The claims that may find something now, each still parked when it is given out."""
        if not self._workers:
            return
        for namespace, action in self._ready_actions(events, state):
            yield from self._branch(namespace, action, state)
        for event in events:
            if isinstance(event, WorkerDrained):
                yield from list(self._workers.get((event.namespace, event.worker_id), {}).items())

    def everyone(self) -> list[Submission]:
        claims = chain.from_iterable(self._workers.values())
        reads = chain.from_iterable(self._reads.values())
        queries = chain.from_iterable(self._questions.values())
        return list(dict.fromkeys(chain(claims, reads, queries)))

    def _ready_actions(
        self, events: Sequence[Event], state: State
    ) -> dict[tuple[Namespace, ActionName], None]:
        """The actions for which something has become ready and somebody waits."""
        ready: dict[tuple[Namespace, ActionName], None] = {}
        for event in events:
            find = _READIED.get(type(event))
            if find is not None and (action := find(state, event)) is not None:
                ready[action] = None
        return {key: None for key in ready if key in self._actions}

    def _branch(
        self, namespace: Namespace, action: ActionName, state: State
    ) -> Iterator[tuple[Submission, Claim]]:
        """Along one line while there is something in the queue: each gets an equal share."""
        line = self._actions.get((namespace, action), {})  # an earlier line may have emptied it
        space = state.space(namespace)
        ahead = sorted(line.items(), key=lambda item: _load(state, item[1]))
        for waiting, (submission, claim) in zip(range(len(ahead), 0, -1), ahead, strict=True):
            if not space.has_ready(action):
                return
            if submission in line:
                share = -(-space.tallies[action].pending // waiting)
                if waiting > 1 and share < claim.max_tasks:
                    yield submission, replace(claim, max_tasks=share)
                else:
                    yield submission, claim


def subjects_of(query: Patient) -> Iterable[Subject]:
    """What a question waits for news of."""
    match query:
        case WaitForRuns(namespace=namespace, run_ids=run_ids):
            return [(RUN, namespace, run_id) for run_id in run_ids]
        case AwaitNotifications(namespace=namespace, worker_id=worker_id):
            return [(WORKER, namespace, worker_id)]
        case ReadStream(namespace=namespace, stream=stream):
            return [(STREAM, namespace, stream)]
        case GetKey(namespace=namespace, key=key):
            return [(KEY, namespace, key)]
        case WaitForWorkflow(namespace=namespace, run_id=run_id):
            return [(WORKFLOW_RUN, namespace, run_id)]


def _is_worth_while(state: State, read: ReadGroup) -> bool:
    """Whether a read finds anything if it is asked again, if only that its group is gone."""
    try:
        return has_something(state, read)
    except NotFound:
        return True


def _load(state: State, claim: Claim) -> float:
    """How busy a worker is: what it holds, against what it can hold."""
    space = state.space(claim.namespace)
    held = len(space.held.get(claim.worker_id, ()))
    worker = space.workers.get(claim.worker_id)
    return held / (worker.max_concurrency if worker else held + claim.max_tasks)


def _leave(lines: dict[_Key, dict[Submission, _Value]], key: _Key, submission: Submission) -> None:
    line = lines.get(key)
    if line is not None:
        line.pop(submission, None)
        if not line:
            del lines[key]


def _queued(state: State, event: RunQueued | RunRevived) -> tuple[Namespace, ActionName] | None:
    return event.namespace, event.run.action


def _back(state: State, event: RunReleased | RunRequeued) -> tuple[Namespace, ActionName] | None:
    run = state.space(event.namespace).runs.get(event.run_id)
    return (event.namespace, run.action) if run is not None else None


def _registered(state: State, event: ActionRegistered) -> tuple[Namespace, ActionName] | None:
    return event.namespace, event.action.name  # it may be limited otherwise now


def _freed(
    state: State, event: RunCompleted | RunFailed | RunTimedOut | RunCancelled
) -> tuple[Namespace, ActionName] | None:
    """With a run that ends, another one of its action may get a slot."""
    space, name = state.space(event.namespace), event.run_id.rpartition("-")[0]
    action = space.actions.get(name) or space.deleted.get(name)
    if action is None or action.limits is None:
        return None
    return event.namespace, name


_READIED: dict[type[Event], Callable[[State, Any], tuple[Namespace, ActionName] | None]] = {
    RunQueued: _queued,
    RunRevived: _queued,
    RunReleased: _back,
    RunRequeued: _back,
    ActionRegistered: _registered,
    RunCompleted: _freed,
    RunFailed: _freed,
    RunTimedOut: _freed,
    RunCancelled: _freed,
}
"""The action of which something can be claimed with an event, if there is one."""
