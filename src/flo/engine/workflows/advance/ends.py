"""The end of a workflow run: what is under way is closed, what was done perhaps undone.

finish ──▸ close every walk ──▸ completed, or nothing to undo ──▸ WorkflowFinished
                            └─▸ undo step by step, the last one first ──▸ WorkflowFinished
"""

from flo.engine.workflows.advance.carrier import Stepper
from flo.engine.workflows.advance.draft import too_large
from flo.engine.workflows.advance.plans import PlanRunner
from flo.engine.workflows.advance.scope import mapped, scope_of
from flo.engine.workflows.events import BranchClosed, RollbackBegan, StepUndone, WorkflowFinished
from flo.engine.workflows.execution import UNDO, branch_under, find_step
from flo.engine.workflows.records import Branch, Ending
from flo.model.workflows import BranchName, BranchPhase, StepName, WorkflowStatus
from flo.workflow.definition import RunStep
from flo.workflow.outcome import SUCCESS

FAILED = "flo.Failed"
CANCELLED = "flo.Cancelled"


def fail(carrier: Stepper, error: str) -> None:
    finish(carrier, WorkflowStatus.FAILED, FAILED, error)


def finish(carrier: Stepper, status: WorkflowStatus, terminal: str, error: str | None) -> None:
    """The run ends; if badly, what can be undone is undone first."""
    execution, draft = carrier.execution, carrier.draft
    if execution.ending is not None:  # it is being undone: that is carried to its end
        return
    for branch in list(execution.branches):
        close(carrier, branch)
    ending = Ending(
        status=status,
        terminal=terminal,
        error=error if status is not WorkflowStatus.COMPLETED else None,
    )
    if status is WorkflowStatus.COMPLETED or not execution.done:
        _end(carrier, ending)
        return
    steps = tuple(dict.fromkeys(reversed(execution.done)))
    draft.emit(
        RollbackBegan(
            namespace=draft.namespace,
            run_id=execution.run_id,
            ending=ending,
            steps=steps,
            at_ms=draft.now_ms,
        )
    )
    _undo_next(carrier)


def begin_undo(carrier: Stepper, name: StepName, now: Branch) -> None:
    execution = carrier.execution
    step = find_step(execution.definition, name)
    assert isinstance(step, RunStep)
    assert step.rollback is not None
    mapping = step.rollback.input_mapping
    if mapping:
        payload = mapped(mapping, scope_of(execution, carrier.draft.now_ms))
    else:
        result = execution.results.get(name)
        payload = result.output if result is not None else b""
    carrier.call(UNDO, now, step.rollback.run, payload)


def end_undo(carrier: Stepper, name: StepName, outcome: str, error: str | None) -> None:
    draft, succeeded = carrier.draft, outcome == SUCCESS
    draft.emit(
        StepUndone(
            namespace=draft.namespace,
            run_id=carrier.execution.run_id,
            step=name,
            succeeded=succeeded,
            at_ms=draft.now_ms,
            error=None if succeeded else error or outcome,
        )
    )
    _undo_next(carrier)


def close_under(carrier: Stepper, parent: BranchName, step: StepName) -> None:
    """Close the branches or the items of a join."""
    prefix = branch_under(parent, step, "")
    for branch in [branch for branch in carrier.execution.branches if branch.startswith(prefix)]:
        close(carrier, branch)


def close(carrier: Stepper, branch: BranchName) -> None:
    """A walk goes no further; nobody waits any more for what it has waited for."""
    draft, now = carrier.draft, carrier.execution.branches[branch]
    if now.plan is not None and now.awaited is not None:
        PlanRunner(carrier, branch).abandon()
    draft.emit(
        BranchClosed(
            namespace=draft.namespace, run_id=draft.run_id, branch=branch, at_ms=draft.now_ms
        )
    )
    if now.awaited is not None:
        if now.phase is BranchPhase.CHILD:
            draft.cancel_child(now.awaited)
        else:
            draft.cancel_run(now.awaited, f"its workflow run {carrier.execution.run_id} moved on")


def _undo_next(carrier: Stepper) -> None:
    execution = carrier.execution
    if not execution.to_undo:
        assert execution.ending is not None
        _end(carrier, execution.ending)
        return
    step, now_ms = execution.to_undo[0], carrier.draft.now_ms
    begin_undo(carrier, step, Branch(step=step, phase=BranchPhase.BETWEEN, began_at_ms=now_ms))


def _end(carrier: Stepper, ending: Ending) -> None:
    execution, draft = carrier.execution, carrier.draft
    output = _output(carrier)
    if (problem := too_large("the output", output)) is not None:
        error = ending.error or problem
        ending = Ending(status=WorkflowStatus.FAILED, terminal=FAILED, error=error)
        output = b""
    draft.emit(
        WorkflowFinished(
            namespace=draft.namespace,
            run_id=execution.run_id,
            ending=ending,
            output=output,
            at_ms=draft.now_ms,
            workflow=execution.run.workflow,
            slot=execution.run.slot,
        )
    )


def _output(carrier: Stepper) -> bytes:
    """What the definition says, or else what the last step has come to."""
    execution = carrier.execution
    text = execution.definition.output
    if text is not None:
        return mapped(text, scope_of(execution, carrier.draft.now_ms))
    last = next(reversed(execution.results.values()), None)
    return last.output if last is not None else b""
