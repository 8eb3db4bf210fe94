"""What starts workflow runs by itself: schedules and triggers. Their words and facts."""

from flo.model.base import Message, Nothing
from flo.model.groups import ReadGroup
from flo.model.ids import LIST_LIMIT_DEFAULT, NAMESPACE_DEFAULT, Namespace, RunId
from flo.model.operation import Command, Permission, Query, operation
from flo.model.workflows import WorkflowBegun, WorkflowName

TIMES_MAX = 100
CONSUMER = "flo-trigger"


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


@operation(opcode=150, permission=Permission.SCHEDULES_MANAGE)
class PauseSchedule(Command[Nothing]):
    workflow: WorkflowName
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(opcode=151, permission=Permission.SCHEDULES_MANAGE)
class ResumeSchedule(Command[Nothing]):
    workflow: WorkflowName
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(opcode=152, permission=Permission.SCHEDULES_MANAGE, repeatable=False)
class RunSchedule(Command[WorkflowBegun]):
    """Start a run now, as the schedule would."""

    workflow: WorkflowName
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(opcode=153, permission=Permission.SCHEDULES_READ)
class GetSchedule(Query[ScheduleView]):
    """A schedule, with the times at which it falls due next."""

    workflow: WorkflowName
    namespace: Namespace = NAMESPACE_DEFAULT
    times: int = 5


@operation(opcode=154, permission=Permission.SCHEDULES_READ)
class ListSchedules(Query[SchedulePage]):
    namespace: Namespace = NAMESPACE_DEFAULT
    limit: int = LIST_LIMIT_DEFAULT
    cursor: str | None = None


class PullTrigger(ReadGroup):
    """Start workflow runs for the records that a trigger's group reads next.

    The group and the stream are those of the trigger; the runs and the group's place in the stream
    are one commit.
    """

    join: bool = False
    workflow: WorkflowName = ""
    workflow_namespace: Namespace = NAMESPACE_DEFAULT
    is_patient: bool = False
    """Whether it waits for a batch that is not full; otherwise it is told how long that takes."""
