"""Rules of a run: invoke, claim, touch, complete, fail, cancel, fall due.

    pending ──claim──▸ running ──complete──▸ completed
       ▲ │                │
       │ └─────────────── ┼── cancel ──▸ cancelled
       └──── requeue ─────┼── fail ──▸ failed
                          └── lease ends ──▸ timed_out

Every decide_* reads state and returns a Decision; every apply_* folds one event. A run that has
ended leaves the state; archive_run says what the archive is to keep of it.
"""

import heapq
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from flo.core.actions import named_action
from flo.core.decision import Decision
from flo.core.due import RUN, DueKey
from flo.core.limits import enter_queue, leave_queue, leave_slot, slot_of
from flo.core.live import Live
from flo.core.moment import Moment
from flo.core.rates import rate_of_limits, rate_under
from flo.core.schemas import check_schema
from flo.core.state import KEYS_REMEMBERED_MAX, Space, State
from flo.core.workers import count_run
from flo.model.actions import Action
from flo.model.archive import Archived
from flo.model.base import Fact, Sign
from flo.model.errors import Conflict, Invalid, NotFound
from flo.model.ids import (
    BLOCK_MS_MAX,
    DURATION_MS_MAX,
    ERROR_LENGTH_MAX,
    IDEMPOTENCY_KEY_LENGTH_MAX,
    TEXT_LENGTH_MAX,
    ActionName,
    Labels,
    Namespace,
    RunId,
    check_labels,
    check_payload,
    check_range,
    check_text,
    check_worker_id,
    run_id_of,
)
from flo.model.runs import (
    PRIORITY_DEFAULT,
    PRIORITY_MAX,
    TASKS_PER_CLAIM_MAX,
    Accepted,
    Assigned,
    Attempt,
    Cancel,
    Claim,
    Complete,
    Fail,
    Invoke,
    Invoked,
    Run,
    RunCancelled,
    RunClaimed,
    RunCompleted,
    RunFailed,
    RunQueued,
    RunReleased,
    RunRequeued,
    RunStatus,
    RunTimedOut,
    RunTouched,
    Task,
    Touch,
    Touched,
)
from flo.model.workers import (
    ACTIONS_PER_WORKER_MAX,
    RunsBegun,
    TaskCancelled,
    WorkerDeregistered,
    WorkerHeard,
)
from flo.workflow.rate import Rate

ARCHIVE_KIND = "run"
PAYLOADS_PER_CLAIM_LENGTH_MAX = 4 * 1024 * 1024
ATTEMPTS_KEPT_MAX = 100
HELD_PER_WORKER_MAX = 10_000
"""What a worker holds is given up in one commit when it leaves."""
TOUCH_MS_MAX = 3_600_000
GUEST_GRACE_MS = 10_000

RunEnd: TypeAlias = RunCompleted | RunFailed | RunTimedOut | RunCancelled

_encode = msgspec.msgpack.Encoder().encode


def decide_invoke(state: State, command: Invoke, moment: Moment) -> Decision:
    space = state.space(command.namespace)
    action = named_action(space, command.action)
    _check_invocation(command)
    inline = action.guest is not None
    if command.idempotency_key is not None:
        known = _run_with_key(space, command, moment)
        if known is not None:
            return Decision(Invoked(run_id=known, duplicate=True, inline=inline))
    number = space.numbers.get(action.name, 0) + 1
    run = queue_run(
        space,
        action.name,
        command.input,
        moment,
        number,
        priority=command.priority,
        delay_ms=command.delay_ms,
        idempotency_key=command.idempotency_key,
        labels=command.labels or None,
    )
    queued = RunQueued(namespace=command.namespace, run=run)
    return Decision(Invoked(run_id=run.run_id, inline=inline), (queued,))


