"""One run of an action: commands, queries, replies."""

from enum import StrEnum
from typing import Annotated, TypeAlias

import msgspec

from flo.model.base import Message
from flo.model.declare.dead_letters import DEAD_PER_CALL_DEFAULT, DeadLettersChanged, DeadLimit
from flo.model.declare.fields import (
    BlockMs,
    Checked,
    Cursor,
    IdempotencyKey,
    ItemCount,
    Limit,
    Payload,
    Range,
    Reason,
    RequiredLabels,
    Subject,
    Text,
    TraceParent,
    about,
)
from flo.model.declare.operation import Command, Permission, Query, operation
from flo.model.declare.route import Route
from flo.model.errors import ERROR_CODE_LENGTH_MAX
from flo.model.explain import Explained
from flo.model.ids import (
    DURATION_MS_MAX,
    LIST_LIMIT_DEFAULT,
    LIST_LIMIT_MAX,
    NAMESPACE_DEFAULT,
    ActionName,
    Labels,
    Namespace,
    RunId,
    WorkerId,
    check_worker_id,
)
from flo.model.kv import Change, Check
from flo.model.views.attempts import AttemptView
from flo.model.views.causes import CauseView
from flo.model.workers import ACTIONS_PER_WORKER_MAX

PRIORITY_DEFAULT = 10
PRIORITY_MAX = 255
OUTCOME_SUCCESS = "success"
TASKS_PER_CLAIM_MAX = 1_000
RUNS_PER_WAIT_MAX = 1_000
CHECKS_PER_RESULT_MAX = 1_024
TOUCH_MS_MAX = 3_600_000

DEAD_NAMES = {"name": "action", "run_ids": "ids"}
"""What commands about dead letters call their fields over HTTP."""

ChosenRuns: TypeAlias = Annotated[
    list[RunId] | None,
    ItemCount(LIST_LIMIT_MAX, "runs"),
    about("The ids of the runs, all or none of which are taken; without them, any."),
]

Attempt: TypeAlias = Annotated[int, about("Which attempt; 0 is whichever this worker holds now.")]


Took: TypeAlias = Annotated[
    int | None,
    Range(0, DURATION_MS_MAX),
    about("How long it took to execute, by the clock of the worker."),
]
Held: TypeAlias = Annotated[
    int | None,
    Range(0, DURATION_MS_MAX),
    about("How long the worker held it before it began, by its own clock."),
]


