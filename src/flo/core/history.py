"""What people read in the history of a workflow run: one line or two for each event."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from flo.core.course import UNDO, CourseEvent
from flo.model.base import Fact
from flo.model.workflow_facts import (
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
Lines: TypeAlias = Sequence[HistoryEntry]

_AWAITING = {
    Phase.ACTION: "awaiting_action",
    Phase.CHILD: "awaiting_child",
    Phase.SIGNAL: "waiting_for_signal",
}
_HELD = {Phase.RETRY: "step_retry", Phase.POLL: "poll_scheduled", Phase.ACTION: "awaiting_action"}
_NOT_BEGUN = {"target_not_found": "not_found", "target_disabled": "disabled"}
_FINISHED = {
    WorkflowStatus.COMPLETED: "workflow_completed",
    WorkflowStatus.FAILED: "workflow_failed",
    WorkflowStatus.CANCELLED: "workflow_cancelled",
    WorkflowStatus.TIMED_OUT: "workflow_timed_out",
}


def entries_of(event: Told) -> Lines:
    """The lines of the history that an event makes."""
    lines = LINES.get(type(event))
    return lines(event) if lines is not None else ()


def _started(event: WorkflowStarted) -> Lines:
    text = event.run.input[:DETAIL_LENGTH_MAX].decode(errors="replace")
    return (HistoryEntry(type="workflow_started", at_ms=event.run.created_at_ms, detail=text),)


def _step_started(event: StepStarted) -> Lines:
    now = event.now
    kind = "rollback_step" if event.walk == UNDO else "step_started"
    started = _line(kind, event, now.step, now.step, now.attempt)
    awaiting = _AWAITING.get(now.phase)
    if awaiting is None:
        return (started,)
    return started, _line(awaiting, event, event.detail, now.step, now.attempt)


def _step_held(event: StepHeld) -> Lines:
    now = event.now
    kind = _HELD.get(now.phase)
    if kind is None:
        return ()
    detail = event.detail if now.phase is Phase.ACTION else now.step
    return (_line(kind, event, detail, now.step, now.attempt),)


def _action_ended(event: ActionEnded) -> Lines:
    is_child = event.awaited.startswith(f"{RUN_PREFIX}-")
    return (_line("child_completed" if is_child else "action_completed", event, event.outcome),)


def _step_ended(event: StepEnded) -> Lines:
    ended = _line("step_completed", event, event.step, event.step)
    not_begun = _NOT_BEGUN.get(event.outcome)
    if not_begun is None:
        return (ended,)
    what = "child" if event.error and event.error.startswith("workflow") else "action"
    return _line(f"{what}_{not_begun}", event, event.error or event.step, event.step), ended


def _walk_opened(event: WalkOpened) -> Lines:
    return (_line("branch_started", event, event.walk),)


def _walk_ended(event: WalkEnded) -> Lines:
    return (_line("branch_completed" if event.succeeded else "branch_failed", event, event.walk),)


def _plan_noted(event: PlanNoted) -> Lines:
    detail = event.executor or event.error or ""
    return (_line(event.what, event, detail, event.step, event.attempt),)


def _signal_received(event: SignalReceived) -> Lines:
    signal = event.signal
    return (HistoryEntry(type="signal_received", at_ms=signal.at_ms, detail=signal.type),)


def _signal_matched(event: SignalMatched) -> Lines:
    return (_line("signal_matched", event, event.signal_type),)


def _signal_timed_out(event: SignalTimedOut) -> Lines:
    return (_line("signal_timeout", event, event.goal),)


def _paused(event: WorkflowPaused) -> Lines:
    return (HistoryEntry(type="workflow_paused", at_ms=event.at_ms),)


def _resumed(event: WorkflowResumed) -> Lines:
    return (HistoryEntry(type="workflow_resumed", at_ms=event.at_ms),)


def _rollback_began(event: RollbackBegan) -> Lines:
    detail = ", ".join(event.steps)[:DETAIL_LENGTH_MAX]
    return (HistoryEntry(type="rollback_started", at_ms=event.at_ms, detail=detail),)


def _step_undone(event: StepUndone) -> Lines:
    kind = "rollback_completed" if event.succeeded else "rollback_failed"
    detail = (event.error or event.step)[:DETAIL_LENGTH_MAX]
    return (HistoryEntry(type=kind, at_ms=event.at_ms, step=event.step, detail=detail),)


def _finished(event: WorkflowFinished) -> Lines:
    ending = event.ending
    detail = ending.terminal
    if ending.status is WorkflowStatus.CANCELLED:
        detail = ending.error or ""
    elif ending.status is WorkflowStatus.FAILED and ending.error:
        detail = f"{ending.terminal}: {ending.error}"
    kind = _FINISHED[ending.status]
    return (HistoryEntry(type=kind, at_ms=event.at_ms, detail=detail[:DETAIL_LENGTH_MAX]),)


def _line(
    kind: str, event: Any, detail: str, step: str | None = None, attempt: int = 0
) -> HistoryEntry:
    return HistoryEntry(
        type=kind,
        at_ms=event.at_ms,
        step=step,
        detail=detail[:DETAIL_LENGTH_MAX],
        attempt=attempt,
        walk=event.walk,
    )


LINES: dict[type[Fact], Callable[[Any], Lines]] = {
    WorkflowStarted: _started,
    StepStarted: _step_started,
    StepHeld: _step_held,
    ActionEnded: _action_ended,
    StepEnded: _step_ended,
    WalkOpened: _walk_opened,
    WalkEnded: _walk_ended,
    PlanNoted: _plan_noted,
    SignalReceived: _signal_received,
    SignalMatched: _signal_matched,
    SignalTimedOut: _signal_timed_out,
    WorkflowPaused: _paused,
    WorkflowResumed: _resumed,
    RollbackBegan: _rollback_began,
    StepUndone: _step_undone,
    WorkflowFinished: _finished,
}