def queue_run(
    space: Space,
    name: ActionName,
    payload: bytes,
    moment: Moment,
    number: int,
    *,
    priority: int = PRIORITY_DEFAULT,
    delay_ms: int = 0,
    idempotency_key: str | None = None,
    labels: Labels | None = None,
) -> Run:
    """A run to be queued, unless its action refuses it."""
    action = named_action(space, name)
    if not action.enabled:
        raise Conflict(f"action {action.name!r} is disabled", code="action_disabled")
    check_payload(payload, "an input")
    check_schema(action.input_schema, payload, "the input", "input_invalid")
    return Run(
        run_id=run_id_of(name, number),
        action=name,
        number=number,
        input=payload,
        priority=priority,
        created_at_ms=moment.now_ms,
        ready_at_ms=moment.now_ms + delay_ms,
        is_delayed=delay_ms > 0,
        idempotency_key=idempotency_key,
        labels=labels,
        slot=slot_of(action, payload),
    )


def decide_claim(state: State, command: Claim, moment: Moment) -> Decision:
    check_worker_id(command.worker_id)
    check_range(command.max_tasks, "max_tasks", 1, TASKS_PER_CLAIM_MAX)
    check_range(command.block_ms, "block_ms", 0, BLOCK_MS_MAX)
    if not 1 <= len(command.actions) <= ACTIONS_PER_WORKER_MAX:
        raise Invalid(
            f"expected 1 to {ACTIONS_PER_WORKER_MAX} actions to claim, got {len(command.actions)}"
        )
    space = state.space(command.namespace)
    worker = space.workers.get(command.worker_id)
    if worker is not None and worker.draining:
        return Decision(Assigned(draining=True))
    labels = worker.labels if worker else None
    tasks: list[Task] = []
    events: list[Fact] = []
    length = 0
    room = HELD_PER_WORKER_MAX - len(space.held.get(command.worker_id, ()))
    limit = max(0, min(command.max_tasks, room))
    ready = _ready_runs(space, command, labels, moment)
    for run in islice(ready, limit):
        lease_ms = _lease_ms(space.settings(run.action))
        lease_expires_at_ms = moment.now_ms + lease_ms if lease_ms else None
        events.append(
            RunClaimed(
                namespace=command.namespace,
                run_id=run.run_id,
                worker_id=command.worker_id,
                attempt=run.attempt + 1,
                at_ms=moment.now_ms,
                lease_expires_at_ms=lease_expires_at_ms,
            )
        )
        tasks.append(
            Task(
                task_id=run.run_id,
                task_type=run.action,
                payload=run.input,
                created_at_ms=run.created_at_ms,
                attempt=run.attempt + 1,
                lease_expires_at_ms=lease_expires_at_ms,
            )
        )
        length += len(run.input)
        if length > PAYLOADS_PER_CLAIM_LENGTH_MAX:
            break
    signs: list[Sign] = list(_begun(space, command.namespace, tasks))
    if worker is not None:
        signs.append(WorkerHeard(namespace=command.namespace, worker_id=command.worker_id))
    return Decision(Assigned(tasks=tasks), tuple(events), tuple(signs))


def decide_complete(state: State, command: Complete, moment: Moment) -> Decision:
    run = _reported_run(state, command, moment)
    if _reported_before(run, command):
        return Decision(Accepted(run_id=command.run_id, status=RunStatus.COMPLETED))
    action = state.space(command.namespace).settings(leased_run(run, command).action)
    check_payload(command.output, "an output")
    check_text(command.outcome, "outcome")
    check_schema(action.output_schema, command.output, "the output", "output_invalid")
    completed = RunCompleted(
        namespace=command.namespace,
        run_id=command.run_id,
        at_ms=moment.now_ms,
        output=command.output,
        outcome=command.outcome,
    )
    return Decision(Accepted(run_id=command.run_id, status=RunStatus.COMPLETED), (completed,))


