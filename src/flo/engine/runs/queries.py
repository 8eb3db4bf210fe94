"""Queries about runs: one of them, lists, and which of those that are waited for have ended."""

from collections.abc import Iterable

from flo.engine.context import Context
from flo.engine.dead_letters import page_of_dead
from flo.engine.decision import Unfilled
from flo.engine.lists.portion import page_of_portion
from flo.engine.runs.inputs.fill import bytes_in_memory, page_shown, run_shown, stored_inputs
from flo.engine.runs.lists.pages import positions_below
from flo.engine.runs.lookups import (
    ended_run,
    found_dead,
    found_runs,
    numbers_below,
)
from flo.engine.runs.records import Attempt, LateReport, Run, RunCause
from flo.engine.state import State
from flo.model.errors import NotFound
from flo.model.ids import Namespace
from flo.model.runs import (
    Ended,
    GetRun,
    ListDeadRuns,
    ListRuns,
    RunPage,
    RunResult,
    RunView,
    WaitForRuns,
)
from flo.model.storage.payloads import length_of
from flo.model.views.attempts import AttemptView, LateReportView
from flo.model.views.causes import CauseKind, CauseView

PAYLOADS_PER_PAGE_LENGTH_MAX = 2 * 1024 * 1024


def get_run(state: State, query: GetRun, context: Context) -> RunView | Unfilled:
    space = state.space(query.namespace)
    run = space.runs.get(query.run_id) or ended_run(space, query.run_id, context)
    if run is None:
        raise NotFound(f"run {query.run_id!r} does not exist", code="run_not_found")
    return run_shown(run_view(query.namespace, run), stored_inputs(space, (run,)))


def wait_for_runs(state: State, query: WaitForRuns, context: Context) -> Ended:
    space = state.space(query.namespace)
    results, unknown = [], []
    for run_id in query.run_ids:
        if run_id not in space.runs:
            run = ended_run(space, run_id, context)
            if run is None:
                unknown.append(run_id)
            else:
                results.append(run_result(run))
    return Ended(results=results, unknown=unknown)


def list_runs(state: State, query: ListRuns, context: Context) -> RunPage | Unfilled:
    """A page of what was live when the archive was asked, and what it knew."""
    space = state.space(query.namespace)
    positions_below(space, query)  # a cursor that makes no sense is refused
    found = found_runs(space, query, context)
    runs, cursor = page_of_portion(found, query, _length, PAYLOADS_PER_PAGE_LENGTH_MAX)
    page = RunPage(items=[run_view(query.namespace, run) for run in runs], cursor=cursor)
    return page_shown(page, stored_inputs(space, runs))


def list_dead(state: State, query: ListDeadRuns, context: Context) -> RunPage | Unfilled:
    space = state.space(query.namespace)
    numbers_below(space, query)  # a cursor that makes no sense is refused
    dead, cursor = page_of_dead(found_dead(space, query.action, context), query.limit)
    fitting = list(_within_length(dead))
    if len(fitting) < len(dead):
        cursor = str(fitting[-1].number)
    page = RunPage(items=[run_view(query.namespace, run) for run in fitting], cursor=cursor)
    return page_shown(page, stored_inputs(space, fitting))


def run_view(namespace: Namespace, run: Run) -> RunView:
    return RunView(
        run_id=run.run_id,
        action=run.action,
        namespace=namespace,
        status=run.status,
        priority=run.priority,
        attempt=run.attempt,
        input=bytes_in_memory(run.input),
        created_at_ms=run.created_at_ms,
        ready_at_ms=run.ready_at_ms,
        started_at_ms=run.started_at_ms,
        finished_at_ms=run.finished_at_ms,
        worker_id=run.worker_id,
        lease_expires_at_ms=run.lease_expires_at_ms,
        output=run.output,
        outcome=run.outcome,
        error=run.error,
        dead_lettered=run.dead_lettered,
        idempotency_key=run.idempotency_key,
        labels=run.labels,
        attempts=[_attempt_view(attempt) for attempt in run.attempts],
        error_code=run.error_code,
        retryable=run.retryable,
        cause=_cause_view(run.cause),
        subject=run.subject,
        took_ms=run.timing.took_ms if run.timing else None,
        held_ms=run.timing.held_ms if run.timing else None,
        by=run.by,
        cancelled_by=run.cancelled_by,
    )


def _cause_view(cause: RunCause | None) -> CauseView:
    if cause is None:
        return CauseView(kind=CauseKind.CALLER)
    return CauseView(
        kind=CauseKind.WORKFLOW,
        workflow_run_id=cause.run_id,
        branch=cause.branch,
        step=cause.step,
        visit=cause.visit,
        attempt=cause.attempt,
    )


def _attempt_view(attempt: Attempt) -> AttemptView:
    return AttemptView(
        number=attempt.number,
        worker_id=attempt.worker_id,
        started_at_ms=attempt.started_at_ms,
        ended_at_ms=attempt.ended_at_ms,
        error=attempt.error,
        error_code=attempt.error_code,
        retryable=attempt.retryable,
        end=attempt.end,
        took_ms=attempt.timing.took_ms if attempt.timing else None,
        held_ms=attempt.timing.held_ms if attempt.timing else None,
        late_report=_late_view(attempt.late) if attempt.late is not None else None,
    )


def _late_view(late: LateReport) -> LateReportView:
    return LateReportView(
        worker_id=late.worker_id,
        reported_at_ms=late.at_ms,
        outcome=late.outcome,
        output=late.output,
        output_digest=late.output_digest,
        error=late.error,
        error_code=late.error_code,
        took_ms=late.timing.took_ms if late.timing else None,
        held_ms=late.timing.held_ms if late.timing else None,
    )


def run_result(run: Run) -> RunResult:
    return RunResult(
        run_id=run.run_id,
        status=run.status,
        attempt=run.attempt,
        output=run.output,
        outcome=run.outcome,
        error=run.error,
        error_code=run.error_code,
        retryable=run.retryable,
    )


def _within_length(runs: Iterable[Run]) -> Iterable[Run]:
    """As many as one reply may carry, and at least one."""
    length = 0
    for run in runs:
        yield run
        length += _length(run)
        if length > PAYLOADS_PER_PAGE_LENGTH_MAX:
            return


def _length(run: Run) -> int:
    return length_of(run.input) + len(run.output or b"")
