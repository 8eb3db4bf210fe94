"""Looks up in the log the events since which things are as they are."""

from flo.engine.actions.events import ActionDeleted, ActionDisabled
from flo.engine.runs.events import (
    RunClaimed,
    RunGivenBack,
    RunQueued,
    RunReleased,
    RunRequeued,
    RunRevived,
)
from flo.engine.runs.records import Run
from flo.engine.schedules.events import ScheduleSet
from flo.engine.state import Space, State
from flo.engine.workers.events import WorkerDrained, WorkerLost
from flo.engine.workflows.events import WorkflowDisabled, WorkflowPaused
from flo.engine.workflows.execution import Execution
from flo.model.base import Event
from flo.model.runs import RunStatus
from flo.model.storage.since import Since
from simulator.checks.invariants import Checks, Invariant
from simulator.reference.log import ReferenceModel


def audit_since(state: State, reference: ReferenceModel, checks: Checks) -> None:
    history = reference.history
    for space in state.spaces.values():
        for run in space.runs.values():
            if run.since_position < len(history):  # else it is not written yet
                event = history[run.since_position]
                checks.hold(Invariant.SINCE_RIGHT, _made_it_so(event, run), event, run)
        for worker in space.workers.values():
            _check(worker.draining_since, WorkerDrained, worker.draining, history, checks)
            _check(worker.lost_since, WorkerLost, worker.lost_at_ms is not None, history, checks)
        for execution in space.executions.values():
            _check(execution.paused_since, WorkflowPaused, execution.paused, history, checks)
            _check_branches(execution, history, checks)
        _check_settings(space, history, checks)


def _check_settings(space: Space, history: list[Event], checks: Checks) -> None:
    """Since when actions, workflows and schedules are disabled, deleted or paused."""
    for action in space.actions.values():
        _check(action.disabled_since, ActionDisabled, not action.enabled, history, checks)
    for action in space.deleted.values():
        _check(action.deleted_since, ActionDeleted, True, history, checks)
    for workflow in space.workflows.values():
        for since in (workflow.disabled_since, *workflow.disabled.values()):
            _check(since, WorkflowDisabled, since is not None, history, checks)
    for schedule in space.schedules.values():
        _check(schedule.paused_since, ScheduleSet, schedule.paused, history, checks)
    for permits in space.action_permits.values():
        for since in permits.holders.values():
            _check(since, Event, True, history, checks)


def _check_branches(execution: Execution, history: list[Event], checks: Checks) -> None:
    """What a branch waits for, it waits for since an event of its own execution."""
    for branch in execution.branches.values():
        since = branch.since
        if since is not None and since.position < len(history):
            event = history[since.position]
            is_own = getattr(event, "run_id", None) == execution.run_id
            checks.hold(Invariant.SINCE_RIGHT, is_own, event, branch)
        checks.hold(Invariant.SINCE_RIGHT, since is not None, execution.run_id, branch)


def _made_it_so(event: Event, run: Run) -> bool:
    match event:
        case RunQueued(run=made) | RunRevived(run=made):
            return made.run_id == run.run_id and run.status is RunStatus.PENDING
        case RunReleased(run_id=run_id) | RunRequeued(run_id=run_id) | RunGivenBack(run_id=run_id):
            return run_id == run.run_id and run.status is RunStatus.PENDING
        case RunClaimed(run_id=run_id, attempt=attempt):
            return (run_id, attempt, RunStatus.RUNNING) == (run.run_id, run.attempt, run.status)
        case _:
            return False


def _check(
    since: Since | None, kind: type[Event], is_so: bool, history: list[Event], checks: Checks
) -> None:
    checks.hold(Invariant.SINCE_RIGHT, (since is not None) is is_so, since, kind)
    if since is not None and since.position < len(history):
        event = history[since.position]
        checks.hold(Invariant.SINCE_RIGHT, isinstance(event, kind), since, event)
