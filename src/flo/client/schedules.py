"""Schedules of workflows: look at them, pause, resume, run now."""

from flo.client.handles.execution import WorkflowHandle
from flo.client.noun import Noun
from flo.client.session.session import Session
from flo.client.workflows import Workflows
from flo.model.ids import LIST_LIMIT_DEFAULT, Namespace
from flo.model.schedules import (
    GetSchedule,
    ListSchedules,
    PauseSchedule,
    ResumeSchedule,
    RunSchedule,
    SchedulePage,
    ScheduleSkipped,
    ScheduleView,
    SkipSchedule,
)
from flo.model.workflows import WorkflowName

TIMES_DEFAULT = 5


class Schedules(Noun):
    """A schedule has no name of its own: it is that of its workflow."""

    def __init__(self, session: Session, namespace: Namespace) -> None:
        super().__init__(session, namespace)
        self._workflows = Workflows(session, namespace)

    async def get(self, workflow: WorkflowName, times: int = TIMES_DEFAULT) -> ScheduleView:
        """A schedule, with the next so many times at which it falls due."""
        return await self._call(GetSchedule(workflow=workflow, times=times))

    async def list(
        self, limit: int = LIST_LIMIT_DEFAULT, cursor: str | None = None
    ) -> SchedulePage:
        return await self._call(ListSchedules(limit=limit, cursor=cursor))

    async def pause(self, workflow: WorkflowName) -> None:
        """No times any more until it is resumed; the workflow can still be started by hand."""
        await self._call(PauseSchedule(workflow=workflow))

    async def resume(self, workflow: WorkflowName) -> None:
        """The times from now on; those that have passed meanwhile are not caught up."""
        await self._call(ResumeSchedule(workflow=workflow))

    async def skip(self, workflow: WorkflowName) -> ScheduleSkipped:
        """Pass over the next time."""
        return await self._call(SkipSchedule(workflow=workflow))

    async def run_now(self, workflow: WorkflowName) -> WorkflowHandle:
        """Start a run now, with the input that the schedule gives; its times stay as they are."""
        begun = await self._call(RunSchedule(workflow=workflow))
        return WorkflowHandle(self._workflows, begun.run_id, begun.duplicate)
