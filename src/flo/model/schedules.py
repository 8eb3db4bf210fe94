"""What starts workflow runs by itself: schedules and triggers. Their words and facts."""

from flo.model.base import Event, Message, Record
from flo.model.groups import ReadGroup
from flo.model.ids import LIST_LIMIT_DEFAULT, NAMESPACE_DEFAULT, Namespace, RunId
from flo.model.workflow_facts import WorkflowName

TIMES_MAX = 100
CONSUMER = "flo-trigger"


class ScheduleState(Record):
    """Where a schedule stands."""

    next_at_ms: int | None
    anchor_ms: int
    """Since when it runs: intervals are counted from here."""
    paused: bool = False
    last_at_ms: int | None = None
    last_run_id: RunId | None = None
    skipped: int = 0


class PauseSchedule(Message):
    workflow: WorkflowName
    namespace: Namespace = NAMESPACE_DEFAULT


class ResumeSchedule(Message):
    workflow: WorkflowName
    namespace: Namespace = NAMESPACE_DEFAULT


class RunSchedule(Message):
    """Start a run now, as the schedule would."""

    workflow: WorkflowName
    namespace: Namespace = NAMESPACE_DEFAULT


class GetSchedule(Message):
    """A schedule, with the times at which it falls due next."""

    workflow: WorkflowName
    namespace: Namespace = NAMESPACE_DEFAULT
    times: int = 5


class ListSchedules(Message):
    namespace: Namespace = NAMESPACE_DEFAULT
    limit: int = LIST_LIMIT_DEFAULT
    cursor: str | None = None


class PullTrigger(ReadGroup):
    """Start workflow runs for the records that a trigger's group reads next.

    The group and the stream are those of the trigger; the runs and the group's place in the stream
    are one commit.
    """

    workflow: WorkflowName = ""
    workflow_namespace: Namespace = NAMESPACE_DEFAULT
    is_patient: bool = False
    """Whether it waits for a batch that is not full; otherwise it is told how long that takes."""


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


class BatchWaits(Message):
    """A batch is not full yet; it starts a run after this time all the same."""

    wait_ms: int


class ScheduleView(Message):
    workflow: WorkflowName
    namespace: Namespace
    cron: str | None
    interval_ms: int | None
    timezone: str
    paused: bool
    enabled: bool
    next_at_ms: int | None
    last_at_ms: int | None
    last_run_id: RunId | None
    live_runs: int
    max_concurrent: int
    skipped: int
    times: list[int]


class SchedulePage(Message):
    items: list[ScheduleView]
    cursor: str | None = None
