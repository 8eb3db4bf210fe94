"""How the attempts of a run came to their ends, as its users see them."""

from enum import StrEnum

from flo.model.base import Message
from flo.model.ids import WorkerId


class AttemptEnd(StrEnum):
    """How an attempt came to its end."""

    REPORTED = "reported"
    """Its worker said so."""
    LEASE_EXPIRED = "lease_expired"
    WORKER_LEFT = "worker_left"
    """Its worker deregistered, or was taken off the list."""
    WORKER_LOST = "worker_lost"
    """The connection of its worker broke, and did not come back in time."""
    CANCELLED = "cancelled"
    RELEASED = "released"
    """Its worker never heard of it: it counts as no attempt."""


class LateReportView(Message):
    """What a worker reported of an attempt that had ended without its report; it was refused."""

    worker_id: WorkerId
    reported_at_ms: int
    outcome: str
    output: bytes | None = None
    """Unless it is longer than 4 KiB."""
    output_digest: str | None = None
    """SHA-256 of an output that is longer."""
    error: str | None = None
    error_code: str | None = None
    took_ms: int | None = None
    """How long the attempt took to execute, as its worker measured."""
    held_ms: int | None = None
    """How long its worker held it before it began, as it measured."""


class AttemptView(Message):
    """One try that ended without a result."""

    number: int
    worker_id: WorkerId
    started_at_ms: int
    ended_at_ms: int
    error: str
    error_code: str | None
    retryable: bool
    end: AttemptEnd
    took_ms: int | None = None
    """How long it took to execute, as its worker measured."""
    held_ms: int | None = None
    """How long its worker held it before it began, as it measured."""
    late_report: LateReportView | None = None
    """What its worker said of it after it had ended."""
