"""Rules of cron and interval starts.

    deployed, resumed, enabled ──▸ ScheduleSet(next) ──due──▸ ScheduleFired(next) + WorkflowStarted
                                                          ▲          │
                                                          └──────────┘

That a time has fired, and the run that it has started, are one commit: no time fires twice
and none is lost, whenever the server stops. What it missed while it was down is caught up as the
schedule says.
"""

from collections.abc import Iterable

from flo.engine.context import Context
from flo.engine.decision import Decision
from flo.engine.due import SCHEDULE, DueKey
from flo.engine.schedules.events import ScheduleFired, ScheduleRemoved, ScheduleSet
from flo.engine.schedules.records import ScheduleState
from flo.engine.state import Space, State
from flo.engine.workflows.events import (
    WorkflowCreated,
    WorkflowDeleted,
    WorkflowDisabled,
    WorkflowEnabled,
    WorkflowStarted,
)
from flo.engine.workflows.records import WorkflowRun
from flo.engine.workflows.rules import check_enabled, named_version, next_run
from flo.engine.workflows.starts import attributes, limit_key_of, subject_of
from flo.model.base import Event, Nothing
from flo.model.errors import Conflict, NotFound
from flo.model.ids import Namespace
from flo.model.schedules import (
    PauseSchedule,
    ResumeSchedule,
    RunSchedule,
    ScheduleSkipped,
    SkipSchedule,
)
from flo.model.workflows import WorkflowBegun, WorkflowName
from flo.workflow.cron import Timetable, missed, timetable_of
from flo.workflow.definition import Catchup, Schedule

BY_SCHEDULE = "schedule"
CAUGHT_UP_MAX = 100
LATE_MS_MAX = 60_000
"""A time that is later than this was missed."""


def decide_pause(state: State, command: PauseSchedule, context: Context) -> Decision:
    known = named_schedule(state.space(command.namespace), command.workflow)
    event = ScheduleSet(
        namespace=command.namespace,
        workflow=command.workflow,
        next_at_ms=None,
        at_ms=known.anchor_ms,
        paused=True,
    )
    return Decision(Nothing(), () if known.paused else (event,))


def decide_resume(state: State, command: ResumeSchedule, context: Context) -> Decision:
    space = state.space(command.namespace)
    known = named_schedule(space, command.workflow)
    if not known.paused:
        return Decision(Nothing())
    if _is_enabled(space, command.workflow):
        resumed = _armed(space, command.namespace, command.workflow, context)
    else:
        resumed = ScheduleSet(
            namespace=command.namespace,
            workflow=command.workflow,
            next_at_ms=None,
            at_ms=known.anchor_ms,
            paused=False,
        )
    return Decision(Nothing(), (resumed,))


def decide_skip(state: State, command: SkipSchedule, context: Context) -> Decision:
    space = state.space(command.namespace)
    known = named_schedule(space, command.workflow)
    schedule = deployed_schedule(space, command.workflow)
    if known.next_at_ms is None or schedule is None:
        raise Conflict(
            f"the schedule of {command.workflow!r} has no next time to skip: it is paused, or its "
            "workflow is disabled",
            code="schedule_not_active",
        )
    skipped = ScheduleSet(
        namespace=command.namespace,
        workflow=command.workflow,
        next_at_ms=timetable_of(schedule, known.anchor_ms).next_after(known.next_at_ms),
        at_ms=known.anchor_ms,
        paused=False,
    )
    reply = ScheduleSkipped(skipped_at_ms=known.next_at_ms, next_at_ms=skipped.next_at_ms)
    return Decision(reply, (skipped,))


def decide_run_now(state: State, command: RunSchedule, context: Context) -> Decision:
    space = state.space(command.namespace)
    named_schedule(space, command.workflow)
    check_enabled(space, named_version(space, command.workflow).definition)
    run = _run(space, command.workflow, context)
    started = WorkflowStarted(namespace=command.namespace, run=run)
    return Decision(WorkflowBegun(run_id=run.run_id), (started,))


def fall_due(state: State, key: DueKey, context: Context) -> Iterable[Event]:
    """A time has come, or several have passed while nobody was there."""
    _, namespace, name = key
    space = state.spaces[namespace]
    known, schedule = space.schedules[name], deployed_schedule(space, name)
    assert known.next_at_ms is not None
    assert schedule is not None
    timetable = timetable_of(schedule, known.anchor_ms)
    fired = _to_fire(schedule, timetable, known.next_at_ms, context.now_ms)
    last = fired[-1] if schedule.catchup is Catchup.ALL else context.now_ms
    next_at_ms = timetable.next_after(last)
    room = schedule.max_concurrent - space.workflows[name].live_by[BY_SCHEDULE]
    for number, due_at_ms in enumerate(fired):
        run = _run(space, name, context) if number < room else None
        yield ScheduleFired(
            namespace=namespace,
            workflow=name,
            due_at_ms=due_at_ms,
            next_at_ms=next_at_ms,
            run_id=run.run_id if run is not None else None,
        )
        if run is not None:
            yield WorkflowStarted(namespace=namespace, run=run)
    if not fired:
        yield ScheduleFired(
            namespace=namespace,
            workflow=name,
            due_at_ms=known.next_at_ms,
            next_at_ms=next_at_ms,
            run_id=None,
        )


