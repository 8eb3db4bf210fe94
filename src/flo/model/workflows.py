"""Workflows and their executions: commands, queries, replies."""

from enum import StrEnum
from typing import Annotated, Any, TypeAlias

import msgspec

from flo.model.base import Message, Nothing
from flo.model.declare.fields import (
    BlockMs,
    Cursor,
    IdempotencyKey,
    Limit,
    NewNamespace,
    Payload,
    Reason,
    Subject,
    Text,
    TraceParent,
    about,
)
from flo.model.declare.operation import Command, Permission, Query, operation
from flo.model.declare.route import Route
from flo.model.explain import Explained
from flo.model.ids import LIST_LIMIT_DEFAULT, NAMESPACE_DEFAULT, Namespace, RunId
from flo.model.views.since import SinceView

WorkflowName: TypeAlias = Annotated[str, about("The workflow's name.")]
WorkflowRunId: TypeAlias = Annotated[RunId, about("The workflow run's id.")]
StepName: TypeAlias = Annotated[str, about("The step's name.")]
BranchName: TypeAlias = str
Attributes: TypeAlias = dict[str, str | int | float]


MAIN = ""
"""The branch of the run itself."""
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
    status for status in WorkflowStatus if status not in ("pending", "running", "waiting")
)


class BranchPhase(StrEnum):
    """What a branch is waiting for."""

    BETWEEN = "between"
    """Nothing: its step has ended, and the next one has not begun, because the run is paused."""
    ACTION = "action"
    CHILD = "child"
    PIPELINE = "pipeline"
    SIGNAL = "signal"
    SLEEP = "sleep"
    RETRY = "retry"
    POLL = "poll"
    REST = "rest"
    """The next executor of a plan, or the same one again."""
    JOIN = "join"
    """Its branches or items."""
    PACE = "pace"
    """Its next step: the run takes more steps in a second than it may."""
    ACQUIRE = "acquire"
    """Its blocks: they say what must be locked before the first step."""
    LOCKS = "locks"


LATEST = "latest"
TEXT_LENGTH_MAX = 1024 * 1024
SIGNALS_KEPT_MAX = 1_000
HISTORY_LIMIT_DEFAULT = 100
HISTORY_LIMIT_MAX = 1_000

DefinitionText: TypeAlias = Annotated[str, about("The definition, in YAML or JSON.")]
Version: TypeAlias = Annotated[str, about("Which version; the newest if left out.")]
Strict: TypeAlias = Annotated[bool, about("Whether a warning is an error too.")]
OneVersion: TypeAlias = Annotated[str | None, about("Only this version; all of them if left out.")]


class WorkflowDeployed(Message):
    name: WorkflowName
    version: str
    created: bool
    problems: list[dict[str, Any]] = msgspec.field(default_factory=list)
    """Warnings."""
    definition: str = ""
    """SHA-256 of the text: the same text is the same definition."""


class Validated(Message):
    valid: bool
    name: str | None
    version: str | None
    problems: list[dict[str, Any]]


class WorkflowBegun(Message):
    run_id: RunId
    duplicate: bool = False
    """Whether the idempotency key was known already."""
    status: WorkflowStatus | None = None
    """How the run is that has this key already; one that failed keeps its key."""
    hint: str | None = None
    """How a run that has ended unsuccessfully is run again."""
    warnings: list[str] = msgspec.field(default_factory=list)
    """What will probably go wrong, as a step whose action is not registered."""


class SignalSent(Message):
    warning: str | None = None
    """Said of a signal whose type no step of the workflow waits for, with the nearest type."""


class WorkflowView(Message):
    name: WorkflowName
    namespace: Namespace
    version: str
    versions: list[str]
    enabled: bool
    created_at_ms: int
    text: str
    live_runs: int
    definition: str
    """SHA-256 of the text."""
    deleted: bool = False
    """Whether only runs know it: none can begin."""
    disabled_since: SinceView | None = None


class WorkflowItem(Message):
    """A workflow in a list: without its text, which may be long."""

    name: WorkflowName
    namespace: Namespace
    version: str
    versions: list[str]
    enabled: bool
    created_at_ms: int
    live_runs: int
    definition: str
    """SHA-256 of the text."""
    disabled_since: SinceView | None = None


class WorkflowPage(Message):
    items: list[WorkflowItem]
    cursor: str | None = None


class StepView(Message):
    step: StepName
    outcome: str
    output: bytes
    error: str | None
    error_code: str | None
    retryable: bool | None
    at_ms: int


