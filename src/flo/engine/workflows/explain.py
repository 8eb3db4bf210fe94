"""Why a workflow run is where it is, and what would move it.

paused? in line? being undone? ──▸ what each branch waits for ──▸ the causes of the run it awaits
"""

from collections.abc import Iterable, Iterator
from itertools import islice

from msgspec.structs import replace

from flo.engine.context import Context
from flo.engine.plans.explain import causes_of_plan
from flo.engine.plans.monitors import monitor_key
from flo.engine.runs.explain.causes import HOLDERS_SHOWN_MAX, causes_of
from flo.engine.state import Space, State
from flo.engine.workflows.advance.registration import awaited_action
from flo.engine.workflows.blocks.explain import OF_BLOCKS, causes_after, causes_before
from flo.engine.workflows.execution import COMPENSATION, Execution
from flo.engine.workflows.lists.live import status_of
from flo.engine.workflows.lookups import ended_workflow
from flo.engine.workflows.queries import wait_view
from flo.engine.workflows.records import AWAITED_PIPELINE, Branch, WorkflowRecord
from flo.engine.workflows.rules import not_found
from flo.engine.workflows.warn.reruns import rerun_advice
from flo.engine.workflows.warn.signals import awaited_types, signal_warning, untaken_signals
from flo.model.explain import Cause, CauseCode, since_when
from flo.model.ids import ActionName, Namespace
from flo.model.storage.since import Since
from flo.model.workflows import BranchPhase, ExplainWorkflow, Explanation, WaitView, WorkflowStatus
from flo.workflow.plan.progress import BREAKER_OPEN
from flo.workflow.steps import RunStep

_WAITS = {
    BranchPhase.SLEEP: (CauseCode.SLEEPING, "sleeps."),
    BranchPhase.RETRY: (CauseCode.STEP_RETRY, "has failed, and is tried again."),
    BranchPhase.POLL: (CauseCode.POLLING, "is still pending, and is asked again."),
    BranchPhase.REST: (
        CauseCode.EXECUTOR_REST,
        "waits until an executor of its plan may be called again.",
    ),
    BranchPhase.PACE: (
        CauseCode.STEP_RATE,
        "has ended; the run is faster than it may be, and its next step is delayed.",
    ),
    BranchPhase.JOIN: (CauseCode.WAITING_FOR_BRANCHES, "waits for its branches or items."),
    BranchPhase.BETWEEN: (
        CauseCode.BETWEEN_STEPS,
        "has ended; the next one begins when the run is resumed.",
    ),
}


def explain(state: State, query: ExplainWorkflow, context: Context) -> Explanation:
    space = state.space(query.namespace)
    execution = space.executions.get(query.run_id)
    if execution is not None:
        causes = list(_under_way(state, query.namespace, execution, context))
        if execution.paused:  # nothing of it falls due
            causes = [replace(cause, next_at_ms=None) for cause in causes]
        return _explanation(
            query.run_id, status_of(execution), causes, execution.next_at_ms(), causes[0].text
        )
    record = ended_workflow(space, query.run_id, context)
    if record is None:
        raise not_found(query.run_id)
    return _ended(space, query.namespace, record, context)


def _explanation(
    run_id: str,
    status: WorkflowStatus,
    causes: list[Cause],
    next_at_ms: int | None,
    summary: str,
) -> Explanation:
    times = [at_ms for at_ms in (next_at_ms, *(one.next_at_ms for one in causes)) if at_ms]
    return Explanation(
        run_id=run_id,
        status=status,
        summary=summary,
        reasons=[cause.text for cause in causes],
        next_at_ms=min(times, default=None),
        advice=list(dict.fromkeys(one for cause in causes for one in cause.advice)),
        causes=causes,
    )


def _ended(
    space: Space, namespace: Namespace, record: WorkflowRecord, context: Context
) -> Explanation:
    run_id = record.run.run_id
    failed = [name for name, result in record.results.items() if result.outcome != "success"]
    advice = [f"flo workflow history {run_id}", *rerun_advice(space, record, failed)]
    summary = f"It has ended at {record.terminal}: it is {record.status}."
    ended = Cause(
        code=CauseCode.ENDED,
        text=record.error or summary,
        since_at_ms=record.finished_at_ms,
        since_position=record.position,
        advice=advice,
        facts={
            "status": record.status.value,
            "terminal": record.terminal,
            "error": record.error,
            "error_code": record.error_code,
            "steps_failed": failed,
        },
    )
    causes = [ended, *_breakers_met(space, namespace, record, context)]
    explained = _explanation(run_id, record.status, causes, None, summary)
    return explained if record.error else replace(explained, reasons=explained.reasons[1:])


