"""One run of an action: record, statuses, commands, questions, events, replies."""

from enum import StrEnum

import msgspec

from flo.model.base import Event, Message, Record
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


class Attempt(Record):
    """One try that ended without a result."""

    number: int
    worker_id: WorkerId
    started_at_ms: int
    ended_at_ms: int
    error: str


class Run(Record):
    """One run, from its queueing to its end; the archive keeps the same record."""

    run_id: RunId
    action: ActionName
    number: int
    input: bytes
    priority: int
    created_at_ms: int
    ready_at_ms: int
    status: RunStatus = RunStatus.PENDING
    attempt: int = 0
    worker_id: WorkerId | None = None
    started_at_ms: int | None = None
    lease_expires_at_ms: int | None = None
    idempotency_key: str | None = None
    labels: Labels | None = None
    attempts: tuple[Attempt, ...] = ()
    output: bytes | None = None
    outcome: str | None = None
    error: str | None = None
    finished_at_ms: int | None = None
    dead_lettered: bool = False
    is_delayed: bool = False
    """Pending, but not in the queue before `ready_at_ms`."""
    attempts_before: int = 0
    """The attempts of earlier lives; they do not count against the retries."""
    slot: str | None = None
    """The key under which its action limits how many are under way."""


class Invoke(Message):
    action: ActionName
    input: bytes = b""
    namespace: Namespace = NAMESPACE_DEFAULT
    priority: int = PRIORITY_DEFAULT
    delay_ms: int = 0
    idempotency_key: str | None = None
    labels: Labels | None = None


class Claim(Message):
    """Take up to `max_tasks` ready runs of these actions; wait up to `block_ms` for the first."""

    worker_id: WorkerId
    actions: list[ActionName]
    namespace: Namespace = NAMESPACE_DEFAULT
    max_tasks: int = 1
    block_ms: int = 0


class Complete(Message):
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


class Fail(Message):
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


class Touch(Message):
    """Extend the lease to `extend_ms` from now."""

    run_id: RunId
    worker_id: WorkerId
    namespace: Namespace = NAMESPACE_DEFAULT
    attempt: int = 0
    extend_ms: int = 30_000


class Cancel(Message):
    """End a run that has not ended; the worker that holds it is told."""

    run_id: RunId
    namespace: Namespace = NAMESPACE_DEFAULT
    reason: str = ""


class RequeueDead(Message):
    """Give dead letters of an action another life: these, or the first `limit` there are."""

    action: ActionName
    namespace: Namespace = NAMESPACE_DEFAULT
    run_ids: list[RunId] | None = None
    limit: int = 100


class PurgeDead(Message):
    """Forget dead letters of an action: these, or the first `limit` there are."""

    action: ActionName
    namespace: Namespace = NAMESPACE_DEFAULT
    run_ids: list[RunId] | None = None
    limit: int = 100


class Tick(Message):
    """Time has passed: whatever fell due, falls due now."""


class GetRun(Message):
    run_id: RunId
    namespace: Namespace = NAMESPACE_DEFAULT


class WaitForRuns(Message):
    """Those of these runs that have ended, as soon as one has; none of them after `block_ms`."""

    run_ids: list[RunId]
    namespace: Namespace = NAMESPACE_DEFAULT
    block_ms: int = 30_000


class ListRuns(Message):
    """The runs of one action, the newest first."""

    action: ActionName
    namespace: Namespace = NAMESPACE_DEFAULT
    status: RunStatus | None = None
    limit: int = LIST_LIMIT_DEFAULT
    cursor: str | None = None


class ListDead(Message):
    """The dead letters of one action, the newest first."""

    action: ActionName
    namespace: Namespace = NAMESPACE_DEFAULT
    limit: int = LIST_LIMIT_DEFAULT
    cursor: str | None = None


class RunQueued(Event):
    namespace: Namespace
    run: Run


class RunReleased(Event):
    """Its delay is over: the run may be claimed."""

    namespace: Namespace
    run_id: RunId


class RunsRekeyed(Event):
    """The limits of an action are counted by other keys now: those of its live runs, by number."""

    namespace: Namespace
    action: ActionName
    slots: tuple[tuple[int, str | None], ...]


class RunClaimed(Event):
    namespace: Namespace
    run_id: RunId
    worker_id: WorkerId
    attempt: int
    at_ms: int
    lease_expires_at_ms: int | None


class RunTouched(Event):
    namespace: Namespace
    run_id: RunId
    lease_expires_at_ms: int | None
    at_ms: int = 0


class RunCompleted(Event):
    namespace: Namespace
    run_id: RunId
    at_ms: int
    output: bytes
    outcome: str


class RunRequeued(Event):
    """An attempt has ended in vain; another will follow."""

    namespace: Namespace
    run_id: RunId
    at_ms: int
    error: str
    ready_at_ms: int


class RunFailed(Event):
    namespace: Namespace
    run_id: RunId
    at_ms: int
    error: str
    dead_lettered: bool


class RunTimedOut(Event):
    namespace: Namespace
    run_id: RunId
    at_ms: int
    error: str


class RunCancelled(Event):
    namespace: Namespace
    run_id: RunId
    at_ms: int
    reason: str
    worker_id: WorkerId | None
    """Who held it."""


class RunRevived(Event):
    """A dead letter is pending again; the archive has let go of it."""

    namespace: Namespace
    run: Run
    was: RunStatus


class RunPurged(Event):
    """A dead letter has been forgotten."""

    namespace: Namespace
    action: ActionName
    number: int
    was: RunStatus
    key: str | None
    """Its idempotency key, which may be used again."""


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


class Nothing(Message):
    pass


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
