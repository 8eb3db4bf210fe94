"""What the log remembers of schedules."""

from flo.model.base import Event
from flo.model.ids import Namespace, RunId
from flo.model.workflows import WorkflowName


class ScheduleSet(Event):
    """When a schedule falls due next; None while it is paused or its workflow is disabled."""

    namespace: Namespace
    workflow: WorkflowName
    next_at_ms: int | None
    at_ms: int
    paused: bool


class ScheduleRemoved(Event):
    namespace: Namespace
    workflow: WorkflowName


class ScheduleFired(Event):
    """A time has come; the run it starts is in the same commit. None: it was skipped."""

    namespace: Namespace
    workflow: WorkflowName
    due_at_ms: int
    next_at_ms: int | None
    run_id: RunId | None
