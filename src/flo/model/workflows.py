"""What is asked and answered about workflows and their runs: commands, questions, replies.

What the log keeps of them is in workflow_facts.py.
"""

from typing import Any

import msgspec

from flo.model.base import Message
from flo.model.ids import LIST_LIMIT_DEFAULT, NAMESPACE_DEFAULT, Namespace, RunId
from flo.model.workflow_facts import (
    Attributes,
    BranchName,
    BranchPhase,
    StepName,
    WorkflowName,
    WorkflowStatus,
)

LATEST = "latest"
TEXT_LENGTH_MAX = 1024 * 1024
SIGNALS_KEPT_MAX = 1_000
HISTORY_LIMIT_DEFAULT = 100
HISTORY_LIMIT_MAX = 1_000


class CreateWorkflow(Message):
    """Deploy a definition. The same text again changes nothing; another text needs a version."""

    text: str
    namespace: Namespace = NAMESPACE_DEFAULT


class ValidateWorkflow(Message):
    """What is wrong with a definition, and what might be."""

    text: str


class DeleteWorkflow(Message):
    """Delete a version, or all of them; runs that are under way go on to their end."""

    name: WorkflowName
    namespace: Namespace = NAMESPACE_DEFAULT
    version: str | None = None


class DisableWorkflow(Message):
    """Refuse new runs, of one version or of all there are and will be; runs under way go on."""

    name: WorkflowName
    namespace: Namespace = NAMESPACE_DEFAULT
    version: str | None = None


class EnableWorkflow(Message):
    name: WorkflowName
    namespace: Namespace = NAMESPACE_DEFAULT
    version: str | None = None


class StartWorkflow(Message):
    name: WorkflowName
    input: bytes = b"{}"
    namespace: Namespace = NAMESPACE_DEFAULT
    version: str = LATEST
    idempotency_key: str | None = None
    run_id: RunId | None = None
    """What the run is to be called; otherwise it is given a number."""


class SignalWorkflow(Message):
    """Send a signal; it is kept until a step waits for its type."""

    run_id: RunId
    type: str
    payload: bytes = b""
    namespace: Namespace = NAMESPACE_DEFAULT


class CancelWorkflow(Message):
    """End a run: its actions and children are cancelled, what it has done is undone."""

    run_id: RunId
    namespace: Namespace = NAMESPACE_DEFAULT
    reason: str = ""


class PauseWorkflow(Message):
    """Let what is under way come to its end, and begin nothing new."""

    run_id: RunId
    namespace: Namespace = NAMESPACE_DEFAULT


class ResumeWorkflow(Message):
    run_id: RunId
    namespace: Namespace = NAMESPACE_DEFAULT


class RerunWorkflow(Message):
    """Start a run that repeats another one from a step on, with other input or another version."""

    run_id: RunId
    namespace: Namespace = NAMESPACE_DEFAULT
    step: StepName | None = None
    """None is the start."""
    input: bytes | None = None
    version: str | None = None


class GetWorkflow(Message):
    name: WorkflowName
    namespace: Namespace = NAMESPACE_DEFAULT
    version: str = LATEST


class ListWorkflows(Message):
    namespace: Namespace = NAMESPACE_DEFAULT
    limit: int = LIST_LIMIT_DEFAULT
    cursor: str | None = None


class GetWorkflowRun(Message):
    run_id: RunId
    namespace: Namespace = NAMESPACE_DEFAULT


class WaitForWorkflow(Message):
    """The run, once it has ended; as it is after `block_ms`."""

    run_id: RunId
    namespace: Namespace = NAMESPACE_DEFAULT
    block_ms: int = 30_000


class ListWorkflowRuns(Message):
    """Workflow runs, the newest first; `where` is a condition on search attributes."""

    namespace: Namespace = NAMESPACE_DEFAULT
    workflow: WorkflowName | None = None
    status: WorkflowStatus | None = None
    where: str | None = None
    since_ms: int | None = None
    limit: int = LIST_LIMIT_DEFAULT
    cursor: str | None = None


class GetHistory(Message):
    """The history of a run, the oldest first."""

    run_id: RunId
    namespace: Namespace = NAMESPACE_DEFAULT
    limit: int = HISTORY_LIMIT_DEFAULT
    cursor: str | None = None


class ExplainWorkflow(Message):
    """Why a run is where it is, and what would move it."""

    run_id: RunId
    namespace: Namespace = NAMESPACE_DEFAULT


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
