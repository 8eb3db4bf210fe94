"""What the state and the archive hold of workflows."""

from enum import StrEnum
from typing import Any

import msgspec

from flo.model.base import Record
from flo.model.errors import CANCELLED_CODE, FAILURE_CODE
from flo.model.ids import RunId
from flo.model.storage.since import Since
from flo.model.views.attempts import AttemptEnd
from flo.model.workflows import (
    MAIN,
    Attributes,
    BranchName,
    BranchPhase,
    StepName,
    WorkflowName,
    WorkflowStatus,
)
from flo.workflow.limits import ExecutionLimits
from flo.workflow.outcome import StepError
from flo.workflow.steps import TargetKind

CANCELLED = "flo.Cancelled"
"""The terminal of a run that somebody has cancelled."""


AWAITED_PIPELINE = TargetKind.PIPELINE.value
"""How the name of a pipeline begins among what branches wait for, so that it is no run."""


def awaited_pipeline(pipeline_id: str) -> RunId:
    return f"{AWAITED_PIPELINE}{pipeline_id}"


def params_payload(params: dict[str, Any]) -> bytes:
    """The params of a pipeline as the input of a call: equal ones are equal bytes."""
    return msgspec.json.encode(params, order="deterministic")


class Branch(Record):
    """One way through the graph: the step it is at, and what it waits for there."""

    step: StepName
    phase: BranchPhase
    attempt: int = 1
    polls: int = 0
    began_at_ms: int = 0
    """When the first attempt at the step began."""
    until_ms: int | None = None
    awaited: RunId | None = None
    """The run, the child or the pipeline whose end it waits for."""
    plan: bytes | None = None
    """How far a plan has come."""
    items: int = 0
    """Branches or items in all."""
    opened: int = 0
    succeeded: int = 0
    failed: int = 0
    goal: str | None = None
    """Where to go on when the run is resumed."""
    visit: int = 1
    """How often the execution has come to the step; an item and its join are of the same visit."""
    since: Since | None = None
    """Since when it waits so; events leave it out."""


class StepResult(Record):
    outcome: str
    output: bytes = b""
    error: str | None = None
    at_ms: int = 0
    error_code: str | None = None
    retryable: bool = True


class Signal(Record):
    type: str
    payload: bytes
    at_ms: int
    actor: str | None = None
    """Who has sent it, where that is known."""
    order: int = 0
    """How many calls had ended and signals and controls had come before it."""


class CallRecord(Record):
    """A wait of a branch for something outside: a run, a child, a signal, a time."""

    branch: BranchName
    step: StepName
    visit: int
    attempt: int
    began_ms: int
    """After the start of the execution."""
    took_ms: int = 0
    run_id: RunId | None = None
    """Of the action or the child; None if nothing was queued."""
    outcome: str | None = None
    """None if nobody waited for it in the end."""
    error: str | None = None
    error_code: str | None = None
    retryable: bool = True
    digest: bytes = b""
    """Of the input."""
    output: bytes | None = None
    """None if the results of the execution have it."""
    target: str = ""
    """The type of a signal; what could not be called, or has answered instead."""
    inside: bool = False
    """Whether the server itself did it: it is no wait for something outside."""
    after: int = 0
    """How many calls had ended and signals and controls had come when it began."""
    unknown: AttemptEnd | None = None
    """How an attempt ended of which nobody knows what came, if the step is to be undone then."""


class ControlKind(StrEnum):
    BEGUN = "begun"
    """It did not begin at once when it was started."""
    PAUSED = "paused"
    RESUMED = "resumed"
    CANCELLED = "cancelled"


class ControlRecord(Record):
    """What somebody did to an execution."""

    kind: ControlKind
    at_ms: int
    order: int
    """As of signals."""


class CallParts(Record):
    """A part of what an execution has called and received, as the archive keeps it."""

    calls: tuple[CallRecord, ...] = ()
    signals: tuple[Signal, ...] = ()
    controls: tuple[ControlRecord, ...] = ()


class Parent(Record):
    """The run and the branch that wait for a child."""

    run_id: RunId
    branch: BranchName


class Origin(Record):
    """The run that a run repeats, and from which step on."""

    run_id: RunId
    step: StepName


class Ending(Record):
    """How a run ends, after the steps that have to be undone."""

    status: WorkflowStatus
    terminal: str
    error: str | None = None
    error_code: str | None = None
    retryable: bool = True


class WorkflowRun(Record):
    """What a workflow run is started with; it never changes."""

    run_id: RunId
    number: int
    workflow: WorkflowName
    version: str
    input: bytes
    created_at_ms: int
    idempotency_key: str | None = None
    parent: Parent | None = None
    origin: Origin | None = None
    attributes: Attributes = msgspec.field(default_factory=dict)
    first_step: StepName | None = None
    """None is the start."""
    results: dict[StepName, StepResult] = msgspec.field(default_factory=dict)
    """Those of the run that it repeats."""
    triggered_by: str = "manual"
    depth: int = 0
    """How many parents it has."""
    limit_key: str | None = None
    """The key under which its workflow limits how many run at a time."""
    subject: str | None = None
    """Whom its payloads are about, and those of what it starts."""
    limits: ExecutionLimits | None = None
    """The bounds of the server that it was started on; None are the defaults."""
    trace: str | None = None
    """The W3C trace context of who has started it; the runs of its steps have it too."""


class HistoryEntry(Record):
    type: str
    at_ms: int
    step: StepName | None = None
    detail: str = ""
    attempt: int = 0
    branch: BranchName = MAIN
    error: str | None = None
    error_code: str | None = None
    by: str | None = None
    """Who did it, where somebody outside did."""


class WorkflowRecord(Record):
    """A workflow run that has ended, as the archive keeps it."""

    run: WorkflowRun
    status: WorkflowStatus
    terminal: str
    finished_at_ms: int
    output: bytes
    error: str | None
    results: dict[StepName, StepResult]
    history: tuple[HistoryEntry, ...]
    """The end of it; what came before is filed in parts."""
    history_parts: int
    undone: tuple[StepName, ...] = ()
    error_code: str | None = None
    retryable: bool = True
    calls: CallParts = CallParts()
    """The end of it; what came before is filed in as many parts as the history."""
    definition: bytes = b""
    """The digest of the text that it was an execution of."""
    position: int = 0
    """The index of the event that ended it."""


class WorkflowSummary(Record):
    """What a list shows of a workflow run that has ended."""

    run_id: RunId
    number: int
    workflow: WorkflowName
    version: str
    status: WorkflowStatus
    created_at_ms: int
    finished_at_ms: int
    attributes: Attributes
    subject: str | None = None


def error_of(ended: StepResult | Ending) -> StepError | None:
    """Why a step or a run has failed, if it has."""
    if ended.error is None:
        return None
    code = ended.error_code or FAILURE_CODE
    return StepError(message=ended.error, code=code, retryable=ended.retryable)


def begins_at_once(run: WorkflowRun) -> bool:
    """Whether a run begins when it is started: no child does, nor one that needs a permit."""
    return run.parent is None and run.limit_key is None


def is_asked_for(ending: Ending) -> bool:
    """Whether somebody has cancelled the run, or its parent has."""
    return (ending.terminal, ending.error_code) == (CANCELLED, CANCELLED_CODE)


def ending_of(status: WorkflowStatus, terminal: str, error: StepError | None) -> Ending:
    if error is None:
        return Ending(status=status, terminal=terminal)
    return Ending(
        status=status,
        terminal=terminal,
        error=error.message,
        error_code=error.code,
        retryable=error.retryable,
    )
