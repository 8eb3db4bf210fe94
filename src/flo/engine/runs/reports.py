"""What comes of a run in the hands of a worker: a result, a failure, more time, or nothing at all.

    complete ──▸ completed
    fail ──▸ requeued, failed, timed out
    touch ──▸ the lease goes on
    the lease ends, the worker leaves or is lost ──▸ given up: requeued, timed out
    the worker is back, and never heard of it ──▸ released: requeued, and no attempt is used up
    the server died while it executed the module ──▸ given back, as if it had not been claimed

A report counts only from who holds the run; what one says that comes too late is remembered, see
runs/late.py. One that comes again, because its answer got lost, changes nothing again.
"""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from flo.engine.actions.records import Action
from flo.engine.actions.schemas import check_schema
from flo.engine.context import Context
from flo.engine.decision import Decision
from flo.engine.due import RUN, DueKey
from flo.engine.kv.rules import decide_transact
from flo.engine.runs.ends import attempts_after, release_lease
from flo.engine.runs.events import (
    RunCompleted,
    RunFailed,
    RunGivenBack,
    RunReleased,
    RunRequeued,
    RunTimedOut,
    RunTouched,
)
from flo.engine.runs.late import refuse_late, reported_code, reported_timing
from flo.engine.runs.limits import enter_queue, return_to_queue
from flo.engine.runs.lookups import ended_run
from flo.engine.runs.records import Run, Timing
from flo.engine.state import Space, State
from flo.engine.workers.events import WorkerBack, WorkerDeregistered, WorkerLost
from flo.model.base import Event
from flo.model.errors import TIMEOUT_CODE, Conflict, NotFound, TooLarge
from flo.model.ids import (
    DURATION_MS_MAX,
    ERROR_LENGTH_MAX,
    TEXT_LENGTH_MAX,
    Namespace,
    WorkerId,
)
from flo.model.kv import OPERATIONS_PER_TRANSACTION_MAX, Transact
from flo.model.runs import (
    CHECKS_PER_RESULT_MAX,
    COMPLETED,
    RUNNING,
    Accepted,
    Complete,
    Fail,
    RunStatus,
    Touch,
    Touched,
)
from flo.model.views.attempts import AttemptEnd
from flo.model.workers import INLINE_WORKER_ID

GIVEN_BACK_MAX = 10
"""So often a run is given back; then every further time counts as an attempt."""

ENDED_BY_NO_FAULT = frozenset({AttemptEnd.WORKER_LEFT, AttemptEnd.WORKER_LOST, AttemptEnd.RELEASED})
"""What ended so is ready at once, without backoff, and goes back to where it was in the queue."""


def decide_complete(state: State, command: Complete, context: Context) -> Decision:
    run = _reported_run(state, command, context)
    if _reported_before(run, command):
        return Decision(Accepted(run_id=command.run_id, status=RunStatus.COMPLETED))
    if not is_held(run, command):
        return refuse_late(state, run, command, lease_lost(run, command), context)
    action = state.spaces[command.namespace].settings(run.action)
    check_schema(action.output_schema, command.output, "the output", "output_invalid", context)
    completed = RunCompleted(
        namespace=command.namespace,
        run_id=command.run_id,
        at_ms=context.now_ms,
        output=command.output,
        outcome=command.outcome,
        timing=reported_timing(command),
    )
    changed = _changed_keys(state, command, context) if command.checks or command.changes else ()
    reply = Accepted(run_id=command.run_id, status=COMPLETED)
    return Decision(reply, (*changed, completed))


def _changed_keys(state: State, command: Complete, context: Context) -> Iterable[Event]:
    """The keys that a result changes: the run ends and they change in one step, or neither."""
    _check_what_was_read(state, command, context)
    changes = Transact(namespace=command.namespace, changes=command.changes)
    return decide_transact(state, changes, context).events


