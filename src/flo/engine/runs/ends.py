"""A run that has ended: it leaves the state, and the archive keeps it.

finished_run says what it has come to, archive_run what the archive is to keep of it; the folds let
go of its lease, its permit and its place in the queue, and remember its idempotency key a while.
"""

from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from flo.engine.due import RUN
from flo.engine.lists.subjects import tags_of_subject
from flo.engine.runs.events import RunCancelled, RunCompleted, RunFailed, RunTimedOut
from flo.engine.runs.limits import give_back_permit, leave_queue
from flo.engine.runs.records import ARCHIVE_KIND, Attempt, Run, Timing
from flo.engine.state import Space, State
from flo.engine.workers.rules import count_run
from flo.model.errors import CANCELLED_CODE
from flo.model.ids import TEXT_LENGTH_MAX, Namespace, RunId
from flo.model.runs import COMPLETED, RUNNING, RunStatus
from flo.model.storage.archive import Archived
from flo.model.views.attempts import AttemptEnd

ATTEMPTS_KEPT_MAX = 100

RunEnd: TypeAlias = RunCompleted | RunFailed | RunTimedOut | RunCancelled

_encode = msgspec.msgpack.Encoder().encode


def archive_run(state: State, event: RunEnd) -> tuple[Archived]:
    return (archived_run(state.spaces[event.namespace], finished_run(state, event)),)


def archived_run(space: Space, run: Run) -> Archived:
    """A run that has ended, as the archive keeps it."""
    assert run.finished_at_ms is not None
    return Archived(
        kind=ARCHIVE_KIND,
        namespace=space.archive_name,
        name=run.action,
        number=run.number,
        status=run.status,
        finished_at_ms=run.finished_at_ms,
        key=run.idempotency_key,
        body=_encode(run),
        dead=run.dead_lettered,
        sequence=run.sequence,
        tags=tags_of_subject(run.subject),
    )


def finished_run(state: State, event: RunEnd) -> Run:
    """The run as it ends with this event, which is yet to be applied."""
    run = state.spaces[event.namespace].runs[event.run_id]
    match event:
        case RunCompleted(at_ms=at_ms, output=output, outcome=outcome, timing=timing):
            return replace(
                run,
                status=COMPLETED,
                output=output,
                outcome=outcome,
                error=None,
                error_code=None,
                retryable=None,
                finished_at_ms=at_ms,
                since_position=state.position,
                timing=timing,
            )
        case RunCancelled(at_ms=at_ms, reason=reason):
            return replace(
                run,
                status=RunStatus.CANCELLED,
                error=reason or None,
                error_code=CANCELLED_CODE,
                retryable=None,
                finished_at_ms=at_ms,
                since_position=state.position,
                is_delayed=False,
                attempts=_attempts_of_cancelled(run, at_ms, reason),
                cancelled_by=state.by,
            )
        case RunFailed(dead_lettered=dead_lettered, retryable=retryable):
            status = RunStatus.FAILED
        case RunTimedOut():
            status, dead_lettered, retryable = RunStatus.TIMED_OUT, True, True
    return replace(
        run,
        status=status,
        error=event.error,
        error_code=event.error_code,
        retryable=retryable,
        finished_at_ms=event.at_ms,
        since_position=state.position,
        dead_lettered=dead_lettered,
        attempts=attempts_after(
            run,
            event.at_ms,
            event.error,
            event.error_code,
            event.end,
            event.timing,
            retryable=retryable,
        ),
        timing=event.timing,
    )


def _attempts_of_cancelled(run: Run, at_ms: int, reason: str) -> tuple[Attempt, ...]:
    if run.status is not RunStatus.RUNNING:
        return run.attempts
    return attempts_after(run, at_ms, reason, CANCELLED_CODE, AttemptEnd.CANCELLED)


def apply_completed(state: State, event: RunCompleted) -> None:
    run = release_lease(state, event.namespace, event.run_id, event.at_ms, failed=False)
    state.spaces[event.namespace].tallies[run.action].completed += 1
    _finish(state, event.namespace, run)


def apply_failed(state: State, event: RunFailed) -> None:
    run = release_lease(state, event.namespace, event.run_id, event.at_ms, failed=True)
    state.spaces[event.namespace].tallies[run.action].failed += 1
    _finish(state, event.namespace, run)


def apply_timed_out(state: State, event: RunTimedOut) -> None:
    run = release_lease(state, event.namespace, event.run_id, event.at_ms, failed=True)
    state.spaces[event.namespace].tallies[run.action].timed_out += 1
    _finish(state, event.namespace, run)


def apply_cancelled(state: State, event: RunCancelled) -> None:
    space = state.spaces[event.namespace]
    run = space.runs[event.run_id]
    if run.status is RunStatus.RUNNING:
        release_lease(state, event.namespace, event.run_id, event.at_ms, failed=None)
    else:
        space.tallies[run.action].pending -= 1
        if run.is_delayed:
            state.due.clear((RUN, event.namespace, event.run_id))
        else:
            leave_queue(state, space, run)
    space.tallies[run.action].cancelled += 1
    _finish(state, event.namespace, run)


def release_lease(
    state: State, namespace: Namespace, run_id: RunId, at_ms: int, *, failed: bool | None
) -> Run:
    """The worker holds the run no more; `failed` None counts neither for nor against it."""
    space = state.spaces[namespace]
    run = space.runs[run_id]
    assert run.status is RUNNING
    assert run.worker_id is not None
    held = space.held[run.worker_id]
    del held[run_id]
    if not held:
        del space.held[run.worker_id]
    if run.lease_expires_at_ms is not None:
        state.due.clear((RUN, namespace, run_id))
    space.tallies[run.action].running -= 1
    give_back_permit(state, space, run)
    if failed is not None:
        count_run(space, run.worker_id, run.action, at_ms, failed=failed)
    return run


def attempts_after(
    run: Run,
    at_ms: int,
    error: str,
    code: str | None,
    end: AttemptEnd,
    timing: Timing | None = None,
    *,
    retryable: bool = True,
) -> tuple[Attempt, ...]:
    """The attempts that have ended, with the one that ends now; of very many, the last."""
    assert run.worker_id is not None
    assert run.started_at_ms is not None
    ended = Attempt(
        number=run.attempt,
        worker_id=run.worker_id,
        started_at_ms=run.started_at_ms,
        ended_at_ms=at_ms,
        error=error[:TEXT_LENGTH_MAX],
        error_code=code,
        retryable=retryable,
        end=end,
        timing=timing,
    )
    return (*run.attempts[1 - ATTEMPTS_KEPT_MAX :], ended)


def _finish(state: State, namespace: Namespace, run: Run) -> None:
    space = state.spaces[namespace]
    del space.runs[run.run_id]
    if run.idempotency_key is not None:
        state.keys_finished_count += 1
        space.run_keys.finish((run.action, run.idempotency_key))
    if run.action in space.deleted and not space.tallies[run.action].live:
        state.let_go_of(space.deleted.pop(run.action))
