"""What people read in the history of a workflow run, one or two lines for each event."""

from collections.abc import Iterator
from typing import TypeAlias

from flo.core.course import UNDO, CourseEvent
from flo.model.workflows import (
    RUN_PREFIX,
    ActionEnded,
    HistoryEntry,
    Phase,
    PlanNoted,
    RollbackBegan,
    SignalMatched,
    SignalReceived,
    SignalTimedOut,
    StepEnded,
    StepHeld,
    StepStarted,
    StepUndone,
    WalkEnded,
    WalkOpened,
    WorkflowFinished,
    WorkflowPaused,
    WorkflowResumed,
    WorkflowStarted,
    WorkflowStatus,
)

DETAIL_LENGTH_MAX = 1_024

Told: TypeAlias = CourseEvent | WorkflowStarted | PlanNoted
_Line: TypeAlias = tuple[str, str]

_AWAITING = {Phase.ACTION: "awaiting_action", Phase.CHILD: "awaiting_child"}
_NOT_BEGUN = {"target_not_found": "not_found", "target_disabled": "disabled"}
_FINISHED = {
    WorkflowStatus.COMPLETED: "workflow_completed",
    WorkflowStatus.FAILED: "workflow_failed",
    WorkflowStatus.CANCELLED: "workflow_cancelled",
    WorkflowStatus.TIMED_OUT: "workflow_timed_out",
}


def entries_of(event: Told) -> Iterator[HistoryEntry]:
    """The lines of the history that an event makes."""
    walk = getattr(event, "walk", "")
    step, attempt = _step_of(event)
    for kind, detail in _lines_of(event):
        yield HistoryEntry(
            type=kind,
            at_ms=_time_of(event),
            step=step,
            detail=detail[:DETAIL_LENGTH_MAX],
            attempt=attempt,
            walk=walk,
        )


def _lines_of(event: Told) -> Iterator[_Line]:
    match event:
        case WorkflowStarted(run=run):
            yield "workflow_started", run.input.decode(errors="replace")
        case StepStarted(walk=walk, now=now, detail=detail):
            yield "rollback_step" if walk == UNDO else "step_started", now.step
            yield from _waiting_for(now.phase, detail)
        case StepHeld(now=now, detail=detail):
            yield from _held(now.phase, now.step, detail)
        case ActionEnded(awaited=awaited, outcome=outcome):
            is_child = awaited.startswith(f"{RUN_PREFIX}-")
            yield "child_completed" if is_child else "action_completed", outcome
        case StepEnded():
            yield from _ended(event)
        case WalkOpened(walk=walk):
            yield "branch_started", walk
        case WalkEnded(walk=walk, succeeded=succeeded):
            yield "branch_completed" if succeeded else "branch_failed", walk
        case PlanNoted(what=kind, executor=executor, error=error):
            yield kind, executor or error or ""
        case _:
            yield from _more_lines_of(event)


def _more_lines_of(event: Told) -> Iterator[_Line]:
    match event:
        case SignalReceived(signal=signal):
            yield "signal_received", signal.type
        case SignalMatched(signal_type=kind):
            yield "signal_matched", kind
        case SignalTimedOut(goal=goal):
            yield "signal_timeout", goal
        case WorkflowPaused():
            yield "workflow_paused", ""
        case WorkflowResumed():
            yield "workflow_resumed", ""
        case RollbackBegan(steps=steps):
            yield "rollback_started", ", ".join(steps)
        case StepUndone(step=step, succeeded=succeeded, error=error):
            yield "rollback_completed" if succeeded else "rollback_failed", error or step
        case WorkflowFinished(ending=ending):
            is_told_why = ending.status is WorkflowStatus.CANCELLED
            detail = (ending.error or "") if is_told_why else ending.terminal
            if ending.status is WorkflowStatus.FAILED and ending.error:
                detail = f"{ending.terminal}: {ending.error}"
            yield _FINISHED[ending.status], detail
        case _:
            pass


def _waiting_for(phase: Phase, detail: str) -> Iterator[_Line]:
    if phase in _AWAITING:
        yield _AWAITING[phase], detail
    elif phase is Phase.SIGNAL:
        yield "waiting_for_signal", detail


def _held(phase: Phase, step: str, detail: str) -> Iterator[_Line]:
    match phase:
        case Phase.RETRY:
            yield "step_retry", step
        case Phase.POLL:
            yield "poll_scheduled", step
        case Phase.ACTION:
            yield "awaiting_action", detail
        case _:
            pass


def _ended(event: StepEnded) -> Iterator[_Line]:
    if event.outcome in _NOT_BEGUN:
        what = "child" if event.error and event.error.startswith("workflow") else "action"
        yield f"{what}_{_NOT_BEGUN[event.outcome]}", event.error or event.step
    yield "step_completed", event.step


def _step_of(event: Told) -> tuple[str | None, int]:
    match event:
        case StepStarted(now=now) | StepHeld(now=now):
            return now.step, now.attempt
        case StepEnded(step=step) | StepUndone(step=step):
            return step, 0
        case PlanNoted(step=step, attempt=attempt):
            return step, attempt
        case _:
            return None, 0


def _time_of(event: Told) -> int:
    match event:
        case WorkflowStarted(run=run):
            return run.created_at_ms
        case SignalReceived(signal=signal):
            return signal.at_ms
        case _:
            return event.at_ms
