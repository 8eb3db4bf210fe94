"""The end of a workflow run: what is under way is closed, what was done perhaps undone.

finish ──▸ close every walk ──▸ completed, or nothing to undo ──▸ WorkflowFinished
                            └─▸ undo step by step, the last one first ──▸ WorkflowFinished
"""

from flo.core.carrier import Carrier
from flo.core.course import UNDO, find_step, walk_under
from flo.core.draft import too_large
from flo.core.plans import PlanWalk
from flo.core.scope import mapped, scope_of
from flo.model.workflow_facts import (
    Ending,
    Phase,
    RollbackBegan,
    StepName,
    StepUndone,
    Walk,
    WalkClosed,
    WalkName,
    WorkflowFinished,
    WorkflowStatus,
)
from flo.workflow.definition import RunStep
from flo.workflow.outcome import SUCCESS

FAILED = "flo.Failed"
CANCELLED = "flo.Cancelled"


def fail(carrier: Carrier, error: str) -> None:
    finish(carrier, WorkflowStatus.FAILED, FAILED, error)


def finish(carrier: Carrier, status: WorkflowStatus, terminal: str, error: str | None) -> None:
    """The run ends; if badly, what can be undone is undone first."""
    course, draft = carrier.course, carrier.draft
    if course.ending is not None:  # it is being undone: that is carried to its end
        return
    for walk in list(course.walks):
        close(carrier, walk)
    ending = Ending(
        status=status,
        terminal=terminal,
        error=error if status is not WorkflowStatus.COMPLETED else None,
    )
    if status is WorkflowStatus.COMPLETED or not course.done:
        _end(carrier, ending)
        return
    steps = tuple(dict.fromkeys(reversed(course.done)))
    draft.emit(
        RollbackBegan(
            namespace=draft.namespace,
            run_id=course.run_id,
            ending=ending,
            steps=steps,
            at_ms=draft.now_ms,
        )
    )
    _undo_next(carrier)


def begin_undo(carrier: Carrier, name: StepName, now: Walk) -> None:
    course = carrier.course
    step = find_step(course.definition, name)
    assert isinstance(step, RunStep)
    assert step.rollback is not None
    mapping = step.rollback.input_mapping
    if mapping:
        payload = mapped(mapping, scope_of(course, carrier.draft.now_ms))
    else:
        result = course.results.get(name)
        payload = result.output if result is not None else b""
    carrier.call(UNDO, now, step.rollback.run, payload)


def end_undo(carrier: Carrier, name: StepName, outcome: str, error: str | None) -> None:
    draft, succeeded = carrier.draft, outcome == SUCCESS
    draft.emit(
        StepUndone(
            namespace=draft.namespace,
            run_id=carrier.course.run_id,
            step=name,
            succeeded=succeeded,
            at_ms=draft.now_ms,
            error=None if succeeded else error or outcome,
        )
    )
    _undo_next(carrier)


def close_under(carrier: Carrier, parent: WalkName, step: StepName) -> None:
    """Close the branches or the items of a join."""
    prefix = walk_under(parent, step, "")
    for walk in [walk for walk in carrier.course.walks if walk.startswith(prefix)]:
        close(carrier, walk)


def close(carrier: Carrier, walk: WalkName) -> None:
    """A walk goes no further; nobody waits any more for what it has waited for."""
    draft, now = carrier.draft, carrier.course.walks[walk]
    if now.plan is not None and now.awaited is not None:
        PlanWalk(carrier, walk).abandon()
    draft.emit(
        WalkClosed(namespace=draft.namespace, run_id=draft.run_id, walk=walk, at_ms=draft.now_ms)
    )
    if now.awaited is not None:
        if now.phase is Phase.CHILD:
            draft.cancel_child(now.awaited)
        else:
            draft.cancel_run(now.awaited, f"its workflow run {carrier.course.run_id} moved on")


def _undo_next(carrier: Carrier) -> None:
    course = carrier.course
    if not course.to_undo:
        assert course.ending is not None
        _end(carrier, course.ending)
        return
    step, now_ms = course.to_undo[0], carrier.draft.now_ms
    begin_undo(carrier, step, Walk(step=step, phase=Phase.BETWEEN, began_at_ms=now_ms))


def _end(carrier: Carrier, ending: Ending) -> None:
    course, draft = carrier.course, carrier.draft
    output = _output(carrier)
    if (problem := too_large("the output", output)) is not None:
        error = ending.error or problem
        ending = Ending(status=WorkflowStatus.FAILED, terminal=FAILED, error=error)
        output = b""
    draft.emit(
        WorkflowFinished(
            namespace=draft.namespace,
            run_id=course.run_id,
            ending=ending,
            output=output,
            at_ms=draft.now_ms,
            workflow=course.run.workflow,
            slot=course.run.slot,
        )
    )


def _output(carrier: Carrier) -> bytes:
    """What the definition says, or else what the last step has come to."""
    course = carrier.course
    text = course.definition.output
    if text is not None:
        return mapped(text, scope_of(course, carrier.draft.now_ms))
    last = next(reversed(course.results.values()), None)
    return last.output if last is not None else b""
