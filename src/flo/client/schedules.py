"""Schedules of workflows: look at them, pause, resume, run now."""

from flo.client.handles.execution import WorkflowHandle
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
    ScheduleView,
)
from flo.model.workflows import WorkflowName

TIMES_DEFAULT = 5


class Schedules:
    """A schedule has no name of its own: it is that of its workflow."""

    def __init__(self, session: Session, namespace: Namespace) -> None:
        self._session = session
        self._namespace = namespace
        self._workflows = Workflows(session, namespace)

    async def get(self, workflow: WorkflowName, times: int = TIMES_DEFAULT) -> ScheduleView:
        """A schedule, with the next so many times at which it falls due."""
        query = GetSchedule(workflow=workflow, namespace=self._namespace, times=times)
        return await self._session.call(query)

    async def list(
        self, limit: int = LIST_LIMIT_DEFAULT, cursor: str | None = None
    ) -> SchedulePage:
        query = ListSchedules(namespace=self._namespace, limit=limit, cursor=cursor)
        return await self._session.call(query)

    async def pause(self, workflow: WorkflowName) -> None:
        """No times any more until it is resumed; the workflow can still be started by hand."""
        command = PauseSchedule(workflow=workflow, namespace=self._namespace)
        await self._session.call(command)

    async def resume(self, workflow: WorkflowName) -> None:
        """The times from now on; those that have passed meanwhile are not caught up."""
        command = ResumeSchedule(workflow=workflow, namespace=self._namespace)
        await self._session.call(command)

    async def run_now(self, workflow: WorkflowName) -> WorkflowHandle:
        """Start a run now, with the input that the schedule gives; its times stay as they are."""
        command = RunSchedule(workflow=workflow, namespace=self._namespace)
        begun = await self._session.call(command, repeatable=False)
        return WorkflowHandle(self._workflows, begun.run_id, begun.duplicate)
