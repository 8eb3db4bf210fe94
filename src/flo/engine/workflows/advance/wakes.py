"""What makes an execution advance: its start, what it waited for, a time, a resume, a cancel.

Each function returns the first moves.
"""

from msgspec.structs import replace

from flo.engine.pipelines.events import PipelineClosed
from flo.engine.state import Space
from flo.engine.workflows.advance.base import Advance
from flo.engine.workflows.advance.ends import begin_compensation
from flo.engine.workflows.advance.moves import (
    FAILED,
    BeginItem,
    EndAttempt,
    EndCall,
    EndStep,
    EnterStep,
    Finish,
    Go,
    MatchSignal,
    Moves,
    OpenItems,
    Resume,
)
from flo.engine.workflows.advance.plans import resume_plan
from flo.engine.workflows.advance.steps import begin_step, enter_step
from flo.engine.workflows.advance.unknown import left_in_hand
from flo.engine.workflows.advance.waits import time_out_signal
from flo.engine.workflows.blocks.prepare import prepare
from flo.engine.workflows.events import ActionEnded, WorkflowFinished
from flo.engine.workflows.execution import COMPENSATION, is_item
from flo.engine.workflows.records import CANCELLED, Branch, error_of
from flo.model.errors import CANCELLED_CODE, TIMEOUT_CODE
from flo.model.ids import RunId, parse_run_id
from flo.model.pipelines.names import PipelineStatus
from flo.model.workflows import MAIN, BranchName, BranchPhase, WorkflowStatus
from flo.workflow.definition import START, TerminalKind
from flo.workflow.outcome import FAILURE, PENDING, SUCCESS, TIMEOUT, StepError, outcome_of_child
from flo.workflow.plan.progress import ERROR_OUTCOMES
from flo.workflow.steps import ForEachStep, RunStep, SignalStep

MAY_GO_ON = ERROR_OUTCOMES | {PENDING}
"""After these outcomes a step may go on: with a retry, a poll, another executor."""


def begin(advance: Advance) -> Moves:
    if (before := advance.of_blocks(lambda: prepare(advance))) is not None:
        return before
    first = advance.execution.run.first_step or START
    if advance.execution.paused:
        waiting = Branch(step=first, phase=BranchPhase.BETWEEN, goal=first)
        return (advance.held(MAIN, waiting),)
    return enter_step(advance, EnterStep(MAIN, first))


def end_wait(
    advance: Advance,
    branch: BranchName,
    outcome: str,
    output: bytes,
    error: StepError | None,
    *,
    answered: bool,
    outside: bool | None = None,
) -> Moves:
    """The run or the child that a branch waits for has ended; `outside` is said of a child only."""
    now = advance.execution.branches[branch]
    assert now.awaited is not None
    if outside is None:
        outside = is_outside(advance.space, now.awaited)
    ended = ActionEnded(
        namespace=advance.namespace,
        run_id=advance.run_id,
        branch=branch,
        awaited=now.awaited,
        outcome=outcome,
        at_ms=advance.now_ms,
        error=error.message if error is not None else None,
        error_code=error.code if error is not None else None,
        outside=outside,
        retryable=error is None or error.retryable,
        output=output if branch == COMPENSATION or outcome in MAY_GO_ON else None,
    )
    if now.plan is not None:
        return (ended, EndCall(branch, outcome, output, error, answered))
    return (ended, EndAttempt(branch, outcome, output, error))


def end_child(advance: Advance, branch: BranchName, event: WorkflowFinished) -> Moves:
    ending, step = event.ending, advance.execution.step(branch)
    transitions = step.transitions if isinstance(step, RunStep) else {}
    outcome = outcome_of_child(TerminalKind(ending.status.value), transitions)
    error = error_of(ending) if ending.status is not WorkflowStatus.COMPLETED else None
    waited = event.waited
    return end_wait(advance, branch, outcome, event.output, error, answered=True, outside=waited)


