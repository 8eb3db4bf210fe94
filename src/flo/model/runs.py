"""One run of an action: commands, queries, replies."""

from enum import StrEnum

import msgspec

from flo.model.base import Message
from flo.model.ids import (
    LIST_LIMIT_DEFAULT,
    NAMESPACE_DEFAULT,
    ActionName,
    Labels,
    Namespace,
    RunId,
    WorkerId,
)
from flo.model.kv import Change, Check
from flo.model.operation import Command, Permission, Query, operation

PRIORITY_DEFAULT = 10
PRIORITY_MAX = 255
OUTCOME_SUCCESS = "success"
TASKS_PER_CLAIM_MAX = 1_000
RUNS_PER_WAIT_MAX = 1_000
CHECKS_PER_RESULT_MAX = 1_024


class RunStatus(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"


LIVE = frozenset({RunStatus.PENDING, RunStatus.RUNNING})


class Invoked(Message):
    run_id: RunId
    duplicate: bool = False
    inline: bool = False
    """The server performs it itself: the result is worth waiting for."""


class Task(Message):
    """A run in the hands of a worker."""

    task_id: RunId
    task_type: ActionName
    payload: bytes
    created_at_ms: int
    attempt: int
    lease_expires_at_ms: int | None = None


class Assigned(Message):
    """What a claim brings; a draining worker gets nothing more."""

    tasks: list[Task] = msgspec.field(default_factory=list)
    draining: bool = False


class Accepted(Message):
    """A report has been taken in; `status` is the run's now."""

    run_id: RunId
    status: RunStatus


class Requeued(Message):
    """The dead letters that are pending again; `more` says that there are others."""

    run_ids: list[RunId]
    more: bool = False


class Purged(Message):
    """The dead letters that are forgotten; `more` says that there are others."""

    run_ids: list[RunId]
    more: bool = False


class Touched(Message):
    run_id: RunId
    lease_expires_at_ms: int | None


class Ticked(Message):
    """`more` says that not everything due fitted into one tick."""

    more: bool


class AttemptView(Message):
    number: int
    worker_id: WorkerId
    started_at_ms: int
    ended_at_ms: int
    error: str


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
    dead_lettered: bool
    idempotency_key: str | None
    labels: Labels | None
    attempts: list[AttemptView]


class RunResult(Message):
    """How a run has ended."""

    run_id: RunId
    status: RunStatus
    attempt: int
    output: bytes | None = None
    outcome: str | None = None
    error: str | None = None


class Ended(Message):
    """The answer to a wait; `unknown` are ids that no run has."""

    results: list[RunResult] = msgspec.field(default_factory=list)
    unknown: list[RunId] = msgspec.field(default_factory=list)


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
    action: ActionName
    input: bytes = b""
    namespace: Namespace = NAMESPACE_DEFAULT
    priority: int = PRIORITY_DEFAULT
    delay_ms: int = 0
    idempotency_key: str | None = None
    labels: Labels | None = None


@operation(opcode=22, permission=Permission.TASKS_WORK)
class Claim(Command[Assigned]):
    """Take up to `max_tasks` ready runs of these actions; wait up to `block_ms` for the first."""

    worker_id: WorkerId
    actions: list[ActionName]
    namespace: Namespace = NAMESPACE_DEFAULT
    max_tasks: int = 1
    block_ms: int = 0


@operation(
    opcode=23,
    batch_opcode=24,
    permission=Permission.TASKS_WORK,
    repeatable=lambda report: report.attempt > 0,
)
class Complete(Command[Accepted]):
    """The result of a task. `attempt` 0 means: whichever attempt this worker holds now."""

    run_id: RunId
    worker_id: WorkerId
    namespace: Namespace = NAMESPACE_DEFAULT
    attempt: int = 0
    output: bytes = b""
    outcome: str = OUTCOME_SUCCESS
    checks: list[Check] = msgspec.field(default_factory=list)
    changes: list[Change] = msgspec.field(default_factory=list)
    """Changes of keys that happen with the result: both, or neither."""


@operation(
    opcode=25, permission=Permission.TASKS_WORK, repeatable=lambda report: report.attempt > 0
)
class Fail(Command[Accepted]):
    """An attempt that failed. Without `retry` the run has failed for good.

    `dead_letter` says whether a run that has failed for good is kept for a requeue.
    """

    run_id: RunId
    worker_id: WorkerId
    namespace: Namespace = NAMESPACE_DEFAULT
    attempt: int = 0
    error: str = ""
    retry: bool = False
    dead_letter: bool = True
    timed_out: bool = False
    """For want of time: without a retry the run has timed out."""


@operation(opcode=26, permission=Permission.TASKS_WORK)
class Touch(Command[Touched]):
    """Extend the lease to `extend_ms` from now."""

    run_id: RunId
    worker_id: WorkerId
    namespace: Namespace = NAMESPACE_DEFAULT
    attempt: int = 0
    extend_ms: int = 30_000


@operation(opcode=27, permission=Permission.RUNS_MANAGE)
class Cancel(Command[Accepted]):
    """End a run that has not ended; the worker that holds it is told."""

    run_id: RunId
    namespace: Namespace = NAMESPACE_DEFAULT
    reason: str = ""


@operation(opcode=28, permission=Permission.RUNS_MANAGE, repeatable=False)
class RequeueDead(Command[Requeued]):
    """Give dead letters of an action another life: these, or the first `limit` there are."""

    action: ActionName
    namespace: Namespace = NAMESPACE_DEFAULT
    run_ids: list[RunId] | None = None
    limit: int = 100


@operation(opcode=29, permission=Permission.RUNS_MANAGE, repeatable=False)
class PurgeDead(Command[Purged]):
    """Forget dead letters of an action: these, or the first `limit` there are."""

    action: ActionName
    namespace: Namespace = NAMESPACE_DEFAULT
    run_ids: list[RunId] | None = None
    limit: int = 100


class Tick(Command[Ticked]):
    """Time has passed: whatever fell due, falls due now."""


@operation(opcode=30, permission=Permission.RUNS_READ)
class GetRun(Query[RunView]):
    run_id: RunId
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(opcode=31, permission=Permission.RUNS_READ)
class WaitForRuns(Query[Ended]):
    """Those of these runs that have ended, as soon as one has; none of them after `block_ms`."""

    run_ids: list[RunId]
    namespace: Namespace = NAMESPACE_DEFAULT
    block_ms: int = 30_000


@operation(opcode=32, permission=Permission.RUNS_READ)
class ListRuns(Query[RunPage]):
    """The runs of one action, the newest first."""

    action: ActionName
    namespace: Namespace = NAMESPACE_DEFAULT
    status: RunStatus | None = None
    limit: int = LIST_LIMIT_DEFAULT
    cursor: str | None = None


@operation(opcode=33, permission=Permission.RUNS_READ)
class ListDead(Query[RunPage]):
    """The dead letters of one action, the newest first."""

    action: ActionName
    namespace: Namespace = NAMESPACE_DEFAULT
    limit: int = LIST_LIMIT_DEFAULT
    cursor: str | None = None