def _check_what_was_read(state: State, command: Complete, context: Context) -> None:
    """A run may read more keys than a transaction may name."""
    checks = command.checks
    if len(checks) > CHECKS_PER_RESULT_MAX:
        raise TooLarge(
            f"expected at most {CHECKS_PER_RESULT_MAX} checks with a result, got {len(checks)}"
        )
    for start in range(0, len(checks), OPERATIONS_PER_TRANSACTION_MAX):
        some = checks[start : start + OPERATIONS_PER_TRANSACTION_MAX]
        decide_transact(state, Transact(namespace=command.namespace, checks=some), context)


def decide_fail(state: State, command: Fail, context: Context) -> Decision:
    run = _reported_run(state, command, context)
    if _reported_before(run, command):
        return Decision(Accepted(run_id=command.run_id, status=run.status))
    if not is_held(run, command):
        return refuse_late(state, run, command, lease_lost(run, command), context)
    space = state.spaces[command.namespace]
    error, code = command.error[:ERROR_LENGTH_MAX], reported_code(command)
    action = space.settings(run.action)
    if command.retry and has_retries(run, action):
        requeued = _requeued(
            command.namespace,
            run,
            action,
            context,
            error,
            code,
            AttemptEnd.REPORTED,
            reported_timing(command),
        )
        return Decision(Accepted(run_id=run.run_id, status=RunStatus.PENDING), (requeued,))
    if command.timed_out:
        timed_out = RunTimedOut(
            namespace=command.namespace,
            run_id=run.run_id,
            at_ms=context.now_ms,
            error=error,
            error_code=code,
            end=AttemptEnd.REPORTED,
            timing=reported_timing(command),
        )
        return Decision(Accepted(run_id=run.run_id, status=RunStatus.TIMED_OUT), (timed_out,))
    failed = RunFailed(
        namespace=command.namespace,
        run_id=run.run_id,
        at_ms=context.now_ms,
        error=error,
        dead_lettered=command.dead_letter,
        error_code=code,
        retryable=command.retry or command.dead_letter,
        end=AttemptEnd.REPORTED,
        timing=reported_timing(command),
    )
    return Decision(Accepted(run_id=run.run_id, status=RunStatus.FAILED), (failed,))


def decide_touch(state: State, command: Touch, context: Context) -> Decision:
    run = state.space(command.namespace).runs.get(command.run_id)
    if run is None:
        raise _unknown(command)
    if not is_held(run, command):
        raise lease_lost(run, command)
    if run.lease_expires_at_ms is None:
        return Decision(Touched(run_id=run.run_id, lease_expires_at_ms=None))
    lease_expires_at_ms = context.now_ms + command.extend_ms
    touched = RunTouched(
        namespace=command.namespace,
        run_id=run.run_id,
        lease_expires_at_ms=lease_expires_at_ms,
        at_ms=context.now_ms,
    )
    reply = Touched(run_id=run.run_id, lease_expires_at_ms=lease_expires_at_ms)
    return Decision(reply, (touched,))


def fall_due(state: State, key: DueKey, context: Context) -> Iterable[Event]:
    """A delay is over, or a lease."""
    _, namespace, run_id = key
    space = state.spaces[namespace]
    run = space.runs[run_id]
    if run.status is RunStatus.PENDING:
        yield RunReleased(namespace=namespace, run_id=run_id)
    else:
        yield _lease_ended(namespace, space, run, context)


def react_worker_deregistered(
    state: State, event: WorkerDeregistered, context: Context
) -> Iterable[Event]:
    """What a worker leaves undone is free at once; nobody needs to wait for the lease to end."""
    space = state.spaces[event.namespace]
    error = f"worker {event.worker_id!r} left"
    for run in _held_by(space, event.worker_id):
        if _was_cut_off(run):
            yield RunGivenBack(namespace=event.namespace, run_id=run.run_id, at_ms=context.now_ms)
        else:
            yield given_up(event.namespace, space, run, context, error, AttemptEnd.WORKER_LEFT)


def react_worker_lost(state: State, event: WorkerLost, context: Context) -> Iterable[Event]:
    """So is what a worker had that did not come back."""
    space = state.spaces[event.namespace]
    error = f"worker {event.worker_id!r} was lost: its connection broke, and it did not come back"
    for run in _held_by(space, event.worker_id):
        yield given_up(event.namespace, space, run, context, error, AttemptEnd.WORKER_LOST)


