"""The HTTP routes of schedules: inspect, pause, resume, run now, list."""

from typing import Annotated

from litestar import get, post, put
from litestar.di import NamedDependency
from litestar.params import QueryParameter

from flo.model.base import Nothing
from flo.model.ids import LIST_LIMIT_DEFAULT, NAMESPACE_DEFAULT
from flo.model.schedules import (
    TIMES_MAX,
    GetSchedule,
    ListSchedules,
    PauseSchedule,
    ResumeSchedule,
    RunSchedule,
    SchedulePage,
    ScheduleView,
)
from flo.model.workflows import WorkflowBegun
from flo.server.http.asker import Asker
from flo.server.http.errors import refusals
from flo.server.http.request import CursorQuery, LimitQuery, NamespaceQuery
from flo.server.http.routes.workflows import WorkflowPath

TIMES_DEFAULT = 5


@get("/schedules", tags=["schedules"], responses=refusals())
async def list_schedules(
    asker: NamedDependency[Asker],
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
    limit: LimitQuery = LIST_LIMIT_DEFAULT,
    cursor: CursorQuery = None,
) -> SchedulePage:
    """The schedules, by workflow, each with its next time and its last."""
    query = ListSchedules(namespace=namespace, limit=limit, cursor=cursor)
    return await asker.ask(query, SchedulePage)


@get("/schedules/{workflow:str}", tags=["schedules"], responses=refusals(404))
async def get_schedule(
    asker: NamedDependency[Asker],
    workflow: WorkflowPath,
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
    times: Annotated[
        int,
        QueryParameter(
            name="times", ge=0, le=TIMES_MAX, description="How many of the next times to tell."
        ),
    ] = TIMES_DEFAULT,
) -> ScheduleView:
    """A workflow's schedule, with the times at which it falls due next; none while it is paused."""
    query = GetSchedule(workflow=workflow, namespace=namespace, times=times)
    return await asker.ask(query, ScheduleView)


@put(
    "/schedules/{workflow:str}/pause",
    status_code=204,
    tags=["schedules"],
    responses=refusals(404),
)
async def pause_schedule(
    asker: NamedDependency[Asker],
    workflow: WorkflowPath,
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
) -> None:
    """Let a schedule start nothing until it is resumed."""
    await asker.ask(PauseSchedule(workflow=workflow, namespace=namespace), Nothing)


@put(
    "/schedules/{workflow:str}/resume",
    status_code=204,
    tags=["schedules"],
    responses=refusals(404),
)
async def resume_schedule(
    asker: NamedDependency[Asker],
    workflow: WorkflowPath,
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
) -> None:
    """Let a schedule go on; the times that passed while it was paused are not caught up."""
    await asker.ask(ResumeSchedule(workflow=workflow, namespace=namespace), Nothing)


@post(
    "/schedules/{workflow:str}/run-now",
    status_code=202,
    tags=["schedules"],
    response_description="Started.",
    responses=refusals(404, 409),
)
async def run_schedule_now(
    asker: NamedDependency[Asker],
    workflow: WorkflowPath,
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
) -> WorkflowBegun:
    """Start a run at once, as the schedule would, also while it is paused; its times stay."""
    return await asker.ask(RunSchedule(workflow=workflow, namespace=namespace), WorkflowBegun)


ROUTES = (list_schedules, get_schedule, pause_schedule, resume_schedule, run_schedule_now)
