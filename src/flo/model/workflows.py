"""Workflows and their executions: commands, queries, replies."""

from enum import StrEnum
from typing import Any, TypeAlias

import msgspec

from flo.model.base import Message, Nothing
from flo.model.ids import LIST_LIMIT_DEFAULT, NAMESPACE_DEFAULT, Namespace, RunId
from flo.model.operation import Command, Permission, Query, operation

WorkflowName: TypeAlias = str
StepName: TypeAlias = str
BranchName: TypeAlias = str
Attributes: TypeAlias = dict[str, str | int | float]


MAIN = ""
"""The walk of the run itself."""
RUN_PREFIX = "wfrun"
CHOSEN = ""
"""Stands for a workflow where runs are found by ids that were chosen for them."""


class WorkflowStatus(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"


ENDED = frozenset(
    {
        WorkflowStatus.COMPLETED,
        WorkflowStatus.FAILED,
        WorkflowStatus.CANCELLED,
        WorkflowStatus.TIMED_OUT,
    }
)


class BranchPhase(StrEnum):
    """What a walk is waiting for."""

    BETWEEN = "between"
    """Nothing: its step has ended, and the next one has not begun, because the run is paused."""
    ACTION = "action"
    CHILD = "child"
    SIGNAL = "signal"
    SLEEP = "sleep"
    RETRY = "retry"
    POLL = "poll"
    REST = "rest"
    """The next executor of a plan, or the same one again."""
    JOIN = "join"
    """Its branches or items."""


LATEST = "latest"
TEXT_LENGTH_MAX = 1024 * 1024
SIGNALS_KEPT_MAX = 1_000
HISTORY_LIMIT_DEFAULT = 100
HISTORY_LIMIT_MAX = 1_000


class WorkflowDeployed(Message):
    name: WorkflowName
    version: str
    created: bool
    problems: list[dict[str, Any]] = msgspec.field(default_factory=list)
    """Warnings."""


class Validated(Message):
    valid: bool
    name: str | None
    version: str | None
    problems: list[dict[str, Any]]


class WorkflowBegun(Message):
    run_id: RunId
    duplicate: bool = False


class WorkflowView(Message):
    name: WorkflowName
    namespace: Namespace
    version: str
    versions: list[str]
    enabled: bool
    created_at_ms: int
    text: str
    live_runs: int


class WorkflowItem(Message):
    """A workflow in a list: without its text, which may be long."""

    name: WorkflowName
    namespace: Namespace
    version: str
    versions: list[str]
    enabled: bool
    created_at_ms: int
    live_runs: int


class WorkflowPage(Message):
    items: list[WorkflowItem]
    cursor: str | None = None


class StepView(Message):
    step: StepName
    outcome: str
    output: bytes
    error: str | None
    at_ms: int


class WaitView(Message):
    """What a walk of a run waits for."""

    branch: BranchName
    step: StepName
    phase: BranchPhase
    attempt: int
    until_ms: int | None
    awaited: RunId | None
    signal: str | None = None


class WorkflowRunView(Message):
    run_id: RunId
    workflow: WorkflowName
    version: str
    namespace: Namespace
    status: WorkflowStatus
    paused: bool
    current_step: StepName | None
    input: bytes
    output: bytes | None
    error: str | None
    terminal: str | None
    created_at_ms: int
    finished_at_ms: int | None
    idempotency_key: str | None
    triggered_by: str
    attributes: Attributes
    parent: RunId | None
    origin: RunId | None
    steps: list[StepView]
    waits: list[WaitView]
    signals: list[str]
    undone: list[StepName]
    history_count: int


class WorkflowRunItem(Message):
    """A workflow run in a list."""

    run_id: RunId
    workflow: WorkflowName
    version: str
    status: WorkflowStatus
    created_at_ms: int
    finished_at_ms: int | None
    attributes: Attributes


class WorkflowRunPage(Message):
    items: list[WorkflowRunItem]
    cursor: str | None = None


class HistoryView(Message):
    type: str
    at_ms: int
    step: StepName | None
    detail: str
    attempt: int
    branch: BranchName


class HistoryPage(Message):
    items: list[HistoryView]
    cursor: str | None = None


class Explanation(Message):
    run_id: RunId
    status: WorkflowStatus
    summary: str
    """In one sentence."""
    reasons: list[str]
    next_at_ms: int | None
    advice: list[str]
    """Commands that would help."""


@operation(opcode=120, permission=Permission.WORKFLOWS_DEPLOY)
class CreateWorkflow(Command[WorkflowDeployed]):
    """Deploy a definition. The same text again changes nothing; another text needs a version."""

    text: str
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(opcode=121, permission=Permission.WORKFLOWS_READ)
class ValidateWorkflow(Query[Validated]):
    """What is wrong with a definition, and what might be."""

    text: str


@operation(opcode=122, permission=Permission.WORKFLOWS_DEPLOY)
class DeleteWorkflow(Command[Nothing]):
    """Delete a version, or all of them; runs that are under way go on to their end."""

    name: WorkflowName
    namespace: Namespace = NAMESPACE_DEFAULT
    version: str | None = None


@operation(opcode=123, permission=Permission.WORKFLOWS_MANAGE)
class DisableWorkflow(Command[Nothing]):
    """Refuse new runs, of one version or of all there are and will be; runs under way go on."""

    name: WorkflowName
    namespace: Namespace = NAMESPACE_DEFAULT
    version: str | None = None


@operation(opcode=124, permission=Permission.WORKFLOWS_MANAGE)
class EnableWorkflow(Command[Nothing]):
    name: WorkflowName
    namespace: Namespace = NAMESPACE_DEFAULT
    version: str | None = None


@operation(
    opcode=130,
    batch_opcode=131,
    permission=Permission.WORKFLOWS_START,
    repeatable=lambda start: start.idempotency_key is not None,
)
class StartWorkflow(Command[WorkflowBegun]):
    name: WorkflowName
    input: bytes = b"{}"
    namespace: Namespace = NAMESPACE_DEFAULT
    version: str = LATEST
    idempotency_key: str | None = None
    run_id: RunId | None = None
    """What the run is to be called; otherwise it is given a number."""


@operation(opcode=132, permission=Permission.WORKFLOWS_SIGNAL, repeatable=False)
class SignalWorkflow(Command[Nothing]):
    """Send a signal; it is kept until a step waits for its type."""

    run_id: RunId
    type: str
    payload: bytes = b""
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(opcode=133, permission=Permission.WORKFLOWS_MANAGE)
class CancelWorkflow(Command[Nothing]):
    """End a run: its actions and children are cancelled, what it has done is undone."""

    run_id: RunId
    namespace: Namespace = NAMESPACE_DEFAULT
    reason: str = ""


@operation(opcode=134, permission=Permission.WORKFLOWS_MANAGE)
class PauseWorkflow(Command[Nothing]):
    """Let what is under way come to its end, and begin nothing new."""

    run_id: RunId
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(opcode=135, permission=Permission.WORKFLOWS_MANAGE)
class ResumeWorkflow(Command[Nothing]):
    run_id: RunId
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(opcode=136, permission=Permission.WORKFLOWS_START, repeatable=False)
class RerunWorkflow(Command[WorkflowBegun]):
    """Start a run that repeats another one from a step on, with other input or another version."""

    run_id: RunId
    namespace: Namespace = NAMESPACE_DEFAULT
    step: StepName | None = None
    """None is the start."""
    input: bytes | None = None
    version: str | None = None


@operation(opcode=125, permission=Permission.WORKFLOWS_READ)
class GetWorkflow(Query[WorkflowView]):
    name: WorkflowName
    namespace: Namespace = NAMESPACE_DEFAULT
    version: str = LATEST


@operation(opcode=126, permission=Permission.WORKFLOWS_READ)
class ListWorkflows(Query[WorkflowPage]):
    namespace: Namespace = NAMESPACE_DEFAULT
    limit: int = LIST_LIMIT_DEFAULT
    cursor: str | None = None


@operation(opcode=137, permission=Permission.WORKFLOWS_READ)
class GetWorkflowRun(Query[WorkflowRunView]):
    run_id: RunId
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(opcode=138, permission=Permission.WORKFLOWS_READ)
class WaitForWorkflow(Query[WorkflowRunView]):
    """The run, once it has ended; as it is after `block_ms`."""

    run_id: RunId
    namespace: Namespace = NAMESPACE_DEFAULT
    block_ms: int = 30_000


@operation(opcode=139, permission=Permission.WORKFLOWS_READ)
class ListWorkflowRuns(Query[WorkflowRunPage]):
    """Workflow runs, the newest first; `where` is a condition on search attributes."""

    namespace: Namespace = NAMESPACE_DEFAULT
    workflow: WorkflowName | None = None
    status: WorkflowStatus | None = None
    where: str | None = None
    since_ms: int | None = None
    limit: int = LIST_LIMIT_DEFAULT
    cursor: str | None = None


@operation(opcode=140, permission=Permission.WORKFLOWS_READ)
class GetHistory(Query[HistoryPage]):
    """The history of a run, the oldest first."""

    run_id: RunId
    namespace: Namespace = NAMESPACE_DEFAULT
    limit: int = HISTORY_LIMIT_DEFAULT
    cursor: str | None = None


@operation(opcode=141, permission=Permission.WORKFLOWS_READ)
class ExplainWorkflow(Query[Explanation]):
    """Why a run is where it is, and what would move it."""

    run_id: RunId
    namespace: Namespace = NAMESPACE_DEFAULT
