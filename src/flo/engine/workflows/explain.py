"""Why a workflow run is where it is, and what would move it."""

from itertools import islice

from flo.engine.context import Context
from flo.engine.runs.claims import rate_now
from flo.engine.runs.limits import waits_for_permit
from flo.engine.runs.queue import is_met, lane_key
from flo.engine.runs.records import Run
from flo.engine.state import Space, State
from flo.engine.workers.records import Worker
from flo.engine.workers.rules import worker_status
from flo.engine.workflows.execution import COMPENSATION, Execution
from flo.engine.workflows.lists.live import status_of
from flo.engine.workflows.lookups import ended_workflow
from flo.engine.workflows.queries import wait_view
from flo.engine.workflows.records import WorkflowRecord
from flo.engine.workflows.rules import not_found
from flo.model.ids import Namespace
from flo.model.runs import RunStatus
from flo.model.workers import WorkerStatus
from flo.model.workflows import BranchPhase, ExplainWorkflow, Explanation, WaitView, WorkflowStatus

HOLDERS_MAX = 3
"""So many of those who are before it are named."""

_ASLEEP = (WorkerStatus.UNHEALTHY, WorkerStatus.DRAINING)
_WAITS = {
    BranchPhase.SLEEP: "sleeps.",
    BranchPhase.RETRY: "has failed, and is tried again.",
    BranchPhase.POLL: "is still pending, and is asked again.",
    BranchPhase.REST: "waits until an executor of its plan may be called again.",
    BranchPhase.JOIN: "waits for its branches or items.",
    BranchPhase.BETWEEN: "has ended; the next one begins when the run is resumed.",
}


class _Reasons:
    """The reasons found so far, and the commands that would help."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.advice: list[str] = []

    def add(self, reason: str, *advice: str) -> None:
        self.found.append(reason)
        self.advice += [one for one in advice if one not in self.advice]


def explain(state: State, query: ExplainWorkflow, context: Context) -> Explanation:
    space = state.space(query.namespace)
    execution = space.executions.get(query.run_id)
    if execution is not None:
        return _under_way(space, query.namespace, execution, context)
    record = ended_workflow(space, query.run_id, context)
    if record is None:
        raise not_found(query.run_id)
    return _ended(record)


def _ended(record: WorkflowRecord) -> Explanation:
    run_id = record.run.run_id
    failed = [name for name, result in record.results.items() if result.outcome != "success"]
    advice = [f"flo workflow history {run_id}"]
    if record.status is not WorkflowStatus.COMPLETED:
        step = failed[-1] if failed else "start"
        advice.append(f"flo workflow rerun {run_id} --from {step}")
    return Explanation(
        run_id=run_id,
        status=record.status,
        summary=f"It has ended at {record.terminal}: it is {record.status}.",
        reasons=[record.error] if record.error else [],
        next_at_ms=None,
        advice=advice,
    )


def _under_way(
    space: Space, namespace: Namespace, execution: Execution, context: Context
) -> Explanation:
    reasons = _Reasons()
    if execution.paused:
        reasons.add("The run is paused.", f"flo workflow resume {execution.run_id}")
    if not execution.admitted:
        _explain_wait_queue(reasons, space, execution)
    if execution.ending is not None:
        reasons.add(f"It ends {execution.ending.status}, and is being undone first.")
    for name in execution.branches:
        wait = wait_view(execution, name)
        run = space.runs.get(wait.awaited) if wait.awaited is not None else None
        if wait.phase is BranchPhase.ACTION and run is not None:
            _explain_run(reasons, space, namespace, _where(wait), run, context)
        else:
            _explain_wait(reasons, execution, wait)
    return Explanation(
        run_id=execution.run_id,
        status=status_of(execution),
        summary=reasons.found[0] if reasons.found else "It is about to begin.",
        reasons=reasons.found,
        next_at_ms=execution.next_at_ms(),
        advice=reasons.advice,
    )


def _where(wait: WaitView) -> str:
    if wait.branch == COMPENSATION:
        return f"The rollback of step {wait.step!r}"
    return f"Step {wait.step!r}{f' ({wait.branch})' if wait.branch else ''}"


def _explain_wait_queue(reasons: _Reasons, space: Space, execution: Execution) -> None:
    """It waits for a permit."""
    run, limit = execution.run, execution.definition.concurrency
    if run.limit_key is None or limit is None:
        return
    permits = space.workflow_permits[run.workflow, run.limit_key]
    before = list(permits.waiting).index(run.run_id)
    key = f" with the key {run.limit_key!r}" if run.limit_key else ""
    reasons.add(
        f"It waits for a permit: {limit.max} at a time of workflow {run.workflow!r}{key} may run, "
        f"and {before} are before it.",
        *(f"flo workflow explain {holder}" for holder in islice(permits.holders, HOLDERS_MAX)),
    )


def _explain_wait(reasons: _Reasons, execution: Execution, wait: WaitView) -> None:
    match wait.phase:
        case BranchPhase.CHILD:
            reasons.add(
                f"{_where(wait)} waits for its child {wait.awaited}.",
                f"flo workflow explain {wait.awaited}",
            )
        case BranchPhase.SIGNAL:
            reasons.add(
                f"{_where(wait)} waits for a signal of type {wait.signal!r}.",
                f"flo workflow signal {execution.run_id} --type {wait.signal} '{{}}'",
            )
        case BranchPhase.BETWEEN if wait.until_ms is not None:
            reasons.add("It is about to begin.")
        case _:
            reasons.add(f"{_where(wait)} {_WAITS.get(wait.phase, 'waits.')}")


def _explain_run(
    reasons: _Reasons, space: Space, namespace: Namespace, where: str, run: Run, context: Context
) -> None:
    """A run that is awaited: in whose hands it is, or why it is in nobody's."""
    status = f"flo action status {run.run_id}"
    if run.status is RunStatus.RUNNING:
        reasons.add(
            f"{where} waits for run {run.run_id}, which worker {run.worker_id!r} has "
            f"(attempt {run.attempt}).",
            status,
        )
    elif run.is_delayed:
        reasons.add(
            f"{where} waits for run {run.run_id}, which is tried again: {run.error}", status
        )
    else:
        _explain_pending(reasons, space, namespace, where, run, context)


