"""Jobs: what a worker is given and reports, and how they are looked up.

A job is claimed, kept alive and reported as every run is: `Claim`, `Touch`, `Complete`, `Fail`. The
input of the run is a JobInput, and its output a JobResult, both as JSON.
"""

from typing import Annotated, Any

import msgspec

from flo.model.base import Message
from flo.model.blocks.blocks import RunOn
from flo.model.blocks.names import JobType, LockMode, Reference
from flo.model.declare.fields import Cursor, Limit, Text, about
from flo.model.declare.operation import Permission, Query, operation
from flo.model.declare.route import Route
from flo.model.ids import (
    LIST_LIMIT_DEFAULT,
    NAMESPACE_DEFAULT,
    RUN_ID_LENGTH_MAX,
    Namespace,
    RunId,
    WorkerId,
)
from flo.model.runs import RunStatus


class JobMessage(msgspec.Struct, frozen=True, kw_only=True):
    """What travels inside a payload; what a later version adds is passed over."""


class LockWanted(JobMessage, frozen=True, kw_only=True):
    key: str
    mode: LockMode = LockMode.EXCLUSIVE


class LockHeld(JobMessage, frozen=True, kw_only=True):
    key: str
    mode: LockMode
    token: int
    """Grows with every grant: what guards the resource can refuse an older one."""


class JobContext(JobMessage, frozen=True, kw_only=True):
    """The documents of the entities that the run has locked, as its steps have left them."""

    devices: list[dict[str, Any]] = []
    deviceGroups: list[dict[str, Any]] = []
    interfaces: list[dict[str, Any]] = []


class JobInput(JobMessage, frozen=True, kw_only=True):
    """What a worker is given."""

    job: JobType
    block: str
    run_id: RunId
    """Of the workflow run."""
    step: str
    parameters: dict[str, Any] = {}
    unresolved: list[str] = []
    """ACQUIRE: the parameters that are not known before other steps have run; they are left out."""
    context: JobContext = JobContext()
    run_on: RunOn = RunOn.GLOBAL
    entity_id: int | None = None
    locks: list[LockHeld] = []
    result: Any = None
    """ROLLBACK: the data of what EXECUTE reported, if it did."""
    idempotency_key: str = ""
    """The same for all attempts at a step."""


class JobResult(JobMessage, frozen=True, kw_only=True):
    """What a worker reports."""

    success: bool = True
    message: str = ""
    code: str | None = None
    """What kind of failure it is."""
    data: Any = None
    locks: list[LockWanted] | None = None
    """ACQUIRE: what must be locked before anything is executed."""
    acquires: list[dict[str, Any]] | None = None
    """ACQUIRE: queries for entities, which are locked and given as context."""
    updates: list[dict[str, Any]] | None = None
    """EXECUTE: what has become of entities; applied when the run ends."""


JobIdText = Annotated[str, Text(RUN_ID_LENGTH_MAX, "job id"), about("The job's id.")]


class JobView(Message):
    """A job as its users see it: an attempt at a run of its block."""

    job_id: str
    run_id: RunId
    """The run that it is an attempt at."""
    attempt: int
    block: str
    job: JobType
    status: RunStatus
    workflow_run_id: RunId | None
    step: str | None
    worker_id: WorkerId | None
    created_at_ms: int
    started_at_ms: int | None = None
    finished_at_ms: int | None = None
    lease_expires_at_ms: int | None = None
    success: bool | None = None
    message: str | None = None
    error: str | None = None
    error_code: str | None = None
    input: Annotated[bytes | None, about("What the worker is given.")] = None
    output: Annotated[bytes | None, about("What the worker has reported.")] = None


class JobPage(Message):
    items: list[JobView]
    cursor: str | None = None


@operation(
    opcode=214,
    permission=Permission.RUNS_READ,
    http=Route("GET", "/jobs"),
)
class ListJobs(Query[JobPage]):
    """The jobs that have not ended, the oldest first."""

    block: Annotated[Reference | None, about("Only those of this block.")] = None
    workflow_run_id: Annotated[RunId | None, about("Only those of this workflow run.")] = None
    job: Annotated[JobType | None, about("Only those of this type.")] = None
    namespace: Namespace = NAMESPACE_DEFAULT
    limit: Limit = LIST_LIMIT_DEFAULT
    cursor: Cursor = None


@operation(
    opcode=215,
    permission=Permission.RUNS_READ,
    http=Route("GET", "/jobs/{job_id}", errors=(404,)),
)
class GetJob(Query[JobView]):
    """A job: where it is, what it was given, what came of it."""

    job_id: JobIdText
    namespace: Namespace = NAMESPACE_DEFAULT