def react_deployed(
    state: State,
    event: WorkflowCreated | WorkflowEnabled | WorkflowDisabled | WorkflowDeleted,
    context: Context,
) -> Iterable[Event]:
    """The newest version of a workflow says when it starts."""
    space = state.spaces[event.namespace]
    known, schedule = space.schedules.get(event.name), deployed_schedule(space, event.name)
    if schedule is None:
        if known is not None:
            yield ScheduleRemoved(namespace=event.namespace, workflow=event.name)
        return
    if isinstance(event, WorkflowEnabled | WorkflowDisabled) and event.version not in (
        None,
        space.workflows[event.name].latest,
    ):
        return
    paused = known.paused if known is not None else schedule.paused
    if paused or not _is_enabled(space, event.name):
        yield ScheduleSet(
            namespace=event.namespace,
            workflow=event.name,
            next_at_ms=None,
            at_ms=known.anchor_ms if known is not None else context.now_ms,
            paused=paused,
        )
    else:
        yield _armed(space, event.namespace, event.name, context)


def apply_set(state: State, event: ScheduleSet) -> None:
    space = state.spaces[event.namespace]
    known = space.schedules.get(event.workflow)
    paused_since = state.since() if event.paused else None
    if event.paused and known is not None and known.paused:
        paused_since = known.paused_since
    space.schedules[event.workflow] = ScheduleState(
        next_at_ms=event.next_at_ms,
        anchor_ms=event.at_ms,
        paused=event.paused,
        last_at_ms=known.last_at_ms if known is not None else None,
        last_run_id=known.last_run_id if known is not None else None,
        skipped=known.skipped if known is not None else 0,
        paused_since=paused_since,
    )
    reschedule(state, event.namespace, event.workflow)


def apply_removed(state: State, event: ScheduleRemoved) -> None:
    del state.spaces[event.namespace].schedules[event.workflow]
    state.due.clear((SCHEDULE, event.namespace, event.workflow))


def apply_fired(state: State, event: ScheduleFired) -> None:
    space = state.spaces[event.namespace]
    known = space.schedules[event.workflow]
    space.schedules[event.workflow] = ScheduleState(
        next_at_ms=event.next_at_ms,
        anchor_ms=known.anchor_ms,
        paused=known.paused,
        last_at_ms=event.due_at_ms,
        last_run_id=event.run_id or known.last_run_id,
        skipped=known.skipped + (event.run_id is None),
        paused_since=known.paused_since,
    )
    reschedule(state, event.namespace, event.workflow)


def reschedule(state: State, namespace: Namespace, workflow: WorkflowName) -> None:
    key = (SCHEDULE, namespace, workflow)
    at_ms = state.spaces[namespace].schedules[workflow].next_at_ms
    if at_ms is None:
        state.due.clear(key)
    else:
        state.due.set(key, at_ms)


def _to_fire(schedule: Schedule, timetable: Timetable, first_ms: int, now_ms: int) -> list[int]:
    """Which of the times that have come start a run; of very many, those that came first."""
    match schedule.catchup:
        case Catchup.ALL:
            return [first_ms, *missed(timetable, first_ms, now_ms, CAUGHT_UP_MAX)]
        case Catchup.ONE:
            return [first_ms, *missed(timetable, first_ms, now_ms, CAUGHT_UP_MAX)][-1:]
        case Catchup.NONE:
            early_ms = max(first_ms, now_ms - LATE_MS_MAX) - 1
            return missed(timetable, early_ms, now_ms, CAUGHT_UP_MAX)[-1:]


def _armed(
    space: Space, namespace: Namespace, workflow: WorkflowName, context: Context
) -> ScheduleSet:
    schedule = deployed_schedule(space, workflow)
    assert schedule is not None
    return ScheduleSet(
        namespace=namespace,
        workflow=workflow,
        next_at_ms=timetable_of(schedule, context.now_ms).next_after(context.now_ms),
        at_ms=context.now_ms,
        paused=False,
    )


def _run(space: Space, name: WorkflowName, context: Context) -> WorkflowRun:
    deployed = space.workflows[name].version(None)
    assert deployed is not None
    schedule = deployed.definition.schedule
    assert schedule is not None
    payload = schedule.input.encode()
    return WorkflowRun(
        **next_run(space, context),
        workflow=name,
        version=deployed.definition.version,
        input=payload,
        created_at_ms=context.now_ms,
        attributes=attributes(deployed.definition, payload),
        triggered_by=BY_SCHEDULE,
        limit_key=limit_key_of(deployed.definition, payload),
        subject=subject_of(schedule, payload),
    )


def deployed_schedule(space: Space, name: WorkflowName) -> Schedule | None:
    workflow = space.workflows.get(name)
    deployed = workflow.version(None) if workflow is not None else None
    return deployed.definition.schedule if deployed is not None else None


def _is_enabled(space: Space, name: WorkflowName) -> bool:
    """Whether the latest version, which has the schedule, may be started."""
    workflow = space.workflows[name]
    return workflow.is_enabled(workflow.latest)


def named_schedule(space: Space, workflow: WorkflowName) -> ScheduleState:
    known = space.schedules.get(workflow)
    if known is None:
        raise NotFound(f"workflow {workflow!r} has no schedule", code="schedule_not_found")
    return known
