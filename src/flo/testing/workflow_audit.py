"""Counts again what the engine keeps count of for workflows, and compares."""

from collections import Counter
from typing import Any

from flo.core.due import SCHEDULE, WORKFLOW, DueKey
from flo.core.state import Space, State
from flo.model.ids import Namespace
from flo.testing.facts import Facts
from flo.testing.invariants import Checks, Invariant
from flo.testing.workflow_tale import WorkflowTale


def audit_workflows(state: State, facts: Facts, checks: Checks) -> None:
    live = sum(len(space.courses) for space in state.spaces.values())
    told = len(facts.workflows.live)
    checks.hold(Invariant.STATE_IS_THE_FACTS, live == told, live, "workflow runs, not", told)
    for namespace, space in state.spaces.items():
        tales = [tale for tale in facts.workflows.live.values() if tale.namespace == namespace]
        for tale in tales:
            _audit_run(space, tale, checks)
        _audit_awaited(namespace, space, facts, checks)
        _audit_slots(namespace, space, tales, facts, checks)
        _audit_counts(space, tales, checks)
        _audit_schedules(namespace, space, facts, checks)


def due_workflows(state: State) -> dict[DueKey, int]:
    """What of workflows and schedules falls due, and when."""
    expected: dict[DueKey, int] = {}
    for namespace, space in state.spaces.items():
        for run_id, course in space.courses.items():
            times = [now.until_ms for now in course.walks.values() if now.until_ms is not None]
            if times and not course.paused:
                expected[WORKFLOW, namespace, run_id] = min(times)
        for name, schedule in space.schedules.items():
            if schedule.next_at_ms is not None:
                expected[SCHEDULE, namespace, name] = schedule.next_at_ms
    return expected


def _audit_run(space: Space, tale: WorkflowTale, checks: Checks) -> None:
    course = space.courses[tale.run_id]
    walks = {
        name: (now.step, now.awaited) for name, now in course.walks.items() if name in tale.walks
    }
    told = {name: (now.step, now.awaited) for name, now in tale.walks.items()}
    kept: tuple[Any, ...] = (walks, course.paused, course.admitted, list(course.to_undo))
    same = kept == (told, tale.paused, tale.admitted, tale.to_undo)
    checks.hold(Invariant.STATE_IS_THE_FACTS, same, kept, tale)
    signals = Counter(signal.type for signal in course.signals)
    checks.hold(Invariant.STATE_IS_THE_FACTS, signals == +tale.signals, signals, tale.signals)


def _audit_awaited(namespace: Namespace, space: Space, facts: Facts, checks: Checks) -> None:
    told = {
        run_id: waiting
        for (theirs, run_id), waiting in facts.workflows.awaited.items()
        if theirs == namespace
    }
    checks.hold(Invariant.STATE_IS_THE_FACTS, space.awaited == told, space.awaited, told)


def _audit_slots(
    namespace: Namespace, space: Space, tales: list[WorkflowTale], facts: Facts, checks: Checks
) -> None:
    told = {
        (workflow, slot): holders
        for (theirs, workflow, slot), holders in facts.workflows.holders.items()
        if theirs == namespace and holders
    }
    kept = {key: set(slots.holders) for key, slots in space.slots.items() if slots.holders}
    checks.hold(Invariant.SLOTS_RIGHT, kept == told, kept, told)
    line = {run_id for slots in space.slots.values() for run_id in slots.line}
    waiting = {tale.run_id for tale in tales if not tale.admitted}
    checks.hold(Invariant.SLOTS_RIGHT, line == waiting, line, waiting)
    for (workflow, slot), slots in space.slots.items():
        limit = space.courses[next(iter(slots.line))].definition.concurrency if slots.line else None
        full = limit is None or len(slots.holders) >= limit.max
        checks.hold(Invariant.SLOTS_RIGHT, full, workflow, slot, "has room, and a line")


def _audit_counts(space: Space, tales: list[WorkflowTale], checks: Checks) -> None:
    live = Counter((tale.made.workflow, tale.made.triggered_by) for tale in tales)
    kept = Counter(
        {
            (name, by): count
            for name, workflow in space.workflows.items()
            for by, count in workflow.live_by.items()
            if count
        }
    )
    checks.hold(Invariant.TALLIES_RIGHT, kept == live, kept, live)


def _audit_schedules(namespace: Namespace, space: Space, facts: Facts, checks: Checks) -> None:
    told = {
        workflow: due_ms
        for (theirs, workflow), due_ms in facts.workflows.due_ms.items()
        if theirs == namespace
    }
    kept = {name: schedule.next_at_ms for name, schedule in space.schedules.items()}
    checks.hold(Invariant.STATE_IS_THE_FACTS, kept == told, kept, told)
