"""Claims wait for runs that are ready, and whoever wants a result waits for runs that end."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from msgspec.structs import replace

from flo.engine.context import Context
from flo.engine.feature import Wake
from flo.engine.long_poll import (
    ACTION,
    EXECUTION_PLACE,
    LEASE,
    NOTIFICATIONS,
    RUN,
    WORKER_DRAINS,
    WORKER_LEFT,
    LongPoll,
    Subject,
    Turn,
    Waiter,
    WaitQueue,
    everyone,
    whole_namespace,
)
from flo.engine.runs.claims import free_at_ms, is_full
from flo.engine.runs.events import (
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunGivenBack,
    RunQueued,
    RunReleased,
    RunRequeued,
    RunRevived,
    RunTimedOut,
)
from flo.engine.runs.queue import LaneKey, lane_key
from flo.engine.state import Space, State
from flo.model.base import Event, Message
from flo.model.ids import ActionName, Namespace, RunId
from flo.model.runs import Assigned, Claim, Ended, WaitForRuns

CLAIMS_COMPARED = 16
"""Of so many who have waited longest, the least busy worker is served first."""
_PLACE = EXECUTION_PLACE, "", ""


def _claim_subjects(claim: Claim) -> Iterable[Subject]:
    yield WORKER_DRAINS, claim.namespace, claim.worker_id
    for name in claim.actions:
        yield ACTION, claim.namespace, name
    if claim.held_max is not None:
        yield _PLACE


def _places_taken(state: State, claim: Claim) -> Sequence[Subject]:
    """A worker that holds as much as it may has room when one of its tasks has ended."""
    space = state.space(claim.namespace)
    if not is_full(space, claim):
        return ()
    held = space.held[claim.worker_id]
    return [(kind, claim.namespace, run_id) for run_id in held for kind in (RUN, LEASE)]


def _is_nothing_assigned(state: State, claim: Claim, reply: Message) -> bool:
    return isinstance(reply, Assigned) and not reply.tasks and not reply.draining


def _labels(state: State, claim: Claim) -> LaneKey:
    """What one worker leaves, others with the same labels find."""
    worker = state.space(claim.namespace).workers.get(claim.worker_id)
    return lane_key(worker.labels if worker is not None else None)


def _offers(state: State, subject: Subject, queues: Sequence[WaitQueue]) -> Iterator[Waiter]:
    """From the least busy worker on, while something is ready: each gets an equal share."""
    kind, namespace, name = subject
    if kind != ACTION:
        yield from everyone(state, subject, queues)
        return
    space, left = state.space(namespace), sum(map(len, queues))
    for ahead in _by_turns(space, name, queues):
        ahead.sort(key=lambda waiter: _load(state, waiter[1]))
        for waiter, claim in ahead:
            if not space.has_ready(name):
                return
            if not _is_open(space, name, _labels(state, claim)):
                continue
            share = -(-space.tallies[name].pending // left)
            is_shared = left > 1 and share < claim.max_tasks
            left -= 1
            yield waiter, replace(claim, max_tasks=share) if is_shared else claim


def _by_turns(
    space: Space, name: ActionName, queues: Sequence[WaitQueue]
) -> Iterator[list[Waiter]]:
    """Some at a time of those who have waited longest, as many from each queue that finds anything:
    what is ready need not be for the labels of everyone."""
    waiting = [(queue, iter(queue)) for queue in queues]
    while waiting := [one for one in waiting if _is_open(space, name, one[0].alike)]:
        count = -(-CLAIMS_COMPARED // len(waiting))
        some = [list(islice(rest, count)) for _, rest in waiting]
        waiting = [one for one, taken in zip(waiting, some, strict=True) if len(taken) == count]
        yield [waiter for taken in some for waiter in taken]


def _is_open(space: Space, name: ActionName, labels: LaneKey) -> bool:
    """Whether anything is ready for workers with these labels."""
    queue = space.queues.get(name)
    return queue is not None and any(map(len, queue.open_to(labels)))


def _load(state: State, claim: Claim) -> float:
    """How busy a worker is: what it holds, against what it can hold."""
    space = state.space(claim.namespace)
    held = len(space.held.get(claim.worker_id, ()))
    worker = space.workers.get(claim.worker_id)
    return held / (worker.max_concurrency if worker else held + claim.max_tasks)


def _again_at_ms(state: State, claim: Claim, context: Context) -> int | None:
    return free_at_ms(state, claim, context.now_ms, context.volatile)


def _wait_subjects(query: WaitForRuns) -> Iterable[Subject]:
    yield whole_namespace(query.namespace)
    for run_id in query.run_ids:
        yield RUN, query.namespace, run_id


def _is_none_ended(state: State, query: WaitForRuns, reply: Message) -> bool:
    return isinstance(reply, Ended) and not reply.results and not reply.unknown


def _those_that_ended(query: WaitForRuns, subjects: Sequence[Subject]) -> WaitForRuns:
    run_ids = [name for kind, _, name in subjects if kind == RUN]
    return replace(query, run_ids=run_ids) if len(run_ids) == len(subjects) else query


def _queued(state: State, event: RunQueued | RunRevived) -> Iterable[Subject]:
    return ((ACTION, event.namespace, event.run.action),)


def _back(state: State, event: RunReleased | RunRequeued | RunGivenBack) -> Iterable[Subject]:
    run = state.space(event.namespace).runs.get(event.run_id)
    if run is not None:
        yield ACTION, event.namespace, run.action
    yield LEASE, event.namespace, event.run_id
    yield from _freed(state, event.namespace, event.run_id)


def _ended(state: State, event: RunCompleted | RunFailed | RunTimedOut) -> Iterable[Subject]:
    return ((RUN, event.namespace, event.run_id), *_freed(state, event.namespace, event.run_id))


def _cancelled(state: State, event: RunCancelled) -> Iterable[Subject]:
    yield RUN, event.namespace, event.run_id
    if event.worker_id is not None:
        yield NOTIFICATIONS, event.namespace, event.worker_id
    yield from _freed(state, event.namespace, event.run_id)


def _freed(state: State, namespace: Namespace, run_id: RunId) -> Sequence[Subject]:
    """What a run leaves to others: a permit of its action, or a place to execute a module."""
    name = run_id.rpartition("-")[0]
    space = state.space(namespace)
    action = space.actions.get(name) or space.deleted.get(name)
    if action is None:
        return (_PLACE,)  # gone with its last run, and nobody knows whether it had a module
    permit = ((ACTION, namespace, name),) if action.limits is not None else ()
    return (*permit, _PLACE) if action.guest is not None else permit


LONG_POLLS: Mapping[type[Message], LongPoll] = {
    Claim: LongPoll(
        subjects=_claim_subjects,
        subjects_now=_places_taken,
        is_empty=_is_nothing_assigned,
        turn=Turn.CLAIMS,
        ended_by=lambda claim: [(WORKER_LEFT, claim.namespace, claim.worker_id)],
        alike=_labels,
        offers=_offers,
        again_at_ms=_again_at_ms,
    ),
    WaitForRuns: LongPoll(
        subjects=_wait_subjects,
        is_empty=_is_none_ended,
        narrowed=_those_that_ended,
    ),
}

WAKES: Mapping[type[Event], Wake] = {
    RunQueued: _queued,
    RunRevived: _queued,
    RunReleased: _back,
    RunRequeued: _back,
    RunGivenBack: _back,
    RunCompleted: _ended,
    RunFailed: _ended,
    RunTimedOut: _ended,
    RunCancelled: _cancelled,
}