def decide_fail(state: State, command: Fail, moment: Moment) -> Decision:
    found = _reported_run(state, command, moment)
    if found is not None and _reported_before(found, command):
        return Decision(Accepted(run_id=command.run_id, status=found.status))
    run = leased_run(found, command)
    space = state.spaces[command.namespace]
    error = command.error[:ERROR_LENGTH_MAX]
    action = space.settings(run.action)
    if command.retry and has_retries(run, action):
        requeued = _requeued(command.namespace, run, action, error, moment)
        return Decision(Accepted(run_id=run.run_id, status=RunStatus.PENDING), (requeued,))
    if command.timed_out:
        timed_out = RunTimedOut(
            namespace=command.namespace, run_id=run.run_id, at_ms=moment.now_ms, error=error
        )
        return Decision(Accepted(run_id=run.run_id, status=RunStatus.TIMED_OUT), (timed_out,))
    failed = RunFailed(
        namespace=command.namespace,
        run_id=run.run_id,
        at_ms=moment.now_ms,
        error=error,
        dead_lettered=command.dead_letter,
    )
    return Decision(Accepted(run_id=run.run_id, status=RunStatus.FAILED), (failed,))


def decide_touch(state: State, command: Touch, moment: Moment) -> Decision:
    check_range(command.extend_ms, "extend_ms", 1, TOUCH_MS_MAX)
    run = leased_run(state.space(command.namespace).runs.get(command.run_id), command)
    if run.lease_expires_at_ms is None:
        return Decision(Touched(run_id=run.run_id, lease_expires_at_ms=None))
    lease_expires_at_ms = moment.now_ms + command.extend_ms
    touched = RunTouched(
        namespace=command.namespace,
        run_id=run.run_id,
        lease_expires_at_ms=lease_expires_at_ms,
        at_ms=moment.now_ms,
    )
    reply = Touched(run_id=run.run_id, lease_expires_at_ms=lease_expires_at_ms)
    return Decision(reply, (touched,))


def decide_cancel(state: State, command: Cancel, moment: Moment) -> Decision:
    check_text(command.reason, "reason")
    space = state.space(command.namespace)
    run = space.runs.get(command.run_id)
    if run is None:
        raise _cannot_cancel(space, command, moment)
    cancelled = RunCancelled(
        namespace=command.namespace,
        run_id=run.run_id,
        at_ms=moment.now_ms,
        reason=command.reason,
        worker_id=run.worker_id,
    )
    return Decision(Accepted(run_id=run.run_id, status=RunStatus.CANCELLED), (cancelled,))


def fall_due(state: State, key: DueKey, moment: Moment) -> Iterable[Fact]:
    """A delay is over, or a lease."""
    _, namespace, run_id = key
    space = state.spaces[namespace]
    run = space.runs[run_id]
    if run.status is RunStatus.PENDING:
        yield RunReleased(namespace=namespace, run_id=run_id)
    else:
        yield _lease_ended(namespace, space, run, moment)


def follow_worker_deregistered(
    state: State, event: WorkerDeregistered, moment: Moment
) -> Iterable[Fact]:
    """What a worker leaves undone is free at once; nobody needs to wait for the lease to end."""
    space = state.spaces[event.namespace]
    held = [space.runs[run_id] for run_id in space.held.get(event.worker_id, ())]
    for run in sorted(held, key=lambda run: (run.action, run.number)):  # no other order is kept
        if run.run_id not in space.runs:
            continue  # what came of another one has cancelled it
        yield _given_up(event.namespace, space, run, f"worker {event.worker_id!r} left", moment)


def apply_queued(state: State, event: RunQueued) -> None:
    run = event.run
    space = state.space_made(event.namespace)
    assert run.run_id not in space.runs
    space.runs[run.run_id] = run
    space.numbers[run.action] = run.number
    if run.idempotency_key is not None:
        space.keys[run.action, run.idempotency_key] = run.run_id
    space.tally(run.action).pending += 1
    if run.is_delayed:
        state.due.set((RUN, event.namespace, run.run_id), run.ready_at_ms)
    else:
        enter_queue(space, run)


