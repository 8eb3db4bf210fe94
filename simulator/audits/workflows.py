"""Counts again what the engine keeps count of for workflows, and compares."""

from collections import Counter
from typing import Any

from flo.engine.due import SCHEDULE, WORKFLOW, DueKey
from flo.engine.state import Space, State
from flo.model.ids import Namespace
from simulator.checks.invariants import Checks, Invariant
from simulator.reference.log import ReferenceModel
from simulator.reference.workflow_timeline import WorkflowTimeline


def audit_workflows(state: State, reference: ReferenceModel, checks: Checks) -> None:
    live = sum(len(space.executions) for space in state.spaces.values())
    expected = len(reference.workflows.live)
    checks.hold(
        Invariant.STATE_IS_THE_REFERENCE, live == expected, live, "workflow runs, not", expected
    )
    for namespace, space in state.spaces.items():
        timelines = [
            timeline
            for timeline in reference.workflows.live.values()
            if timeline.namespace == namespace
        ]
        for timeline in timelines:
            _audit_run(space, timeline, checks)
            _audit_subject(namespace, space, timeline, reference, checks)
        _audit_awaited(namespace, space, reference, checks)
        _audit_permits(namespace, space, timelines, reference, checks)
        _audit_counts(space, timelines, checks)
        _audit_schedules(namespace, space, reference, checks)


def due_workflows(state: State) -> dict[DueKey, int]:
    """What of workflows and schedules falls due, and when."""
    expected: dict[DueKey, int] = {}
    for namespace, space in state.spaces.items():
        for run_id, execution in space.executions.items():
            times = [
                now.until_ms for now in execution.branches.values() if now.until_ms is not None
            ]
            if times and not execution.paused:
                expected[WORKFLOW, namespace, run_id] = min(times)
        for name, schedule in space.schedules.items():
            if schedule.next_at_ms is not None:
                expected[SCHEDULE, namespace, name] = schedule.next_at_ms
    return expected


def _audit_subject(
    namespace: Namespace,
    space: Space,
    timeline: WorkflowTimeline,
    reference: ReferenceModel,
    checks: Checks,
) -> None:
    """The runs that it awaits, its parent and what it repeats are about whom it is about."""
    made, awaited = timeline.made, [now.awaited for now in timeline.branches.values()]
    others = [space.runs[one].subject for one in awaited if one is not None and one in space.runs]
    others += [
        reference.workflows.runs[namespace, before.run_id].made.subject
        for before in (made.parent, made.origin)
        if before is not None
    ]
    checks.hold(Invariant.SUBJECT_KEPT, set(others) <= {made.subject}, others, made)


def _audit_run(space: Space, timeline: WorkflowTimeline, checks: Checks) -> None:
    execution = space.executions[timeline.run_id]
    branches = {
        name: (now.step, now.awaited)
        for name, now in execution.branches.items()
        if name in timeline.branches
    }
    expected = {name: (now.step, now.awaited) for name, now in timeline.branches.items()}
    kept: tuple[Any, ...] = (
        branches,
        execution.paused,
        execution.admitted,
        list(execution.to_undo),
    )
    same = kept == (expected, timeline.paused, timeline.admitted, timeline.to_undo)
    checks.hold(Invariant.STATE_IS_THE_REFERENCE, same, kept, timeline)
    outcomes = {step: result.outcome for step, result in execution.results.items()}
    repeated = {step: result.outcome for step, result in timeline.made.results.items()}
    expected_outcomes = {**repeated, **timeline.step_outcomes}
    checks.hold(Invariant.STATE_IS_THE_REFERENCE, outcomes == expected_outcomes, outcomes, timeline)
    signals = Counter(signal.type for signal in execution.signals)
    checks.hold(
        Invariant.STATE_IS_THE_REFERENCE, signals == +timeline.signals, signals, timeline.signals
    )


def _audit_awaited(
    namespace: Namespace, space: Space, reference: ReferenceModel, checks: Checks
) -> None:
    expected = {
        run_id: waiting
        for (theirs, run_id), waiting in reference.workflows.awaited.items()
        if theirs == namespace
    }
    checks.hold(
        Invariant.STATE_IS_THE_REFERENCE, space.awaited == expected, space.awaited, expected
    )


def _audit_permits(
    namespace: Namespace,
    space: Space,
    timelines: list[WorkflowTimeline],
    reference: ReferenceModel,
    checks: Checks,
) -> None:
    expected = {
        (workflow, limit_key): holders
        for (theirs, workflow, limit_key), holders in reference.workflows.holders.items()
        if theirs == namespace and holders
    }
    kept = {
        key: set(permits.holders)
        for key, permits in space.workflow_permits.items()
        if permits.holders
    }
    checks.hold(Invariant.PERMITS_RIGHT, kept == expected, kept, expected)
    queued = {run_id for permits in space.workflow_permits.values() for run_id in permits.waiting}
    waiting = {timeline.run_id for timeline in timelines if not timeline.admitted}
    checks.hold(Invariant.PERMITS_RIGHT, queued == waiting, queued, waiting)
    for (workflow, limit_key), permits in space.workflow_permits.items():
        limit = (
            space.executions[next(iter(permits.waiting))].definition.concurrency
            if permits.waiting
            else None
        )
        full = limit is None or len(permits.holders) >= limit.max
        checks.hold(
            Invariant.PERMITS_RIGHT, full, workflow, limit_key, "has room, and runs that wait"
        )


def _audit_counts(space: Space, timelines: list[WorkflowTimeline], checks: Checks) -> None:
    live = Counter((timeline.made.workflow, timeline.made.triggered_by) for timeline in timelines)
    kept = Counter(
        {
            (name, by): count
            for name, workflow in space.workflows.items()
            for by, count in workflow.live_by.items()
            if count
        }
    )
    checks.hold(Invariant.TALLIES_RIGHT, kept == live, kept, live)


def _audit_schedules(
    namespace: Namespace, space: Space, reference: ReferenceModel, checks: Checks
) -> None:
    expected = {
        workflow: due_ms
        for (theirs, workflow), due_ms in reference.workflows.due_ms.items()
        if theirs == namespace
    }
    kept = {name: schedule.next_at_ms for name, schedule in space.schedules.items()}
    checks.hold(Invariant.STATE_IS_THE_REFERENCE, kept == expected, kept, expected)