def _breakers_met(
    space: Space, namespace: Namespace, record: WorkflowRecord, context: Context
) -> Iterable[Cause]:
    """The breakers that are open still, if it has failed for one."""
    workflow = space.workflows.get(record.run.workflow)
    deployed = workflow.version(record.run.version) if workflow is not None else None
    if deployed is None or record.error_code != BREAKER_OPEN:
        return
    ended = Since(at_ms=record.finished_at_ms, position=record.position)
    for plan in deployed.definition.plans:
        key = (namespace, record.run.workflow, record.run.version, plan)
        for cause in causes_of_plan(space, key, ended, context):
            if cause.code is CauseCode.BREAKER_OPEN:
                yield cause


def _under_way(
    state: State, namespace: Namespace, execution: Execution, context: Context
) -> Iterator[Cause]:
    if execution.paused:
        yield Cause(
            code=CauseCode.PAUSED,
            text="The run is paused.",
            **since_when(execution.paused_since),
            advice=[f"flo workflow resume {execution.run_id}"],
        )
    if not execution.admitted:
        yield _in_line(state.space(namespace), execution)
    if execution.ending is not None:
        yield Cause(
            code=CauseCode.ROLLING_BACK,
            text=f"It ends {execution.ending.status}, and is being undone first.",
            **since_when(execution.ending_since),
            facts={"status": execution.ending.status.value, "steps": list(execution.to_undo)},
        )
        yield from causes_after(state, namespace, execution, context)
    for name, branch in execution.branches.items():
        wait = wait_view(execution, name)
        yield from _causes_of_wait(state, namespace, execution, wait, branch, context)
    if not (execution.branches or execution.paused or execution.ending) and execution.admitted:
        yield _beginning(execution)
    yield from _of_workflow(state.space(namespace), execution)
    yield from _untaken(execution)


def _untaken(execution: Execution) -> Iterator[Cause]:
    """Signals that came, and that no step will take."""
    for kind in untaken_signals(execution):
        warning = signal_warning(execution.definition, kind) or ""
        yield Cause(
            code=CauseCode.SIGNAL_UNTAKEN,
            text=f"{warning[:1].upper()}{warning[1:]}.",
            since_at_ms=min(one.at_ms for one in execution.signals if one.type == kind),
            facts={"signal": kind, "awaited": awaited_types(execution.definition)},
        )


def _of_workflow(space: Space, execution: Execution) -> Iterator[Cause]:
    """What is worth knowing of its workflow; it does not keep a run that is there from going on."""
    run, workflow = execution.run, space.workflows[execution.run.workflow]
    since = workflow.rests_since(run.version)
    if since is not None:
        which = "" if workflow.disabled_since else f"Version {run.version!r} of workflow"
        yield Cause(
            code=CauseCode.WORKFLOW_DISABLED,
            text=f"{which or 'Workflow'} {run.workflow!r} is disabled; this run goes on, and no "
            "other begins.",
            **since_when(since),
            advice=[f"flo workflow enable {run.workflow}"],
            facts={"workflow": run.workflow, "version": run.version},
        )


def _beginning(execution: Execution) -> Cause:
    return Cause(
        code=CauseCode.BEGINNING,
        text="It is about to begin.",
        **since_when(execution.since),
        next_at_ms=execution.next_at_ms(),
    )


def _causes_of_wait(
    state: State,
    namespace: Namespace,
    execution: Execution,
    wait: WaitView,
    branch: Branch,
    context: Context,
) -> Iterator[Cause]:
    if wait.phase in OF_BLOCKS:
        yield from causes_before(state, namespace, execution, branch.since, context)
        return
    run = state.space(namespace).runs.get(wait.awaited) if wait.awaited is not None else None
    if wait.phase is BranchPhase.ACTION and run is not None:
        for cause in causes_of(state, namespace, run, context):
            yield _of_awaited(wait, cause)
    elif (action := awaited_action(state.space(namespace), execution, wait.branch)) is not None:
        yield _unregistered(wait, branch, action)
    else:
        yield _waits(execution, wait, branch)
    step = execution.step(wait.branch)
    if isinstance(step, RunStep) and step.run.name in execution.definition.plans:
        key = monitor_key(namespace, execution, step.run.name)
        for cause in causes_of_plan(state.space(namespace), key, branch.since, context):
            yield replace(cause, facts={**cause.facts, **_place(wait)})