def apply_released(state: State, event: RunReleased) -> None:
    space = state.spaces[event.namespace]
    state.due.clear((RUN, event.namespace, event.run_id))
    run = space.runs[event.run_id] = replace(space.runs[event.run_id], is_delayed=False)
    enter_queue(space, run)


def apply_claimed(state: State, event: RunClaimed) -> None:
    space = state.spaces[event.namespace]
    run = space.runs[event.run_id]
    assert run.status is RunStatus.PENDING
    space.queues[run.action].take(run.labels, run.priority, run.number)
    space.runs[run.run_id] = replace(
        run,
        status=RunStatus.RUNNING,
        attempt=event.attempt,
        worker_id=event.worker_id,
        started_at_ms=event.at_ms,
        lease_expires_at_ms=event.lease_expires_at_ms,
    )
    space.held.setdefault(event.worker_id, {})[run.run_id] = None
    tally = space.tallies[run.action]
    tally.pending -= 1
    tally.running += 1
    if event.lease_expires_at_ms is not None:
        state.due.set((RUN, event.namespace, run.run_id), event.lease_expires_at_ms)


def apply_touched(state: State, event: RunTouched) -> None:
    space = state.spaces[event.namespace]
    run = space.runs[event.run_id]
    space.runs[run.run_id] = replace(run, lease_expires_at_ms=event.lease_expires_at_ms)
    if event.lease_expires_at_ms is not None:
        state.due.set((RUN, event.namespace, run.run_id), event.lease_expires_at_ms)


def apply_completed(state: State, event: RunCompleted) -> None:
    run = _release_lease(state, event.namespace, event.run_id, event.at_ms, failed=False)
    state.spaces[event.namespace].tallies[run.action].completed += 1
    _finish(state, event.namespace, run)


def apply_requeued(state: State, event: RunRequeued) -> None:
    run = _release_lease(state, event.namespace, event.run_id, event.at_ms, failed=True)
    space = state.spaces[event.namespace]
    run = replace(
        run,
        status=RunStatus.PENDING,
        worker_id=None,
        lease_expires_at_ms=None,
        ready_at_ms=event.ready_at_ms,
        is_delayed=event.ready_at_ms > event.at_ms,
        error=event.error,
        attempts=_attempts_after(run, event.at_ms, event.error),
    )
    space.runs[run.run_id] = run
    space.tallies[run.action].pending += 1
    if run.is_delayed:
        state.due.set((RUN, event.namespace, run.run_id), event.ready_at_ms)
    else:
        enter_queue(space, run)


def apply_cancelled(state: State, event: RunCancelled) -> None:
    space = state.spaces[event.namespace]
    run = space.runs[event.run_id]
    if run.status is RunStatus.RUNNING:
        _release_lease(state, event.namespace, event.run_id, event.at_ms, failed=None)
    else:
        space.tallies[run.action].pending -= 1
        if run.is_delayed:
            state.due.clear((RUN, event.namespace, event.run_id))
        else:
            leave_queue(space, run)
    space.tallies[run.action].cancelled += 1
    _finish(state, event.namespace, run)


def note_cancelled(state: State, event: RunCancelled, live: Live) -> None:
    """The worker that had the run should know at once."""
    worker_id = event.worker_id
    if worker_id is not None and worker_id in state.spaces[event.namespace].workers:
        told = TaskCancelled(namespace=event.namespace, worker_id=worker_id, run_id=event.run_id)
        live.observe(told, event.at_ms)


def apply_failed(state: State, event: RunFailed) -> None:
    run = _release_lease(state, event.namespace, event.run_id, event.at_ms, failed=True)
    state.spaces[event.namespace].tallies[run.action].failed += 1
    _finish(state, event.namespace, run)