class RunStatus(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"


PENDING, RUNNING, COMPLETED = RunStatus.PENDING, RunStatus.RUNNING, RunStatus.COMPLETED
"""Names for what is asked of every run: to get a member of an Enum takes five times as long."""
LIVE = frozenset({PENDING, RUNNING})


class Invoked(Message):
    run_id: RunId
    duplicate: bool = False
    inline: bool = False
    """The server performs it itself: the result is worth waiting for."""


class TaskTrace(Message):
    """The trace that a run belongs to, and what its spans tell."""

    parent: str
    """The W3C trace context of who made it."""
    ready_at_ms: int
    step: str | None = None
    workflow_run_id: RunId | None = None


class Task(Message):
    """A run in the hands of a worker."""

    task_id: RunId
    task_type: ActionName
    payload: bytes
    created_at_ms: int
    attempt: int
    lease_expires_at_ms: int | None = None
    timeout_ms: int = 0
    """How long the attempt may execute; 0 is without end."""
    trace: TaskTrace | None = None
    secrets: dict[str, str] = msgspec.field(default_factory=dict)
    """The values of the secrets that its action names; filled in on the way to the worker."""

    def __repr__(self) -> str:
        return f"Task(task_id={self.task_id!r}, attempt={self.attempt})"


class Assigned(Message):
    """What a claim brings; a draining worker gets nothing more."""

    tasks: list[Task] = msgspec.field(default_factory=list)
    draining: bool = False


class Accepted(Message):
    """A report has been taken in; `status` is the run's now."""

    run_id: RunId
    status: RunStatus


class DeadRunsChanged(DeadLettersChanged):
    """The dead letters that were requeued or purged; `more` says that there are others."""

    ids: list[RunId] = msgspec.field(name="run_ids")


class Touched(Message):
    run_id: RunId
    lease_expires_at_ms: int | None


class RunView(Message):
    """A run as its users see it."""

    run_id: RunId
    action: ActionName
    namespace: Namespace
    status: RunStatus
    priority: int
    attempt: int
    input: bytes
    created_at_ms: int
    ready_at_ms: int
    started_at_ms: int | None
    finished_at_ms: int | None
    worker_id: WorkerId | None
    lease_expires_at_ms: int | None
    output: bytes | None
    outcome: str | None
    error: str | None
    error_code: str | None
    """What kind of error it is, for programs."""
    retryable: bool | None
    """Whether another try might help; None where nothing has failed."""
    dead_lettered: bool
    idempotency_key: str | None
    labels: Labels | None
    attempts: list[AttemptView]
    cause: CauseView
    subject: str | None = None
    took_ms: int | None = None
    """How long the attempt that ended it took, as its worker measured."""
    held_ms: int | None = None
    """How long its worker held it before that attempt began, as it measured."""
    by: str | None = None
    """Who has invoked it, if somebody outside did: how the command came in, and from where."""
    cancelled_by: str | None = None


class RunResult(Message):
    """How a run has ended."""

    run_id: RunId
    status: RunStatus
    attempt: int
    output: bytes | None = None
    outcome: str | None = None
    error: str | None = None
    error_code: str | None = None
    retryable: bool | None = None


class Ended(Message):
    """The answer to a wait; `unknown` are ids that no run has."""

    results: list[RunResult] = msgspec.field(default_factory=list)
    unknown: list[RunId] = msgspec.field(default_factory=list)


class RunExplanation(Explained):
    run_id: RunId
    action: ActionName
    status: RunStatus


class RunPage(Message):
    items: list[RunView]
    cursor: str | None = None


@operation(
    opcode=20,
    batch_opcode=21,
    permission=Permission.RUNS_INVOKE,
    repeatable=lambda invoke: invoke.idempotency_key is not None,
)
class Invoke(Command[Invoked]):
    """Queue a run of the action.

    A disabled action takes no runs (`action_disabled`), and its schema may refuse the input
    (`input_invalid`).
    """

    action: ActionName
    input: Annotated[bytes, about("What the worker is given.")] = b""
    namespace: Namespace = NAMESPACE_DEFAULT
    priority: Annotated[int, Range(0, PRIORITY_MAX), about("The higher, the earlier.")] = (
        PRIORITY_DEFAULT
    )
    delay_ms: Annotated[
        int, Range(0, DURATION_MS_MAX), about("Not to be run before this has passed.")
    ] = 0
    idempotency_key: IdempotencyKey | None = None
    labels: RequiredLabels | None = None
    subject: Subject | None = None
    trace: TraceParent | None = None


@operation(
    opcode=22,
    permission=Permission.TASKS_WORK,
    repeatable=True,
    http=Route(
        "POST",
        "/workers/{worker_id}/await",
        name="await_tasks",
        defaults={"block_ms": 30_000},
        without=("held_max",),
    ),
)
class Claim(Command[Assigned]):
    """Take up to `max_tasks` tasks, waiting up to `block_ms` for the first."""

    worker_id: Annotated[WorkerId, Checked(check_worker_id)]
    actions: Annotated[
        list[ActionName],
        ItemCount(ACTIONS_PER_WORKER_MAX, "actions to claim"),
        about("The actions whose tasks it takes."),
    ]
    namespace: Namespace = NAMESPACE_DEFAULT
    max_tasks: Annotated[int, Range(1, TASKS_PER_CLAIM_MAX), about("The most tasks to take.")] = 1
    block_ms: BlockMs = 0
    held_max: Annotated[
        int | None, about("The most tasks that it may then hold, over all namespaces.")
    ] = None


@operation(
    opcode=23,
    batch_opcode=24,
    permission=Permission.TASKS_WORK,
    repeatable=lambda report: report.attempt > 0,
    http=Route(
        "POST",
        "/tasks/{task_id}/complete",
        errors=(404, 409),
        name="complete_task",
        names={"task_id": "run_id", "result": "output"},
        without=("checks", "changes"),
    ),
)
class Complete(Command[Accepted]):
    """Report the result of a task.

    A result that the schema of the action refuses is `output_invalid`; the task is still the
    worker's.
    """

    run_id: RunId
    worker_id: WorkerId
    namespace: Namespace = NAMESPACE_DEFAULT
    attempt: Attempt = 0
    output: Annotated[bytes, Payload("an output"), about("The result.")] = b""
    outcome: Annotated[str, Text(), about("Which way a workflow goes on from here.")] = (
        OUTCOME_SUCCESS
    )
    checks: Annotated[
        list[Check], about("Versions that keys must have, or the result is refused.")
    ] = msgspec.field(default_factory=list)
    changes: Annotated[
        list[Change], about("Changes of keys that happen with the result: both, or neither.")
    ] = msgspec.field(default_factory=list)
    took_ms: Took = None
    held_ms: Held = None


@operation(
    opcode=25,
    permission=Permission.TASKS_WORK,
    repeatable=lambda report: report.attempt > 0,
    http=Route(
        "POST",
        "/tasks/{task_id}/fail",
        errors=(404, 409),
        name="fail_task",
        names={"task_id": "run_id"},
        without=("timed_out",),
        is_body_long=True,
    ),
)
class Fail(Command[Accepted]):
    """Report that an attempt has failed; without `retry` the run has failed for good.

    Without `retry` and without `dead_letter` it is not retryable: the `retry` of a workflow step is
    not used either.
    """

    run_id: RunId
    worker_id: WorkerId
    namespace: Namespace = NAMESPACE_DEFAULT
    attempt: Attempt = 0
    error: Annotated[str, about("What went wrong.")] = ""
    code: Annotated[
        str | None,
        Text(ERROR_CODE_LENGTH_MAX),
        about(
            "What kind of error it is, in one word, as plans and programs know it; without it, the "
            "word that the error is or begins with, as in `invalid_card: expired`."
        ),
    ] = None
    retry: Annotated[bool, about("Try again while retries are left.")] = False
    dead_letter: Annotated[
        bool, about("Keep a run that has failed for good, so that it can be requeued.")
    ] = True
    timed_out: Annotated[
        bool, about("For want of time: without a retry the run has timed out.")
    ] = False
    took_ms: Took = None
    held_ms: Held = None


@operation(
    opcode=26,
    permission=Permission.TASKS_WORK,
    http=Route(
        "POST",
        "/tasks/{task_id}/touch",
        errors=(404, 409),
        name="touch_task",
        names={"task_id": "run_id"},
    ),
)
class Touch(Command[Touched]):
    """Extend the lease of a task that takes longer."""

    run_id: RunId
    worker_id: WorkerId
    namespace: Namespace = NAMESPACE_DEFAULT
    attempt: Attempt = 0
    extend_ms: Annotated[
        int, Range(1, TOUCH_MS_MAX), about("How long the lease is to last, from now.")
    ] = 30_000


@operation(opcode=27, permission=Permission.RUNS_MANAGE)
class Cancel(Command[Accepted]):
    """End a run that is pending or running; the worker that holds it hears of it at once.

    A run that has ended already is refused: `run_has_ended`.
    """

    run_id: RunId
    namespace: Namespace = NAMESPACE_DEFAULT
    reason: Reason = ""


@operation(
    opcode=28,
    permission=Permission.RUNS_MANAGE,
    http=Route("POST", "/actions/{name}/dlq/requeue", errors=(404, 409), names=DEAD_NAMES),
)
class RequeueDeadRuns(Command[DeadRunsChanged]):
    """Make dead letters of an action pending again, with all their retries: some, or all.

    While the answer says `more`, there are others: ask again.
    """

    action: ActionName
    namespace: Namespace = NAMESPACE_DEFAULT
    ids: ChosenRuns = None
    limit: DeadLimit = DEAD_PER_CALL_DEFAULT


@operation(
    opcode=29,
    permission=Permission.RUNS_MANAGE,
    http=Route("DELETE", "/actions/{name}/dlq", errors=(404, 409), names=DEAD_NAMES),
)
class PurgeDeadRuns(Command[DeadRunsChanged]):
    """Forget dead letters of an action: some, or all.

    Over HTTP the body must be there, with `{}` for all, so that one lost on the way does not forget
    more than was meant. While the answer says `more`, there are others: ask again.
    """

    action: ActionName
    namespace: Namespace = NAMESPACE_DEFAULT
    ids: ChosenRuns = None
    limit: DeadLimit = DEAD_PER_CALL_DEFAULT


@operation(opcode=30, permission=Permission.RUNS_READ)
class GetRun(Query[RunView]):
    """A run as it is now."""

    run_id: RunId
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(opcode=31, permission=Permission.RUNS_READ)
class WaitForRuns(Query[Ended]):
    """Those of these runs that have ended, as soon as one has; none of them after `block_ms`."""

    run_ids: Annotated[
        list[RunId],
        ItemCount(RUNS_PER_WAIT_MAX, "runs to wait for"),
        about("The ids of the runs to wait for."),
    ]
    namespace: Namespace = NAMESPACE_DEFAULT
    block_ms: BlockMs = 30_000


@operation(
    opcode=32,
    permission=Permission.RUNS_READ,
    http=Route("GET", "/runs"),
)
class ListRuns(Query[RunPage]):
    """The runs of an action, or of all, the newest first.

    With a subject, a page may be short, or empty, and there are more nevertheless: as long as there
    is a cursor.
    """

    action: Annotated[ActionName | None, about("Only runs of this action.")] = None
    namespace: Namespace = NAMESPACE_DEFAULT
    status: Annotated[RunStatus | None, about("Only runs in this status.")] = None
    limit: Limit = LIST_LIMIT_DEFAULT
    cursor: Cursor = None
    subject: Annotated[str | None, about("Only runs that are about this subject.")] = None


@operation(
    opcode=33,
    permission=Permission.RUNS_READ,
    http=Route("GET", "/actions/{name}/dlq", names={"name": "action"}),
)
class ListDeadRuns(Query[RunPage]):
    """The dead letters of an action, the newest first."""

    action: ActionName
    namespace: Namespace = NAMESPACE_DEFAULT
    limit: Limit = LIST_LIMIT_DEFAULT
    cursor: Cursor = None


@operation(
    opcode=34,
    permission=Permission.RUNS_READ,
    http=Route("GET", "/runs/{run_id}/explain", errors=(404,)),
)
class ExplainRun(Query[RunExplanation]):
    """Why a run is where it is: every cause, when it changes by itself, and what would help."""

    run_id: RunId
    namespace: Namespace = NAMESPACE_DEFAULT
