"""An attempt at a target begins: a run is queued, a child is started, a plan is taken up."""

from typing import NamedTuple

from msgspec.structs import replace

from flo.engine.runs.events import RunQueued
from flo.engine.runs.records import RunCause
from flo.engine.runs.rules import queue_run
from flo.engine.workflows.advance.base import Advance
from flo.engine.workflows.advance.moves import BeginPlan, Call, EndAttempt, Moves
from flo.engine.workflows.advance.scope import too_large
from flo.engine.workflows.events import WorkflowStarted
from flo.engine.workflows.records import Branch, Parent, WorkflowRun
from flo.engine.workflows.starts import attributes, limit_key_of
from flo.model.errors import Conflict, Invalid, NotFound
from flo.model.ids import ActionName
from flo.model.workflows import RUN_PREFIX, BranchName, BranchPhase
from flo.workflow.outcome import EXECUTION_FAILURE, TARGET_DISABLED, TARGET_NOT_FOUND, StepError
from flo.workflow.steps import Target, TargetKind

DEPTH_MAX = 32


class Refused(NamedTuple):
    """A run or a child that cannot be started: the outcome that this is for its step, and why."""

    outcome: str
    error: StepError


def call(advance: Advance, move: Call) -> Moves:
    branch, now, target, payload = move
    match target.kind:
        case TargetKind.ACTION:
            run = queued(advance, branch, now, target.name, payload)
            return _await(advance, move, BranchPhase.ACTION, run)
        case TargetKind.WORKFLOW:
            child = _child(advance, branch, target, payload)
            return _await(advance, move, BranchPhase.CHILD, child)
        case TargetKind.PLAN:
            return (advance.started(branch, now, target.name), BeginPlan(branch))


def queued(
    advance: Advance, branch: BranchName, now: Branch, action: ActionName, payload: bytes
) -> RunQueued | Refused:
    """A run of an action, unless the action refuses it."""
    number = advance.space.numbers.get(action, 0) + 1
    cause = RunCause(
        run_id=advance.run_id, branch=branch, step=now.step, visit=now.visit, attempt=now.attempt
    )
    try:
        run = queue_run(
            advance.space,
            action,
            payload,
            advance.context,
            number,
            cause=cause,
            subject=advance.execution.run.subject,
        )
    except NotFound as refusal:
        return _refused(TARGET_NOT_FOUND, refusal.message)
    except (Conflict, Invalid) as refusal:
        if refusal.code == "action_disabled":
            return _refused(TARGET_DISABLED, refusal.message)
        return _refused(EXECUTION_FAILURE, refusal.message, refusal.code)
    return RunQueued(namespace=advance.namespace, run=run)


def _refused(outcome: str, message: str, code: str | None = None) -> Refused:
    return Refused(outcome, StepError(message=message, code=code or outcome))


def _await(
    advance: Advance, move: Call, phase: BranchPhase, started: RunQueued | WorkflowStarted | Refused
) -> Moves:
    """The step begins, and its branch waits for what was started."""
    branch, now, target, _ = move
    if isinstance(started, Refused):
        return (
            advance.started(branch, now, target.name),
            advance.not_made(branch, now, str(target), started.outcome, started.error),
            EndAttempt(branch, started.outcome, b"", started.error),
        )
    waiting = replace(now, phase=phase, awaited=started.run.run_id)
    return (started, advance.started(branch, waiting, target.name))


def _child(
    advance: Advance, branch: BranchName, target: Target, payload: bytes
) -> WorkflowStarted | Refused:
    parent = advance.execution.run
    workflow = advance.space.workflows.get(target.name)
    deployed = workflow.version(target.version) if workflow is not None else None
    if workflow is None or deployed is None:
        return _refused(TARGET_NOT_FOUND, f"workflow {target} is not deployed")
    if not workflow.is_enabled(deployed.definition.version):
        return _refused(TARGET_DISABLED, f"workflow {target} is disabled")
    if parent.depth >= DEPTH_MAX:
        return _refused(EXECUTION_FAILURE, f"children are {DEPTH_MAX} deep", "too_deep")
    if (problem := too_large("the input of the child", payload)) is not None:
        return _refused(EXECUTION_FAILURE, problem, "too_large")
    number = advance.space.workflow_number + 1
    child = WorkflowRun(
        run_id=f"{RUN_PREFIX}-{number}",
        number=number,
        workflow=target.name,
        version=deployed.definition.version,
        input=payload,
        created_at_ms=advance.now_ms,
        parent=Parent(run_id=parent.run_id, branch=branch),
        attributes=attributes(deployed.definition, payload),
        triggered_by="parent",
        depth=parent.depth + 1,
        limit_key=limit_key_of(deployed.definition, payload),
        subject=parent.subject,
    )
    return WorkflowStarted(namespace=advance.namespace, run=child)
