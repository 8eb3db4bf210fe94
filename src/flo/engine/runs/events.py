"""What the log remembers of runs."""

from flo.engine.runs.records import LateReport, Run, RunCause, Timing
from flo.model.base import Event
from flo.model.ids import (
    ActionName,
    Namespace,
    RunId,
    WorkerId,
)
from flo.model.runs import RunStatus
from flo.model.views.attempts import AttemptEnd


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
    keys: tuple[tuple[int, str | None], ...]


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
    timing: Timing | None = None


class RunRequeued(Event):
    """An attempt has ended in vain; another will follow."""

    namespace: Namespace
    run_id: RunId
    at_ms: int
    error: str
    ready_at_ms: int
    error_code: str | None = None
    end: AttemptEnd = AttemptEnd.REPORTED
    timing: Timing | None = None


class RunGivenBack(Event):
    """Nobody executes it any more, through no fault of its own: no attempt has been used up."""

    namespace: Namespace
    run_id: RunId
    at_ms: int


class RunFailed(Event):
    namespace: Namespace
    run_id: RunId
    at_ms: int
    error: str
    dead_lettered: bool
    error_code: str | None = None
    retryable: bool = True
    """Whether another try might help, as its worker said."""
    end: AttemptEnd = AttemptEnd.REPORTED
    timing: Timing | None = None


class RunTimedOut(Event):
    namespace: Namespace
    run_id: RunId
    at_ms: int
    error: str
    error_code: str | None = None
    end: AttemptEnd = AttemptEnd.LEASE_EXPIRED
    timing: Timing | None = None


class RunCancelled(Event):
    """The attempt under way, if there is one, has ended as `cancelled`."""

    namespace: Namespace
    run_id: RunId
    at_ms: int
    reason: str
    worker_id: WorkerId | None
    """Who held it."""


class LateReportNoted(Event):
    """A report of an attempt that had ended without one: it was refused, and it was made."""

    namespace: Namespace
    run_id: RunId
    attempt: int
    report: LateReport
    cause: RunCause | None = None
    """The step that had called the run."""


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
