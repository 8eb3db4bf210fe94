"""Queries about schedules: when each starts a run next."""

from flo.engine.context import Context
from flo.engine.lists.paging import page_of
from flo.engine.schedules.rules import BY_SCHEDULE, deployed_schedule, named_schedule
from flo.engine.state import Space, State
from flo.model.ids import Namespace
from flo.model.schedules import (
    GetSchedule,
    ListSchedules,
    SchedulePage,
    ScheduleView,
)
from flo.model.views.since import since_view
from flo.model.workflows import WorkflowName
from flo.workflow.cron import timetable_of, upcoming


def get_schedule(state: State, query: GetSchedule, context: Context) -> ScheduleView:
    space = state.space(query.namespace)
    named_schedule(space, query.workflow)
    return _view(space, query.namespace, query.workflow, query.times, context)


def list_schedules(state: State, query: ListSchedules, context: Context) -> SchedulePage:
    space = state.space(query.namespace)
    names, cursor = page_of(space.schedules, query)
    views = [_view(space, query.namespace, name, 1, context) for name in names]
    return SchedulePage(items=views, cursor=cursor)


def _view(
    space: Space, namespace: Namespace, name: WorkflowName, count: int, context: Context
) -> ScheduleView:
    known, schedule = space.schedules[name], deployed_schedule(space, name)
    assert schedule is not None
    times: list[int] = []
    if known.next_at_ms is not None and count:
        timetable = timetable_of(schedule, known.anchor_ms)
        times = [known.next_at_ms, *upcoming(timetable, known.next_at_ms, count - 1)]
    workflow = space.workflows[name]
    return ScheduleView(
        workflow=name,
        namespace=namespace,
        cron=schedule.cron,
        interval_ms=schedule.interval_ms,
        timezone=schedule.timezone,
        paused=known.paused,
        enabled=workflow.is_enabled(workflow.latest),
        next_at_ms=known.next_at_ms,
        last_at_ms=known.last_at_ms,
        last_run_id=known.last_run_id,
        live_runs=workflow.live_by[BY_SCHEDULE],
        max_concurrent=schedule.max_concurrent,
        skipped=known.skipped,
        times=times,
        paused_since=since_view(known.paused_since),
        disabled_since=since_view(workflow.rests_since(workflow.latest)),
    )