def _unregistered(wait: WaitView, branch: Branch, action: ActionName) -> Cause:
    return Cause(
        code=CauseCode.ACTION_NOT_REGISTERED,
        text=f"{_where(wait)} waits for action {action!r} to be registered.",
        since_at_ms=branch.began_at_ms,
        since_position=branch.since.position if branch.since is not None else None,
        next_at_ms=wait.until_ms,
        advice=[f"flo action register {action}"],
        facts={**_place(wait), "action": action},
    )


def _of_awaited(wait: WaitView, cause: Cause) -> Cause:
    """A cause of the run that a step waits for."""
    text = cause.text[0].lower() + cause.text[1:]
    return replace(
        cause,
        text=f"{_where(wait)} waits for run {wait.awaited}: {text}",
        advice=list(cause.advice) or [f"flo action status {wait.awaited}"],
        facts={**cause.facts, **_place(wait), "run_id": wait.awaited},
    )


def _where(wait: WaitView) -> str:
    if wait.branch == COMPENSATION:
        return f"The rollback of step {wait.step!r}"
    return f"Step {wait.step!r}{f' ({wait.branch})' if wait.branch else ''}"


def _place(wait: WaitView) -> dict[str, str]:
    return {"step": wait.step, "branch": wait.branch}


def _in_line(space: Space, execution: Execution) -> Cause:
    """It waits for a permit."""
    run, limit = execution.run, execution.definition.concurrency
    if run.limit_key is None or limit is None:
        return _beginning(execution)
    permits = space.workflow_permits[run.workflow, run.limit_key]
    before = list(permits.waiting).index(run.run_id)
    holders = list(islice(permits.holders, HOLDERS_SHOWN_MAX))
    key = f" with the key {run.limit_key!r}" if run.limit_key else ""
    return Cause(
        code=CauseCode.WORKFLOW_LIMIT,
        text=f"It waits for a permit: {limit.max} at a time of workflow {run.workflow!r}{key} may "
        f"run, and {before} are before it.",
        since_at_ms=run.created_at_ms,
        since_position=execution.since.position if execution.since else None,
        advice=[f"flo workflow explain {holder}" for holder in holders],
        facts={
            "workflow": run.workflow,
            "limit": limit.max,
            "key": run.limit_key,
            "before": before,
            "holders": holders,
            "held_since": [_held_since(space.executions[one]) for one in holders],
        },
    )


def _held_since(holder: Execution) -> dict[str, int]:
    """Since when another execution has its permit."""
    assert holder.since is not None
    return {"at": holder.since.at_ms, "position": holder.since.position}


def _waits(execution: Execution, wait: WaitView, branch: Branch) -> Cause:
    """What a branch waits for that is no run of an action."""
    match wait.phase:
        case BranchPhase.CHILD:
            return Cause(
                code=CauseCode.WAITING_FOR_CHILD,
                text=f"{_where(wait)} waits for its child {wait.awaited}.",
                **since_when(branch.since),
                next_at_ms=wait.until_ms,
                advice=[f"flo workflow explain {wait.awaited}"],
                facts={**_place(wait), "child": wait.awaited},
            )
        case BranchPhase.PIPELINE:
            pipeline = (wait.awaited or "").removeprefix(AWAITED_PIPELINE)
            return Cause(
                code=CauseCode.WAITING_FOR_CHILD,
                text=f"{_where(wait)} waits for pipeline {pipeline}.",
                **since_when(branch.since),
                next_at_ms=wait.until_ms,
                advice=[f"flo pipeline status {pipeline}"],
                facts={**_place(wait), "pipeline": pipeline},
            )
        case BranchPhase.SIGNAL:
            return Cause(
                code=CauseCode.WAITING_FOR_SIGNAL,
                text=f"{_where(wait)} waits for a signal of type {wait.signal!r}.",
                **since_when(branch.since),
                next_at_ms=wait.until_ms,
                advice=[f"flo workflow signal {execution.run_id} --type {wait.signal} '{{}}'"],
                facts={**_place(wait), "signal": wait.signal},
            )
        case BranchPhase.BETWEEN if wait.until_ms is not None:
            return replace(_beginning(execution), facts=_place(wait))
    code, text = _WAITS.get(wait.phase, (CauseCode.BETWEEN_STEPS, "is between two steps."))
    return Cause(
        code=code,
        text=f"{_where(wait)} {text}",
        **since_when(branch.since),
        next_at_ms=wait.until_ms,
        facts={**_place(wait), "attempt": wait.attempt},
    )