def apply_timed_out(state: State, event: RunTimedOut) -> None:
    run = _release_lease(state, event.namespace, event.run_id, event.at_ms, failed=True)
    state.spaces[event.namespace].tallies[run.action].timed_out += 1
    _finish(state, event.namespace, run)


def finished_run(state: State, event: RunEnd) -> Run:
    """The run as it ends with this event, which is yet to be applied."""
    run = state.spaces[event.namespace].runs[event.run_id]
    match event:
        case RunCompleted(at_ms=at_ms, output=output, outcome=outcome):
            return replace(
                run,
                status=RunStatus.COMPLETED,
                output=output,
                outcome=outcome,
                error=None,
                finished_at_ms=at_ms,
            )
        case RunCancelled(at_ms=at_ms, reason=reason):
            return replace(
                run,
                status=RunStatus.CANCELLED,
                error=reason or None,
                finished_at_ms=at_ms,
                is_delayed=False,
            )
        case RunFailed(at_ms=at_ms, error=error, dead_lettered=dead_lettered):
            status = RunStatus.FAILED
        case RunTimedOut(at_ms=at_ms, error=error):
            status, dead_lettered = RunStatus.TIMED_OUT, True
    return replace(
        run,
        status=status,
        error=error,
        finished_at_ms=at_ms,
        dead_lettered=dead_lettered,
        attempts=_attempts_after(run, at_ms, error),
    )


def archive_run(state: State, event: RunEnd) -> Archived:
    run = finished_run(state, event)
    return Archived(
        kind=ARCHIVE_KIND,
        namespace=state.spaces[event.namespace].archive_name,
        name=run.action,
        number=run.number,
        status=run.status,
        finished_at_ms=event.at_ms,
        key=run.idempotency_key,
        body=_encode(run),
        dead=run.dead_lettered,
    )


def leased_run(run: Run | None, command: Complete | Fail | Touch) -> Run:
    """The run this worker holds now; a stale holder is told so."""
    if run is None:
        raise NotFound(f"run {command.run_id!r} does not exist, or has ended", code="run_not_found")
    if (
        run.status is not RunStatus.RUNNING
        or run.worker_id != command.worker_id
        or command.attempt not in (0, run.attempt)
    ):
        holder = f", held by {run.worker_id!r} as attempt {run.attempt}" if run.worker_id else ""
        attempt = f" of attempt {command.attempt}" if command.attempt else ""
        raise Conflict(
            f"the lease of {command.worker_id!r} on run {run.run_id!r}{attempt} is lost: "
            f"the run is {run.status}{holder}",
            code="lease_lost",
        )
    return run


def has_retries(run: Run, action: Action) -> bool:
    """Whether another attempt is left in this life of the run."""
    return run.attempt - run.attempts_before <= action.max_retries


def _lease_ms(action: Action) -> int:
    """A guest is ended by its timeout, and gets a little longer to say so."""
    grace_ms = GUEST_GRACE_MS if action.guest is not None and action.timeout_ms else 0
    return action.timeout_ms + grace_ms


def _cannot_cancel(space: Space, command: Cancel, moment: Moment) -> NotFound | Conflict:
    ended = moment.recalled.runs.get((space.archive_name, command.run_id))
    if ended is None:
        return NotFound(f"run {command.run_id!r} does not exist", code="run_not_found")
    return Conflict(
        f"run {command.run_id!r} has ended already: it is {ended.status}", code="run_has_ended"
    )


def _check_invocation(command: Invoke) -> None:
    check_range(command.priority, "priority", 0, PRIORITY_MAX)
    check_range(command.delay_ms, "delay_ms", 0, DURATION_MS_MAX)
    if command.idempotency_key is not None:
        if not command.idempotency_key:
            raise Invalid("expected an idempotency key that is not empty")
        check_text(command.idempotency_key, "idempotency_key", IDEMPOTENCY_KEY_LENGTH_MAX)
    if command.labels:
        check_labels(command.labels, "labels")