def end_pipeline(advance: Advance, branch: BranchName, event: PipelineClosed) -> Moves:
    if event.status is PipelineStatus.FINISHED:
        return end_wait(advance, branch, SUCCESS, event.result, None, answered=True, outside=True)
    why = StepError(message=event.error or "", code=f"pipeline_{event.status}", retryable=True)
    return end_wait(advance, branch, FAILURE, event.result, why, answered=True, outside=True)


def is_outside(space: Space, run_id: RunId) -> bool:
    """Whether a run is one for workers outside, and not for the server itself, as WASM is."""
    address = parse_run_id(run_id)
    action = space.actions.get(address[0]) if address is not None else None
    return action is None or action.guest is None


def match_signals(advance: Advance) -> Moves:
    """Give the signals that are kept to the branches that wait for them."""
    if advance.execution.paused:
        return ()
    return [MatchSignal(branch) for branch in advance.execution.branches]


def resume(advance: Advance) -> Moves:
    return (*map(Resume, advance.execution.branches), *match_signals(advance))


def resume_branch(advance: Advance, move: Resume) -> Moves:
    branch = move.branch
    now = advance.execution.branches.get(branch)
    if now is None:
        return ()
    if now.phase is BranchPhase.BETWEEN and now.goal is not None:
        return (Go(branch, now.goal),)
    if now.phase is BranchPhase.JOIN and isinstance(advance.execution.step(branch), ForEachStep):
        return (OpenItems(branch, now.step),)
    return ()


def cancel(advance: Advance, reason: str) -> Moves:
    why = StepError(message=reason or "cancelled by user", code=CANCELLED_CODE)
    return (Finish(WorkflowStatus.CANCELLED, CANCELLED, why),)


def fall_due(advance: Advance) -> Moves:
    """The time has come that the first of the branches has waited for."""
    for branch, now in advance.execution.branches.items():
        if now.until_ms is not None and now.until_ms <= advance.now_ms:
            return wake(advance, branch, now)
    return ()


def wake(advance: Advance, branch: BranchName, now: Branch) -> Moves:
    """The time has come that a branch has waited for."""
    match now.phase:
        case BranchPhase.RETRY:
            return _repeat(advance, branch, replace(now, attempt=now.attempt + 1))
        case BranchPhase.POLL:
            return _repeat(advance, branch, now)
        case BranchPhase.REST:
            return resume_plan(advance, branch)
        case BranchPhase.SLEEP:
            return (EndStep(branch, SUCCESS, b"null", None),)
        case BranchPhase.SIGNAL:
            step = advance.execution.step(branch)
            assert isinstance(step, SignalStep)
            return time_out_signal(advance, branch, step)
        case BranchPhase.PACE:
            assert now.goal is not None
            return (EnterStep(branch, now.goal),)
        case BranchPhase.BETWEEN:
            return begin(advance)  # a child begins with the tick after its start
        case _:
            return _give_up(advance, branch, now)


def _repeat(advance: Advance, branch: BranchName, now: Branch) -> Moves:
    again = replace(now, phase=BranchPhase.BETWEEN, until_ms=None, awaited=None, plan=None)
    if branch == COMPENSATION:
        return begin_compensation(advance, again)
    if (problem := advance.bound_reached(branch)) is not None:
        return (Finish(WorkflowStatus.FAILED, FAILED, problem),)
    if is_item(advance.execution.definition, branch):
        return (BeginItem(branch, again),)
    return begin_step(advance, branch, advance.execution.step(branch), again)


def _give_up(advance: Advance, branch: BranchName, now: Branch) -> Moves:
    """What was awaited has taken too long."""
    late = StepError(message="no outcome in time", code=TIMEOUT_CODE)
    unknown = left_in_hand(advance, branch)
    ended, following = end_wait(advance, branch, TIMEOUT, b"", late, answered=False)
    if now.awaited is None or now.phase is not BranchPhase.ACTION:
        return (ended, following)
    cancelled = advance.cancelled(now.awaited, "its workflow step has timed out")
    return (*unknown, ended, *cancelled, following)
