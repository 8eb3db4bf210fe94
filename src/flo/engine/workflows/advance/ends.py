"""The end of an execution: branches are closed, and steps compensated unless it completes.

Finish ──▸ Close every branch ──▸ completed, or nothing to compensate ──▸ WorkflowFinished
                              └─▸ compensate step by step, the last first ──▸ WorkflowFinished
"""

from flo.engine.blocks.events import EntryRollbackBegan
from flo.engine.blocks.walk import is_stuck, next_wave
from flo.engine.workflows.advance.base import Advance
from flo.engine.workflows.advance.moves import FAILED, Call, Close, Compensate, Finish, Moves
from flo.engine.workflows.advance.plans import abandoned
from flo.engine.workflows.advance.scope import mapped, too_large
from flo.engine.workflows.advance.unknown import left_in_hand
from flo.engine.workflows.events import (
    BranchClosed,
    ChildCancelled,
    RollbackBegan,
    StepUndone,
    WorkflowFinished,
)
from flo.engine.workflows.execution import COMPENSATION, Execution, find_step
from flo.engine.workflows.records import Branch, Ending, ending_of, error_of
from flo.model.base import Event
from flo.model.workflows import BranchPhase, StepName, WorkflowStatus
from flo.workflow.outcome import EXECUTION_FAILURE, SUCCESS, StepError
from flo.workflow.steps import RunStep


def finish(advance: Advance, move: Finish) -> Moves:
    execution = advance.execution
    if execution.ending is not None:  # it is being compensated already, and that goes on
        return ()
    completes = move.status is WorkflowStatus.COMPLETED
    ending = ending_of(move.status, move.terminal, None if completes else move.error)
    closed = [Close(branch) for branch in execution.branches]
    unknown = [
        now.step
        for branch, now in execution.branches.items()
        if execution.calls.is_unknown(branch) or left_in_hand(advance, branch)
    ]
    done = (*execution.done, *unknown)
    ledger = advance.space.blocks.ledgers.get(advance.run_id)
    if completes or not (done or (ledger is not None and ledger.entries)):
        return (*closed, _finished(advance, ending))
    began = RollbackBegan(
        namespace=advance.namespace,
        run_id=advance.run_id,
        ending=ending,
        steps=tuple(dict.fromkeys(reversed(done))),
        at_ms=advance.now_ms,
    )
    return (*closed, began, Compensate())


def close(advance: Advance, move: Close) -> Moves:
    branch = move.branch
    now = advance.execution.branches[branch]
    closed = BranchClosed(
        namespace=advance.namespace, run_id=advance.run_id, branch=branch, at_ms=advance.now_ms
    )
    if now.awaited is None:
        return (closed,)
    before: Moves = abandoned(advance, branch) if now.plan is not None else ()
    after: Moves
    if now.phase in (BranchPhase.CHILD, BranchPhase.PIPELINE):
        reason = f"its parent {advance.run_id} does not wait for it"
        after = (
            ChildCancelled(
                namespace=advance.namespace,
                run_id=now.awaited,
                at_ms=advance.now_ms,
                reason=reason,
            ),
        )
    else:
        after = advance.cancelled(now.awaited, f"its workflow run {advance.run_id} moved on")
    return (*before, *left_in_hand(advance, branch), closed, *after)


def compensate(advance: Advance, move: Compensate) -> Moves:
    execution = advance.execution
    if not execution.to_undo:
        assert execution.ending is not None
        if begun := advance.of_blocks(lambda: _undo_blocks(advance)):
            return begun
        return (_finished(advance, execution.ending),)
    step = execution.to_undo[0]
    now = Branch(step=step, phase=BranchPhase.BETWEEN, began_at_ms=advance.now_ms)
    return begin_compensation(advance, now)


def _undo_blocks(advance: Advance) -> Moves:
    """The next wave of blocks to be undone; nothing if there is none, or the way back ends here."""
    ledger = advance.space.blocks.ledgers.get(advance.run_id)
    if ledger is None or is_stuck(ledger):
        return ()
    events = next_wave(advance.namespace, advance.space, ledger, advance.context)
    if any(isinstance(event, EntryRollbackBegan) for event in events):
        return events
    return (*events, Compensate()) if events else ()


def begin_compensation(advance: Advance, now: Branch) -> Moves:
    """An attempt at what compensates a step."""
    execution = advance.execution
    step = find_step(execution.definition, now.step)
    assert isinstance(step, RunStep)
    assert step.rollback is not None
    mapping = step.rollback.input_mapping
    payload: bytes | StepError
    if mapping:
        payload = mapped(mapping, execution, advance.now_ms)
    else:
        result = execution.results.get(now.step)
        payload = result.output if result is not None else b""
    if isinstance(payload, StepError):
        target = str(step.rollback.run)
        refused = advance.not_made(COMPENSATION, now, target, EXECUTION_FAILURE, payload)
        return (refused, *end_compensation(advance, now.step, EXECUTION_FAILURE, payload))
    return (Call(COMPENSATION, now, step.rollback.run, payload),)


def end_compensation(
    advance: Advance, step: StepName, outcome: str, error: StepError | None
) -> Moves:
    succeeded = outcome == SUCCESS
    because = error or StepError(message=outcome, code=outcome)
    undone = StepUndone(
        namespace=advance.namespace,
        run_id=advance.run_id,
        step=step,
        succeeded=succeeded,
        at_ms=advance.now_ms,
        error=None if succeeded else because.message,
        error_code=None if succeeded else because.code,
    )
    return (undone, Compensate())


def _finished(advance: Advance, ending: Ending) -> Event:
    execution = advance.execution
    output = _output(execution, advance.now_ms)
    if isinstance(output, StepError):
        error = error_of(ending) or output
        ending, output = ending_of(WorkflowStatus.FAILED, FAILED, error), b""
    return WorkflowFinished(
        namespace=advance.namespace,
        run_id=advance.run_id,
        ending=ending,
        output=output,
        at_ms=advance.now_ms,
        workflow=execution.run.workflow,
        limit_key=execution.run.limit_key,
        waited=execution.waited,
    )


def _output(execution: Execution, now_ms: int) -> bytes | StepError:
    """What the definition says, or else the output of the last step; why there is none."""
    text = execution.definition.output
    if text is None:
        last = next(reversed(execution.results.values()), None)
        return last.output if last is not None else b""
    output = mapped(text, execution, now_ms)
    if isinstance(output, bytes) and (problem := too_large("the output", output)) is not None:
        return StepError(message=problem, code="too_large")
    return output