def _run_with_key(space: Space, command: Invoke, moment: Moment) -> RunId | None:
    key = command.idempotency_key
    assert key is not None
    return space.keys.get((command.action, key)) or moment.recalled.keys.get(
        (space.archive_name, command.action, key)
    )


def _ready_runs(
    space: Space, command: Claim, labels: Labels | None, moment: Moment
) -> Iterator[Run]:
    """The runs a worker may have: the highest priority first, then the longest ready."""
    lanes: list[Iterator[Run]] = []
    for name in dict.fromkeys(command.actions):
        queue = space.queues.get(name)
        if queue is None:
            continue
        open_to = [_runs(space, name, lane) for lane in queue.open_to(labels) if lane]
        if open_to and (rate := rate_now(space, command.namespace, name, moment.live)) is not None:
            open_to = [_within(rate, _merged(open_to), moment.now_ms)]
        lanes += open_to
    return _merged(lanes)


def _merged(lanes: list[Iterator[Run]]) -> Iterator[Run]:
    if len(lanes) == 1:
        return lanes[0]
    return heapq.merge(*lanes, key=lambda run: (-run.priority, run.ready_at_ms, run.number))


def _within(rate: Rate, runs: Iterator[Run], now_ms: int) -> Iterator[Run]:
    """As many as may begin now."""
    for run in runs:
        if not rate.may_call(now_ms):
            return
        rate = rate.called(now_ms)
        yield run


def rate_now(space: Space, namespace: Namespace, name: ActionName, live: Live) -> Rate | None:
    """How many runs of an action have begun lately; None if it is not limited by rate."""
    action = space.actions.get(name) or space.deleted.get(name)
    if action is None or action.limits is None:
        return None
    return rate_under(action.limits, live.rates.get((namespace, name)))


def free_at_ms(state: State, claim: Claim, now_ms: int, live: Live) -> int | None:
    """When an action whose runs wait for its rate may begin one; None if none has to."""
    space = state.space(claim.namespace)
    times = [
        rate.next_at_ms(now_ms)
        for name in claim.actions
        if space.has_ready(name)
        and (rate := rate_now(space, claim.namespace, name, live)) is not None
    ]
    return min((at_ms for at_ms in times if at_ms > now_ms), default=None)


def _begun(space: Space, namespace: Namespace, tasks: list[Task]) -> Iterator[RunsBegun]:
    """What the windows of rates have to count."""
    limited = [task.task_type for task in tasks if space.settings(task.task_type).limits]
    for name in dict.fromkeys(limited):
        limits = space.settings(name).limits
        if limits is not None and rate_of_limits(limits).windows:
            count = limited.count(name)
            yield RunsBegun(namespace=namespace, action=name, count=count, limits=limits)


def _runs(space: Space, action: ActionName, numbers: Iterable[int]) -> Iterator[Run]:
    for number in numbers:
        yield space.runs[run_id_of(action, number)]


def _reported_run(state: State, command: Complete | Fail, moment: Moment) -> Run | None:
    space = state.space(command.namespace)
    run = space.runs.get(command.run_id)
    return run or moment.recalled.runs.get((space.archive_name, command.run_id))


def _reported_before(run: Run | None, command: Complete | Fail) -> bool:
    """Whether this very report was taken in already: its answer got lost, so it came again."""
    if run is None:
        return False
    match command:
        case Complete(worker_id=worker_id, attempt=attempt, output=output, outcome=outcome):
            if run.status is not RunStatus.COMPLETED:
                return False
            taken_in = (run.worker_id, run.attempt, run.output, run.outcome)
            return taken_in == (worker_id, attempt, output, outcome)
        case Fail(worker_id=worker_id, attempt=attempt, error=error):
            return any(
                (ended.worker_id, ended.number, ended.error)
                == (worker_id, attempt, error[:TEXT_LENGTH_MAX])
                for ended in run.attempts
            )


