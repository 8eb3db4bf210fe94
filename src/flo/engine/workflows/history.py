"""The history of a workflow run: one to three entries for each of its events."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from msgspec.structs import replace

from flo.engine.workflows.events import (
    ActionEnded,
    AttemptLeftUnknown,
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
    StepReportedLate,
    StepStarted,
    StepUndone,
    WorkflowFinished,
    WorkflowPaused,
    WorkflowResumed,
    WorkflowStarted,
)
from flo.engine.workflows.execution import COMPENSATION, NO_BRANCH, ExecutionEvent
from flo.engine.workflows.records import (
    AWAITED_PIPELINE,
    Branch,
    Ending,
    HistoryEntry,
    is_asked_for,
)
from flo.model.base import Event
from flo.model.workflows import RUN_PREFIX, BranchPhase, WorkflowStatus
from flo.workflow.steps import TargetKind

DETAIL_LENGTH_MAX = 1_024

HistoryEvent: TypeAlias = (
    ExecutionEvent
    | WorkflowStarted
    | WorkflowFinished
    | PlanNoted
    | PollExhausted
    | StepReportedLate
)
Entries: TypeAlias = Sequence[HistoryEntry]

_AWAITING = {
    BranchPhase.ACTION: "awaiting_action",
    BranchPhase.CHILD: "awaiting_child",
    BranchPhase.PIPELINE: "awaiting_pipeline",
    BranchPhase.SIGNAL: "waiting_for_signal",
}
_BEGUN = {BranchPhase.CHILD: "child_started", BranchPhase.PIPELINE: "pipeline_started"}
_WHAT = {TargetKind.WORKFLOW: "child", TargetKind.PIPELINE: "pipeline"}
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


def entries_of(event: HistoryEvent, at: Branch = NO_BRANCH) -> Entries:
    """The entries of an event; `at` is its branch as it was before."""
    entries = ENTRIES.get(type(event))
    return entries(event, at) if entries is not None else ()


def _started(event: WorkflowStarted, at: Branch) -> Entries:
    text = event.run.input[:DETAIL_LENGTH_MAX].decode(errors="replace")
    return (HistoryEntry(type="workflow_started", at_ms=event.run.created_at_ms, detail=text),)


def _step_started(event: StepStarted, at: Branch) -> Entries:
    now = event.now
    kind = "rollback_step" if event.branch == COMPENSATION else "step_started"
    started = _entry(kind, event, now.step, now.step, now.attempt)
    awaiting = _AWAITING.get(now.phase)
    if awaiting is None:
        return (started,)
    waits = _entry(awaiting, event, event.detail, now.step, now.attempt)
    begun = _BEGUN.get(now.phase)
    if begun is None:
        return started, waits
    name = (now.awaited or "").removeprefix(AWAITED_PIPELINE)
    return started, _entry(begun, event, name, now.step, now.attempt), waits


def _step_held(event: StepHeld, at: Branch) -> Entries:
    now = event.now
    kind = _HELD.get(now.phase)
    if kind is None:
        return ()
    detail = event.detail if now.phase is BranchPhase.ACTION else now.step
    return (_entry(kind, event, detail, now.step, now.attempt),)


def _action_ended(event: ActionEnded, at: Branch) -> Entries:
    kind = "action_completed"
    if event.awaited.startswith(f"{RUN_PREFIX}-"):
        kind = "child_completed"
    elif event.awaited.startswith(AWAITED_PIPELINE):
        kind = "pipeline_completed"
    return (_failed(event, _entry(kind, event, event.outcome, at.step, at.attempt)),)


def _left_unknown(event: AttemptLeftUnknown, at: Branch) -> Entries:
    return (_entry("attempt_unknown", event, event.end.value, event.step, at.attempt),)


def _reported_late(event: StepReportedLate, at: Branch) -> Entries:
    detail = f"{event.awaited} by {event.worker_id}: {event.outcome}"
    entry = _entry("late_report", event, detail, event.step, event.attempt)
    return (replace(entry, error_code=event.error_code),)


def _step_ended(event: StepEnded, at: Branch) -> Entries:
    ended = _failed(event, _entry("step_completed", event, event.step, event.step))
    not_begun = _NOT_BEGUN.get(event.outcome)
    if not_begun is None:
        return (ended,)
    kinds = (kind for kind in TargetKind if event.target.startswith(kind))
    what = _WHAT.get(next(kinds, TargetKind.ACTION), "action")
    name = event.target.rpartition("/")[2].partition(":")[0]
    return _entry(f"{what}_{not_begun}", event, name or event.step, event.step), ended


def _branch_opened(event: BranchOpened, at: Branch) -> Entries:
    return (_entry("branch_started", event, event.branch),)


def _branch_ended(event: BranchEnded, at: Branch) -> Entries:
    return (
        _entry("branch_completed" if event.succeeded else "branch_failed", event, event.branch),
    )


def _plan_noted(event: PlanNoted, at: Branch) -> Entries:
    detail = event.executor or event.error_code or ""
    return (_failed(event, _entry(event.what, event, detail, event.step, event.attempt)),)


def _poll_exhausted(event: PollExhausted, at: Branch) -> Entries:
    return (_entry("poll_exhausted", event, event.step, event.step, event.attempt),)


def _signal_received(event: SignalReceived, at: Branch) -> Entries:
    signal = event.signal
    return (HistoryEntry(type="signal_received", at_ms=signal.at_ms, detail=signal.type),)


def _signal_matched(event: SignalMatched, at: Branch) -> Entries:
    return (_entry("signal_matched", event, event.signal_type, at.step, at.attempt),)


def _signal_timed_out(event: SignalTimedOut, at: Branch) -> Entries:
    return (_entry("signal_timeout", event, event.goal, at.step, at.attempt),)


def _paused(event: WorkflowPaused, at: Branch) -> Entries:
    return (HistoryEntry(type="workflow_paused", at_ms=event.at_ms),)


def _resumed(event: WorkflowResumed, at: Branch) -> Entries:
    return (HistoryEntry(type="workflow_resumed", at_ms=event.at_ms),)


def _rollback_began(event: RollbackBegan, at: Branch) -> Entries:
    detail = ", ".join(event.steps)[:DETAIL_LENGTH_MAX]
    return (HistoryEntry(type="rollback_started", at_ms=event.at_ms, detail=detail),)


def _step_undone(event: StepUndone, at: Branch) -> Entries:
    kind = "rollback_completed" if event.succeeded else "rollback_failed"
    entry = HistoryEntry(type=kind, at_ms=event.at_ms, step=event.step, detail=event.step)
    return (_failed(event, entry),)


def _finished(event: WorkflowFinished, at: Branch) -> Entries:
    """The terminal; of a run that someone has cancelled, the reason."""
    ending = event.ending
    detail = (is_asked_for(ending) and ending.error) or ending.terminal
    kind, detail = _FINISHED[ending.status], detail[:DETAIL_LENGTH_MAX]
    return (_failed(ending, HistoryEntry(type=kind, at_ms=event.at_ms, detail=detail)),)


def _failed(
    ended: ActionEnded | StepEnded | StepUndone | PlanNoted | Ending, entry: HistoryEntry
) -> HistoryEntry:
    """The entry with the error that there is, if there is one."""
    if ended.error is None:
        return entry
    error = ended.error[:DETAIL_LENGTH_MAX]
    return replace(entry, error=error, error_code=ended.error_code)


def _entry(
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


ENTRIES: dict[type[Event], Callable[[Any, Branch], Entries]] = {
    WorkflowStarted: _started,
    StepStarted: _step_started,
    StepHeld: _step_held,
    ActionEnded: _action_ended,
    AttemptLeftUnknown: _left_unknown,
    StepReportedLate: _reported_late,
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
