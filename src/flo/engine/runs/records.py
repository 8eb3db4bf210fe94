"""What the state and the archive hold of runs."""

from flo.model.base import Record
from flo.model.ids import (
    ActionName,
    Labels,
    RunId,
    WorkerId,
)
from flo.model.runs import RunStatus
from flo.model.storage.archive import ArchiveAddress
from flo.model.storage.payloads import InputRecord
from flo.model.views.attempts import AttemptEnd
from flo.model.workflows import BranchName, StepName

ARCHIVE_KIND = "run"


class Timing(Record):
    """Where the time of an attempt went, by the clock of its worker."""

    took_ms: int | None
    """To execute it."""
    held_ms: int | None
    """From its assignment until it began."""


class LateReport(Record):
    """What a worker reported of an attempt that was no longer its own."""

    worker_id: WorkerId
    at_ms: int
    outcome: str
    """That of a result; `failure` or `timeout` if it failed."""
    output: bytes | None = None
    """Unless it is long."""
    output_digest: str | None = None
    """SHA-256 of an output that is too long to be kept."""
    error: str | None = None
    error_code: str | None = None
    timing: Timing | None = None
    position: int = 0
    """The index of the event that tells of it; the event itself leaves it out."""


class Attempt(Record):
    """One try that ended without a result."""

    number: int
    worker_id: WorkerId
    started_at_ms: int
    ended_at_ms: int
    error: str
    error_code: str | None = None
    retryable: bool = True
    end: AttemptEnd = AttemptEnd.REPORTED
    late: LateReport | None = None
    timing: Timing | None = None


class RunCause(Record):
    """The attempt at a step of a workflow execution that a run was queued for."""

    run_id: RunId
    """Of the execution."""
    branch: BranchName
    step: StepName
    visit: int
    attempt: int


class Run(Record):
    """One run, from its queueing to its end; the archive keeps the same record."""

    run_id: RunId
    action: ActionName
    number: int
    input: InputRecord
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
    limit_key: str | None = None
    """The key under which its action limits how many are under way."""
    error_code: str | None = None
    retryable: bool | None = None
    """Whether another try might help; None while nothing has failed."""
    given_back: int = 0
    """How often an attempt was called off, and not counted."""
    sequence: int = 0
    """Which run of its namespace it is, counted over all actions."""
    cause: RunCause | None = None
    """None if a caller has invoked its action."""
    subject: str | None = None
    timing: Timing | None = None
    """Of the attempt that has ended it, if its worker said so."""
    since_position: int = 0
    """The index of the event since which it is pending, ready, running or ended, as it is now."""
    by: str | None = None
    """Who has invoked it, if somebody outside did; events leave it out."""
    cancelled_by: str | None = None
    trace: str | None = None
    """The W3C trace context of who has made it."""


def address_in_archive(archive_name: str, action: ActionName, number: int) -> ArchiveAddress:
    """Where the archive has a run once it has ended, and the store its input if that is large."""
    return ArchiveAddress(ARCHIVE_KIND, archive_name, action, number)