def _lease_ended(namespace: Namespace, space: Space, run: Run, moment: Moment) -> Fact:
    timeout_ms = space.settings(run.action).timeout_ms
    error = f"no result from worker {run.worker_id!r} within its lease (timeout_ms {timeout_ms})"
    return _given_up(namespace, space, run, error, moment)


def _given_up(
    namespace: Namespace, space: Space, run: Run, error: str, moment: Moment
) -> RunRequeued | RunTimedOut:
    """The worker is gone. That counts as an attempt."""
    action = space.settings(run.action)
    if has_retries(run, action):
        return _requeued(namespace, run, action, error, moment)
    return RunTimedOut(namespace=namespace, run_id=run.run_id, at_ms=moment.now_ms, error=error)


def _requeued(
    namespace: Namespace, run: Run, action: Action, error: str, moment: Moment
) -> RunRequeued:
    tries = run.attempt - run.attempts_before
    delay_ms = min(action.retry_delay_ms * 2 ** min(tries - 1, 40), DURATION_MS_MAX)
    return RunRequeued(
        namespace=namespace,
        run_id=run.run_id,
        at_ms=moment.now_ms,
        error=error,
        ready_at_ms=moment.now_ms + delay_ms,
    )


def _attempts_after(run: Run, at_ms: int, error: str) -> tuple[Attempt, ...]:
    """The attempts that have ended, with the one that ends now; of very many, the last."""
    assert run.worker_id is not None
    assert run.started_at_ms is not None
    ended = Attempt(
        number=run.attempt,
        worker_id=run.worker_id,
        started_at_ms=run.started_at_ms,
        ended_at_ms=at_ms,
        error=error[:TEXT_LENGTH_MAX],
    )
    return (*run.attempts[1 - ATTEMPTS_KEPT_MAX :], ended)


def restore_run(state: State, namespace: Namespace, run: Run) -> None:
    """Put a run of a snapshot back, with the indexes that follow from it; queues are there."""
    space = state.spaces[namespace]
    space.runs[run.run_id] = run
    if run.idempotency_key is not None:
        space.keys[run.action, run.idempotency_key] = run.run_id
    if run.worker_id is not None:
        space.held.setdefault(run.worker_id, {})[run.run_id] = None
        if run.lease_expires_at_ms is not None:
            state.due.set((RUN, namespace, run.run_id), run.lease_expires_at_ms)
    elif run.is_delayed:
        state.due.set((RUN, namespace, run.run_id), run.ready_at_ms)


def _release_lease(
    state: State, namespace: Namespace, run_id: RunId, at_ms: int, *, failed: bool | None
) -> Run:
    """The worker holds the run no more; `failed` None counts neither for nor against it."""
    space = state.spaces[namespace]
    run = space.runs[run_id]
    assert run.status is RunStatus.RUNNING
    assert run.worker_id is not None
    held = space.held[run.worker_id]
    del held[run_id]
    if not held:
        del space.held[run.worker_id]
    if run.lease_expires_at_ms is not None:
        state.due.clear((RUN, namespace, run_id))
    space.tallies[run.action].running -= 1
    leave_slot(space, run)
    if failed is not None:
        count_run(space, run.worker_id, run.action, at_ms, failed=failed)
    return run


def _finish(state: State, namespace: Namespace, run: Run) -> None:
    space = state.spaces[namespace]
    del space.runs[run.run_id]
    if run.idempotency_key is not None:
        _remember_key(state, space, (run.action, run.idempotency_key))
    if run.action in space.deleted and not space.tallies[run.action].live:
        state.let_go_of(space.deleted.pop(run.action))


def _remember_key(state: State, space: Space, key: tuple[ActionName, str]) -> None:
    state.keys_finished_count += 1
    space.keys_finished[key] = None
    if len(space.keys_finished) > KEYS_REMEMBERED_MAX:
        oldest, _ = space.keys_finished.popitem(last=False)
        del space.keys[oldest]
