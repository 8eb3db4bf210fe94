"""What starts workflow runs by itself, schedules and triggers: commands, queries, replies."""

from typing import Annotated

from flo.model.base import Message, Nothing
from flo.model.declare.fields import Cursor, Limit, Range, about
from flo.model.declare.operation import Command, Permission, Query, operation
from flo.model.declare.route import Route
from flo.model.groups import ReadGroup
from flo.model.ids import LIST_LIMIT_DEFAULT, NAMESPACE_DEFAULT, Namespace, RunId
from flo.model.views.since import SinceView
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
    paused_since: SinceView | None = None
    disabled_since: SinceView | None = None
    """Of its workflow, or of the latest version, which has the schedule."""


class ScheduleSkipped(Message):
    """The time that is passed over, and the one that comes instead."""

    skipped_at_ms: int
    next_at_ms: int | None


class SchedulePage(Message):
    items: list[ScheduleView]
    cursor: str | None = None


@operation(
    opcode=150,
    permission=Permission.SCHEDULES_MANAGE,
    http=Route("PUT", "/schedules/{workflow}/pause", errors=(404,)),
)
class PauseSchedule(Command[Nothing]):
    """Let a schedule start nothing until it is resumed."""

    workflow: WorkflowName
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(
    opcode=151,
    permission=Permission.SCHEDULES_MANAGE,
    http=Route("PUT", "/schedules/{workflow}/resume", errors=(404,)),
)
class ResumeSchedule(Command[Nothing]):
    """Let a schedule go on; the times that passed while it was paused are not caught up."""

    workflow: WorkflowName
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(
    opcode=152,
    permission=Permission.SCHEDULES_MANAGE,
    http=Route(
        "POST",
        "/schedules/{workflow}/run-now",
        status=202,
        errors=(404, 409),
        name="run_schedule_now",
    ),
)
class RunSchedule(Command[WorkflowBegun]):
    """Start a run at once, as the schedule would, also while it is paused; its times stay."""

    workflow: WorkflowName
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(
    opcode=155,
    permission=Permission.SCHEDULES_MANAGE,
    cli="flo schedule skip reconcile-accounts",
    http=Route("POST", "/schedules/{workflow}/skip", errors=(404, 409)),
)
class SkipSchedule(Command[ScheduleSkipped]):
    """Let a schedule pass over its next time; it goes on with the one after that."""

    workflow: WorkflowName
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(
    opcode=153,
    permission=Permission.SCHEDULES_READ,
    http=Route("GET", "/schedules/{workflow}", errors=(404,)),
)
class GetSchedule(Query[ScheduleView]):
    """A workflow's schedule, with the times at which it falls due next; none while paused."""

    workflow: WorkflowName
    namespace: Namespace = NAMESPACE_DEFAULT
    times: Annotated[int, Range(0, TIMES_MAX), about("How many of the next times to tell.")] = 5


@operation(opcode=154, permission=Permission.SCHEDULES_READ, http=Route("GET", "/schedules"))
class ListSchedules(Query[SchedulePage]):
    """The schedules, by workflow, each with its next time and its last."""

    namespace: Namespace = NAMESPACE_DEFAULT
    limit: Limit = LIST_LIMIT_DEFAULT
    cursor: Cursor = None


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