def react_worker_back(state: State, event: WorkerBack, context: Context) -> Iterable[Event]:
    """What a worker does not hold, although it was given to it, it has never heard of.

    What was given to a former process of the same name is lost with that.
    """
    space, held = state.spaces[event.namespace], frozenset(event.held)
    began_at_ms = space.workers[event.worker_id].began_at_ms
    for run in _held_by(space, event.worker_id):
        if (run.run_id, run.attempt) in held:
            continue
        if (run.started_at_ms or 0) < began_at_ms:
            error = f"another process has taken the place of worker {event.worker_id!r}"
            yield given_up(event.namespace, space, run, context, error, AttemptEnd.WORKER_LOST)
        else:
            yield RunRequeued(
                namespace=event.namespace,
                run_id=run.run_id,
                at_ms=event.at_ms,
                error=f"worker {event.worker_id!r} never heard of it",
                ready_at_ms=min(run.ready_at_ms, event.at_ms),
                end=AttemptEnd.RELEASED,
            )


def _held_by(space: Space, worker_id: WorkerId) -> Iterator[Run]:
    """What a worker holds, the last first: each that is requeued comes before the one before it."""
    held = [space.runs[run_id] for run_id in space.held.get(worker_id, ())]
    held.sort(key=lambda run: (run.ready_at_ms, run.action, run.number), reverse=True)
    for run in held:
        if run.run_id in space.runs:  # else what came of another one has cancelled it
            yield run


def apply_touched(state: State, event: RunTouched) -> None:
    space = state.spaces[event.namespace]
    run = space.runs[event.run_id]
    space.runs[run.run_id] = replace(run, lease_expires_at_ms=event.lease_expires_at_ms)
    if event.lease_expires_at_ms is not None:
        state.due.set((RUN, event.namespace, run.run_id), event.lease_expires_at_ms)


def apply_requeued(state: State, event: RunRequeued) -> None:
    counts = event.end is not AttemptEnd.RELEASED
    failed = True if counts else None
    run = release_lease(state, event.namespace, event.run_id, event.at_ms, failed=failed)
    space = state.spaces[event.namespace]
    run = replace(
        run,
        status=RunStatus.PENDING,
        since_position=state.position,
        worker_id=None,
        lease_expires_at_ms=None,
        ready_at_ms=event.ready_at_ms,
        is_delayed=event.ready_at_ms > event.at_ms,
        error=event.error if counts else run.error,
        error_code=event.error_code if counts else run.error_code,
        retryable=True if counts else run.retryable,
        attempts=attempts_after(
            run, event.at_ms, event.error, event.error_code, event.end, event.timing
        ),
        attempts_before=run.attempts_before + (0 if counts else 1),
    )
    space.runs[run.run_id] = run
    space.tallies[run.action].pending += 1
    if run.is_delayed:
        state.due.set((RUN, event.namespace, run.run_id), event.ready_at_ms)
    elif event.end in ENDED_BY_NO_FAULT:
        return_to_queue(state, space, run)
    else:
        enter_queue(state, space, run)


def apply_given_back(state: State, event: RunGivenBack) -> None:
    run = release_lease(state, event.namespace, event.run_id, event.at_ms, failed=None)
    space = state.spaces[event.namespace]
    run = replace(
        run,
        status=RunStatus.PENDING,
        since_position=state.position,
        attempt=run.attempt - 1,
        worker_id=None,
        started_at_ms=None,
        lease_expires_at_ms=None,
        ready_at_ms=min(run.ready_at_ms, event.at_ms),
        given_back=run.given_back + 1,
    )
    space.runs[run.run_id] = run
    space.tallies[run.action].pending += 1
    return_to_queue(state, space, run)


def is_held(run: Run, command: Complete | Fail | Touch) -> bool:
    """Whether this worker holds the run, as this attempt."""
    return (
        run.status is RUNNING
        and run.worker_id == command.worker_id
        and command.attempt in (0, run.attempt)
    )