class WaitView(Message):
    """What a branch of a run waits for."""

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
    definition: str | None
    """SHA-256 of the text of the version."""
    namespace: Namespace
    status: WorkflowStatus
    paused: bool
    current_step: StepName | None
    input: bytes
    output: bytes | None
    error: str | None
    error_code: str | None
    retryable: bool | None
    """Whether another try might help; None where nothing has failed."""
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
    subject: str | None = None
    """Whom its payloads are about, and those of what it starts."""


class WorkflowRunItem(Message):
    """A workflow run in a list."""

    run_id: RunId
    workflow: WorkflowName
    version: str
    status: WorkflowStatus
    created_at_ms: int
    finished_at_ms: int | None
    attributes: Attributes
    subject: str | None = None


class WorkflowRunPage(Message):
    items: list[WorkflowRunItem]
    cursor: str | None = None


class Explanation(Explained):
    run_id: RunId
    status: WorkflowStatus
    reasons: list[str]
    """The causes, as sentences."""


@operation(opcode=120, permission=Permission.WORKFLOWS_DEPLOY)
class CreateWorkflow(Command[WorkflowDeployed]):
    """Deploy a definition; the same text again changes nothing.

    One with errors is `invalid_workflow`, with all of them in `details.problems`. Another text for
    a version that is there already is `version_exists`.
    """

    text: DefinitionText
    namespace: NewNamespace = NAMESPACE_DEFAULT
    strict: Strict = False


@operation(opcode=121, permission=Permission.WORKFLOWS_READ)
class ValidateWorkflow(Query[Validated]):
    """What is wrong with a definition, and what might be; nothing is deployed."""

    text: DefinitionText
    strict: Strict = False
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(
    opcode=122,
    permission=Permission.WORKFLOWS_DEPLOY,
    http=Route("DELETE", "/workflows/{name}", errors=(404,)),
)
class DeleteWorkflow(Command[Nothing]):
    """Delete a workflow, or one version of it; runs that are under way go on to their end."""

    name: WorkflowName
    namespace: Namespace = NAMESPACE_DEFAULT
    version: OneVersion = None


@operation(
    opcode=123,
    permission=Permission.WORKFLOWS_MANAGE,
    http=Route("PUT", "/workflows/{name}/disable", errors=(404,)),
)
class DisableWorkflow(Command[Nothing]):
    """Refuse new runs of a workflow, by whomever or whatever; those that are there go on."""

    name: WorkflowName
    namespace: Namespace = NAMESPACE_DEFAULT
    version: OneVersion = None


@operation(
    opcode=124,
    permission=Permission.WORKFLOWS_MANAGE,
    http=Route("PUT", "/workflows/{name}/enable", errors=(404,)),
)
class EnableWorkflow(Command[Nothing]):
    """Let a workflow be started again; its schedule goes on."""

    name: WorkflowName
    namespace: Namespace = NAMESPACE_DEFAULT
    version: OneVersion = None


@operation(
    opcode=130,
    batch_opcode=131,
    permission=Permission.WORKFLOWS_START,
    repeatable=lambda start: start.idempotency_key is not None,
)
class StartWorkflow(Command[WorkflowBegun]):
    """Start a run of the workflow.

    It is refused if the workflow is disabled (`workflow_disabled`), if there is a run with the
    chosen `run_id` already (`run_exists`), or if the workflow wants an idempotency key and there is
    none (`idempotency_key_required`).
    """

    name: WorkflowName
    input: Annotated[bytes, Payload("an input"), about("What the run is given.")] = b"{}"
    namespace: Namespace = NAMESPACE_DEFAULT
    version: Version = LATEST
    idempotency_key: IdempotencyKey | None = None
    run_id: Annotated[
        RunId | None, about("What the run is to be called; otherwise it is given a number.")
    ] = None
    subject: Subject | None = None
    trace: TraceParent | None = None


@operation(
    opcode=132,
    permission=Permission.WORKFLOWS_SIGNAL,
    http=Route(
        "POST", "/workflow-runs/{run_id}/signal", errors=(404, 409), name="signal_workflow_run"
    ),
)
class SignalWorkflow(Command[SignalSent]):
    """Send a signal to a workflow run; it is kept until a step waits for its type.

    If no step of its workflow ever does, the answer has a warning with the nearest type.
    A run that has ended already is refused: `run_has_ended`.
    """

    run_id: WorkflowRunId
    type: Annotated[str, Text(what="the type of a signal"), about("The signal's type.")]
    payload: Annotated[bytes, Payload("the payload of a signal"), about("What comes with it.")] = (
        b""
    )
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(
    opcode=133,
    permission=Permission.WORKFLOWS_MANAGE,
    http=Route(
        "POST",
        "/workflow-runs/{run_id}/cancel",
        errors=(404, 409),
        name="cancel_workflow_run",
        is_body_optional=True,
    ),
)
class CancelWorkflow(Command[Nothing]):
    """End a workflow run: its actions and children are cancelled, what it has done is undone.

    A run that has ended already, or is being undone, is refused: `run_has_ended`.
    """

    run_id: WorkflowRunId
    namespace: Namespace = NAMESPACE_DEFAULT
    reason: Reason = ""


