"""Bodies about jobs: what a worker polls for, what it is given, and what it reports.

A job is answered as plain values; `problem_of` says why the published worker would not accept one,
so that it is never claimed in vain.
"""

import re
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec

from flo.compat.neops.blocks import BlockIdBody
from flo.compat.neops.body import Body, Number
from flo.compat.neops.entities import ContextBody

BLOCKS_PER_POLL_MAX: Final = 10_000
ENTITY_LISTS: Final = {"device": "devices", "group": "device_groups", "interface": "interfaces"}
LABEL: Final = re.compile(r"(?!parameters$)(?!context$)(?!steps$)[A-Za-z_]\w*")
"""What the label of a step looks like; the published client checks it."""

Positive = Annotated[int, msgspec.Meta(ge=1)] | Annotated[float, msgspec.Meta(ge=1)]
ResultStatus = Literal["success", "failed", "success-ack", "failed-ack"]
Operation = Literal["create", "patch", "delete"]


class PollBody(Body):
    function_block_ids: Annotated[list[BlockIdBody], msgspec.Meta(max_length=BLOCKS_PER_POLL_MAX)]
    worker_id: str
    limit: Positive | None = None


class JobBody(Body):
    """A job as the published worker reads it, for the check alone."""

    function_block_id: str
    job_id: str
    parameters: dict[str, Any]
    context: ContextBody
    type: Literal["acquire", "execute", "rollback"]
    run_on: Literal["global", "device", "interface", "group", "client"]
    entity_id: Number | None
    step_label: str | None = None


class EntityUpdate(Body):
    """A change of an entity that a block has made; `value` is told from its absence by `path`."""

    operation: Operation
    entity: str
    id: Positive
    path: str | None = None
    value: Any = None
    data: dict[str, Any] | None = None
    identifier_fields: list[str] | None = None
    skip_if_identifier_exists: bool | None = None


class EntityUpdates(Body):
    updates: list[EntityUpdate] = msgspec.field(default_factory=list)


class JobOutcome(Body):
    success: bool
    message: str | None = None
    data: dict[str, Any] | None = None
    db_updates: EntityUpdates | None = None


class ResultBody(Body):
    """What became of a job. It names no worker: only the job's id tells whose result it is."""

    job_execution_id: str
    status: ResultStatus
    result: JobOutcome
    acquires: list[dict[str, Any]] | None = None

    @property
    def succeeded(self) -> bool:
        return self.status.startswith("success") and self.result.success


class LogBody(Body):
    """A line that a job has written."""

    job_id: str
    log_entry: str
    log_level: str = "info"
    workflow_id: str = ""
    function_block_id: str = ""
    timestamp: str = ""


class JobToGive(NamedTuple):
    """What a job is made of, before it is given to a worker."""

    job_id: str
    block_id: str
    type: str
    parameters: dict[str, Any]
    step_label: str | None = None
    run_on: str = "global"
    entity_id: int | None = None
    devices: tuple[dict[str, Any], ...] = ()
    device_groups: tuple[dict[str, Any], ...] = ()
    interfaces: tuple[dict[str, Any], ...] = ()


def job_answer(job: JobToGive) -> dict[str, Any]:
    """The job as it is answered to a poll."""
    return {
        "functionBlockId": job.block_id,
        "jobId": job.job_id,
        "stepLabel": label_of(job.step_label),
        "parameters": job.parameters,
        "context": {
            "devices": list(job.devices),
            "deviceGroups": list(job.device_groups),
            "interfaces": list(job.interfaces),
        },
        "type": job.type,
        "runOn": job.run_on,
        "entityId": job.entity_id,
    }


def label_of(step: str | None) -> str | None:
    """The name of a step as a label; None where it cannot be one."""
    return step if step is not None and LABEL.fullmatch(step) else None


def problem_of(answer: dict[str, Any]) -> str | None:
    """Why the published worker would not accept a job; None if it would."""
    try:
        job = msgspec.convert(answer, JobBody)
    except msgspec.ValidationError as error:
        return str(error)
    if job.step_label is not None and not LABEL.fullmatch(job.step_label):
        return f"stepLabel: expected a label, got {job.step_label!r}"
    among = ENTITY_LISTS.get(job.run_on)
    if among is None or job.type == "acquire":
        return None
    entities = getattr(job.context, among)
    if not any(one.id == job.entity_id for one in entities):
        return f"entityId: expected the id of one of context.{among}, got {job.entity_id!r}"
    return None