def lease_lost(run: Run, command: Complete | Fail | Touch) -> Conflict:
    holder = f", held by {run.worker_id!r} as attempt {run.attempt}" if run.worker_id else ""
    attempt = f" of attempt {command.attempt}" if command.attempt else ""
    return Conflict(
        f"the lease of {command.worker_id!r} on run {run.run_id!r}{attempt} is lost: "
        f"the run is {run.status}{holder}",
        code="lease_lost",
        details={"status": run.status},
    )


def has_retries(run: Run, action: Action) -> bool:
    """Whether another attempt is left in this life of the run."""
    return run.attempt - run.attempts_before <= action.max_retries


def _reported_run(state: State, command: Complete | Fail, context: Context) -> Run:
    space = state.space(command.namespace)
    run = space.runs.get(command.run_id) or ended_run(space, command.run_id, context)
    if run is None:
        raise _unknown(command)
    return run


def _unknown(command: Complete | Fail | Touch) -> NotFound:
    return NotFound(f"run {command.run_id!r} does not exist, or has ended", code="run_not_found")


def _reported_before(run: Run, command: Complete | Fail) -> bool:
    """Whether this very report was taken in already: its answer got lost, so it came again."""
    if run.status is RUNNING and not run.attempts:
        return False
    match command:
        case Complete(worker_id=worker_id, attempt=attempt, output=output, outcome=outcome):
            if run.status is not RunStatus.COMPLETED:
                return False
            taken_in = (run.worker_id, run.attempt, run.output, run.outcome)
            return taken_in == (worker_id, attempt, output, outcome)
        case Fail(worker_id=worker_id, attempt=attempt, error=error):
            return any(
                (ended.worker_id, ended.number, ended.error, ended.end)
                == (worker_id, attempt, error[:TEXT_LENGTH_MAX], AttemptEnd.REPORTED)
                for ended in run.attempts
            )


def _lease_ended(namespace: Namespace, space: Space, run: Run, context: Context) -> Event:
    timeout_ms = space.settings(run.action).timeout_ms
    if _was_cut_off(run) and (run.started_at_ms or 0) <= context.volatile.started_at_ms:
        return RunGivenBack(namespace=namespace, run_id=run.run_id, at_ms=context.now_ms)
    error = f"no result from worker {run.worker_id!r} within its lease (timeout_ms {timeout_ms})"
    return given_up(namespace, space, run, context, error, AttemptEnd.LEASE_EXPIRED)


def given_up(
    namespace: Namespace, space: Space, run: Run, context: Context, error: str, end: AttemptEnd
) -> RunRequeued | RunTimedOut:
    """The worker has not reported in time, or is gone. That counts as an attempt."""
    action = space.settings(run.action)
    code = TIMEOUT_CODE if end is AttemptEnd.LEASE_EXPIRED else end.value
    if has_retries(run, action):
        return _requeued(namespace, run, action, context, error, code, end)
    return RunTimedOut(
        namespace=namespace,
        run_id=run.run_id,
        at_ms=context.now_ms,
        error=error,
        error_code=code,
        end=end,
    )


def _was_cut_off(run: Run) -> bool:
    """Whether the server, which executes its module, has died meanwhile: nothing has come of it.

    A module that was there each of many times is suspected to be the cause.
    """
    return run.worker_id == INLINE_WORKER_ID and run.given_back < GIVEN_BACK_MAX


def _requeued(
    namespace: Namespace,
    run: Run,
    action: Action,
    context: Context,
    error: str,
    code: str,
    end: AttemptEnd,
    timing: Timing | None = None,
) -> RunRequeued:
    tries = run.attempt - run.attempts_before
    delay_ms = min(action.retry_delay_ms * 2 ** min(tries - 1, 40), DURATION_MS_MAX)
    ready_at_ms = context.now_ms + delay_ms
    if end in ENDED_BY_NO_FAULT:
        ready_at_ms = min(run.ready_at_ms, context.now_ms)
    return RunRequeued(
        namespace=namespace,
        run_id=run.run_id,
        at_ms=context.now_ms,
        error=error,
        ready_at_ms=ready_at_ms,
        error_code=code,
        end=end,
        timing=timing,
    )