def _explain_pending(
    reasons: _Reasons, space: Space, namespace: Namespace, where: str, run: Run, context: Context
) -> None:
    waits = f"{where} waits for run {run.run_id}:"
    if _explain_limits(reasons, space, namespace, waits, run, context):
        return
    serving = [one for one in space.workers.values() if run.action in one.actions]
    fit = [one for one in serving if _has_labels(one, run)]
    awake = [one for one in fit if worker_status(space, one, namespace, context) not in _ASLEEP]
    if not serving:
        reasons.add(
            f"{waits} no worker is registered for action {run.action!r}.",
            f"flo worker run MODULE  # one that performs {run.action}",
        )
    elif not fit:
        reasons.add(f"{waits} no worker for {run.action!r} has the labels {run.labels}.")
    elif not awake:
        reasons.add(
            f"{waits} every worker for {run.action!r} is draining or has fallen silent.",
            "flo worker list",
        )
    else:
        reasons.add(
            f"{waits} {len(awake)} of its workers could take it, and are busy.",
            f"flo action runs {run.action} --status running",
        )


def _explain_limits(
    reasons: _Reasons, space: Space, namespace: Namespace, waits: str, run: Run, context: Context
) -> bool:
    """Whether it is the limits of its action that a run waits for."""
    limits = space.settings(run.action).limits
    settings = f"flo action info {run.action}"
    if limits is not None and waits_for_permit(space, run):
        key = f" with the key {run.limit_key!r}" if run.limit_key else ""
        reasons.add(
            f"{waits} {limits.concurrency_max} at a time of action {run.action!r}{key} may be "
            "under way, and others are before it.",
            settings,
        )
        return True
    rate = rate_now(space, namespace, run.action, context.volatile)
    if rate is not None and not rate.may_call(context.now_ms):
        reasons.add(f"{waits} no more runs of action {run.action!r} may begin for now.", settings)
        return True
    return False


def _has_labels(worker: Worker, run: Run) -> bool:
    return is_met(lane_key(run.labels), frozenset(lane_key(worker.labels)))
