"""What people read in the history of a workflow run: one line or two for each event."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from flo.engine.workflows.events import (
    ActionEnded,
    BranchEnded,
    BranchOpened,
    PlanNoted,
    PollExhausted,
    RollbackBegan,
    SignalMatched,
    SignalReceived,
    SignalTimedOut,
    StepEnded,
    StepHeld,
    StepStarted,
    StepUndone,
    WorkflowFinished,
    WorkflowPaused,
    WorkflowResumed,
    WorkflowStarted,
)
from flo.engine.workflows.execution import AT_REST, COMPENSATION, ExecutionEvent
from flo.engine.workflows.records import Branch, HistoryEntry
from flo.model.base import Event
from flo.model.workflows import RUN_PREFIX, BranchPhase, WorkflowStatus
from flo.workflow.steps import TargetKind

DETAIL_LENGTH_MAX = 1_024

Told: TypeAlias = ExecutionEvent | WorkflowStarted | WorkflowFinished | PlanNoted | PollExhausted
Lines: TypeAlias = Sequence[HistoryEntry]

_AWAITING = {
    BranchPhase.ACTION: "awaiting_action",
    BranchPhase.CHILD: "awaiting_child",
    BranchPhase.SIGNAL: "waiting_for_signal",
}
_HELD = {
    BranchPhase.RETRY: "step_retry",
    BranchPhase.POLL: "poll_scheduled",
    BranchPhase.ACTION: "awaiting_action",
}
_NOT_BEGUN = {"target_not_found": "not_found", "target_disabled": "disabled"}
_FINISHED = {
    WorkflowStatus.COMPLETED: "workflow_completed",
    WorkflowStatus.FAILED: "workflow_failed",
    WorkflowStatus.CANCELLED: "workflow_cancelled",
    WorkflowStatus.TIMED_OUT: "workflow_timed_out",
}


def entries_of(event: Told, at: Branch = AT_REST) -> Lines:
    """The lines of the history that an event makes, if its walk was here when it happened."""
    lines = LINES.get(type(event))
    return lines(event, at) if lines is not None else ()


def _started(event: WorkflowStarted, at: Branch) -> Lines:
    text = event.run.input[:DETAIL_LENGTH_MAX].decode(errors="replace")
    return (HistoryEntry(type="workflow_started", at_ms=event.run.created_at_ms, detail=text),)


def _step_started(event: StepStarted, at: Branch) -> Lines:
    now = event.now
    kind = "rollback_step" if event.branch == COMPENSATION else "step_started"
    started = _line(kind, event, now.step, now.step, now.attempt)
    awaiting = _AWAITING.get(now.phase)
    if awaiting is None:
        return (started,)
    waits = _line(awaiting, event, event.detail, now.step, now.attempt)
    if now.phase is not BranchPhase.CHILD:
        return started, waits
    child = _line("child_started", event, now.awaited or "", now.step, now.attempt)
    return started, child, waits


def _step_held(event: StepHeld, at: Branch) -> Lines:
    now = event.now
    kind = _HELD.get(now.phase)
    if kind is None:
        return ()
    detail = event.detail if now.phase is BranchPhase.ACTION else now.step
    return (_line(kind, event, detail, now.step, now.attempt),)


def _action_ended(event: ActionEnded, at: Branch) -> Lines:
    is_child = event.awaited.startswith(f"{RUN_PREFIX}-")
    kind = "child_completed" if is_child else "action_completed"
    return (_line(kind, event, event.outcome, at.step, at.attempt),)


def _step_ended(event: StepEnded, at: Branch) -> Lines:
    ended = _line("step_completed", event, event.step, event.step)
    not_begun = _NOT_BEGUN.get(event.outcome)
    if not_begun is None:
        return (ended,)
    what = "child" if event.target.startswith(TargetKind.WORKFLOW) else "action"
    name = event.target.rpartition("/")[2].partition(":")[0]
    return _line(f"{what}_{not_begun}", event, name or event.step, event.step), ended


def _branch_opened(event: BranchOpened, at: Branch) -> Lines:
    return (_line("branch_started", event, event.branch),)


def _branch_ended(event: BranchEnded, at: Branch) -> Lines:
    return (_line("branch_completed" if event.succeeded else "branch_failed", event, event.branch),)


def _plan_noted(event: PlanNoted, at: Branch) -> Lines:
    detail = event.executor or event.error or ""
    return (_line(event.what, event, detail, event.step, event.attempt),)


def _poll_exhausted(event: PollExhausted, at: Branch) -> Lines:
    return (_line("poll_exhausted", event, event.step, event.step, event.attempt),)


def _signal_received(event: SignalReceived, at: Branch) -> Lines:
    signal = event.signal
    return (HistoryEntry(type="signal_received", at_ms=signal.at_ms, detail=signal.type),)


def _signal_matched(event: SignalMatched, at: Branch) -> Lines:
    return (_line("signal_matched", event, event.signal_type, at.step, at.attempt),)


def _signal_timed_out(event: SignalTimedOut, at: Branch) -> Lines:
    return (_line("signal_timeout", event, event.goal, at.step, at.attempt),)


def _paused(event: WorkflowPaused, at: Branch) -> Lines:
    return (HistoryEntry(type="workflow_paused", at_ms=event.at_ms),)


def _resumed(event: WorkflowResumed, at: Branch) -> Lines:
    return (HistoryEntry(type="workflow_resumed", at_ms=event.at_ms),)


def _rollback_began(event: RollbackBegan, at: Branch) -> Lines:
    detail = ", ".join(event.steps)[:DETAIL_LENGTH_MAX]
    return (HistoryEntry(type="rollback_started", at_ms=event.at_ms, detail=detail),)


def _step_undone(event: StepUndone, at: Branch) -> Lines:
    kind = "rollback_completed" if event.succeeded else "rollback_failed"
    detail = (event.error or event.step)[:DETAIL_LENGTH_MAX]
    return (HistoryEntry(type=kind, at_ms=event.at_ms, step=event.step, detail=detail),)


def _finished(event: WorkflowFinished, at: Branch) -> Lines:
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
        branch=event.branch,
    )


LINES: dict[type[Event], Callable[[Any, Branch], Lines]] = {
    WorkflowStarted: _started,
    StepStarted: _step_started,
    StepHeld: _step_held,
    ActionEnded: _action_ended,
    StepEnded: _step_ended,
    BranchOpened: _branch_opened,
    BranchEnded: _branch_ended,
    PlanNoted: _plan_noted,
    PollExhausted: _poll_exhausted,
    SignalReceived: _signal_received,
    SignalMatched: _signal_matched,
    SignalTimedOut: _signal_timed_out,
    WorkflowPaused: _paused,
    WorkflowResumed: _resumed,
    RollbackBegan: _rollback_began,
    StepUndone: _step_undone,
    WorkflowFinished: _finished,
}