@operation(
    opcode=134,
    permission=Permission.WORKFLOWS_MANAGE,
    http=Route(
        "POST", "/workflow-runs/{run_id}/pause", errors=(404, 409), name="pause_workflow_run"
    ),
)
class PauseWorkflow(Command[Nothing]):
    """Let what is under way in a workflow run come to its end, and begin nothing new."""

    run_id: WorkflowRunId
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(
    opcode=135,
    permission=Permission.WORKFLOWS_MANAGE,
    http=Route(
        "POST", "/workflow-runs/{run_id}/resume", errors=(404, 409), name="resume_workflow_run"
    ),
)
class ResumeWorkflow(Command[Nothing]):
    """Let a workflow run that is paused go on."""

    run_id: WorkflowRunId
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(
    opcode=136,
    permission=Permission.WORKFLOWS_START,
    http=Route(
        "POST",
        "/workflow-runs/{run_id}/rerun",
        status=202,
        errors=(404, 409),
        name="rerun_workflow_run",
        is_body_optional=True,
    ),
)
class RerunWorkflow(Command[WorkflowBegun]):
    """Start a run that repeats another, from any step on, with other input or another version.

    A step that the definition does not have is `step_not_found`.
    """

    run_id: WorkflowRunId
    namespace: Namespace = NAMESPACE_DEFAULT
    step: Annotated[StepName | None, about("The step to begin with, if not the start.")] = None
    input: Annotated[bytes | None, Payload("an input"), about("Another input.")] = None
    version: Annotated[str | None, about("Another version than the same.")] = None


@operation(opcode=125, permission=Permission.WORKFLOWS_READ)
class GetWorkflow(Query[WorkflowView]):
    """A workflow: its versions, and the text of one of them."""

    name: WorkflowName
    namespace: Namespace = NAMESPACE_DEFAULT
    version: Version = LATEST


@operation(opcode=126, permission=Permission.WORKFLOWS_READ, http=Route("GET", "/workflows"))
class ListWorkflows(Query[WorkflowPage]):
    """The workflows, by name, each in its newest version."""

    namespace: Namespace = NAMESPACE_DEFAULT
    limit: Limit = LIST_LIMIT_DEFAULT
    cursor: Cursor = None


@operation(opcode=137, permission=Permission.WORKFLOWS_READ)
class GetWorkflowRun(Query[WorkflowRunView]):
    """A workflow run as it is now."""

    run_id: WorkflowRunId
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(opcode=138, permission=Permission.WORKFLOWS_READ)
class WaitForWorkflow(Query[WorkflowRunView]):
    """The run, once it has ended; as it is after `block_ms`."""

    run_id: WorkflowRunId
    namespace: Namespace = NAMESPACE_DEFAULT
    block_ms: BlockMs = 30_000


@operation(opcode=139, permission=Permission.WORKFLOWS_READ, http=Route("GET", "/workflow-runs"))
class ListWorkflowRuns(Query[WorkflowRunPage]):
    """Workflow runs, under way or ended, the newest first.

    With `where` or a subject, a page may be short, or empty, and there are more nevertheless: as
    long as there is a cursor.
    """

    namespace: Namespace = NAMESPACE_DEFAULT
    workflow: Annotated[WorkflowName | None, about("Only runs of this workflow.")] = None
    status: Annotated[WorkflowStatus | None, about("Only runs in this status.")] = None
    where: Annotated[
        str | None,
        about(
            "Only runs whose search attributes fit, as in "
            'customer_id = "42" and order_amount > 100.'
        ),
    ] = None
    since_ms: Annotated[int | None, about("Only runs that were started then or later.")] = None
    limit: Limit = LIST_LIMIT_DEFAULT
    cursor: Cursor = None
    subject: Annotated[str | None, about("Only runs that are about this subject.")] = None


@operation(
    opcode=141,
    permission=Permission.WORKFLOWS_READ,
    http=Route(
        "GET", "/workflow-runs/{run_id}/explain", errors=(404,), name="explain_workflow_run"
    ),
)
class ExplainWorkflow(Query[Explanation]):
    """Why a workflow run is where it is, when it wakes up, and which commands would help."""

    run_id: WorkflowRunId
    namespace: Namespace = NAMESPACE_DEFAULT
