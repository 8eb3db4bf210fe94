"""Workflow definitions and workflow runs: records, commands, questions, events, replies.

A workflow run walks through the graph of its definition. Mostly there is one walk; a parallel step
opens one for each of its branches, a forEach step one for each item that is under way.

    ""                   the walk of the run itself
    "prepare/email"      the walk of the branch `email` of the step `prepare`
    "notify_all/3"       the walk of the fourth item of the step `notify_all`

The events below are the history that users see: nothing else is written down for it.
"""

from enum import StrEnum
from typing import Any, TypeAlias

import msgspec

from flo.model.base import Fact, Record, Word
from flo.model.ids import LIST_LIMIT_DEFAULT, NAMESPACE_DEFAULT, Namespace, RunId

WorkflowName: TypeAlias = str
StepName: TypeAlias = str
WalkName: TypeAlias = str
Attributes: TypeAlias = dict[str, str | int | float]

MAIN = ""
"""The walk of the run itself."""
RUN_PREFIX = "wfrun"
CHOSEN = ""
"""Stands for a workflow where runs are found by ids that were chosen for them."""
LATEST = "latest"
TEXT_LENGTH_MAX = 1024 * 1024
SIGNALS_KEPT_MAX = 1_000
HISTORY_LIMIT_DEFAULT = 100
HISTORY_LIMIT_MAX = 1_000


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


class Phase(StrEnum):
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


class Walk(Record):
    """How far a walk has come: the step it is at, and what it waits for there."""

    step: StepName
    phase: Phase
    attempt: int = 1
    polls: int = 0
    began_at_ms: int = 0
    """When the first attempt at the step began."""
    until_ms: int | None = None
    awaited: RunId | None = None
    """The run, or the child, whose end it waits for."""
    plan: bytes | None = None
    """How far a plan has come."""
    items: int = 0
    """Branches or items in all."""
    opened: int = 0
    succeeded: int = 0
    failed: int = 0
    goal: str | None = None
    """Where to go on when the run is resumed."""


class StepResult(Record):
    outcome: str
    output: bytes = b""
    error: str | None = None
    at_ms: int = 0


class Signal(Record):
    type: str
    payload: bytes
    at_ms: int


class Parent(Record):
    """The run and the walk that wait for a child."""

    run_id: RunId
    walk: WalkName


class Origin(Record):
    """The run that a run repeats, and from which step on."""

    run_id: RunId
    step: StepName


class Ending(Record):
    """How a run ends, once everything that must be undone is undone."""

    status: WorkflowStatus
    terminal: str
    error: str | None = None


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
    slot: str | None = None
    """The key under which its workflow limits how many run at a time."""


class HistoryEntry(Record):
    type: str
    at_ms: int
    step: StepName | None = None
    detail: str = ""
    attempt: int = 0
    walk: WalkName = MAIN


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


class CreateWorkflow(Word):
    """Deploy a definition. The same text again changes nothing; another text needs a version."""

    text: str
    namespace: Namespace = NAMESPACE_DEFAULT


class ValidateWorkflow(Word):
    """What is wrong with a definition, and what might be."""

    text: str


class DeleteWorkflow(Word):
    """Delete a version, or all of them; runs that are under way go on to their end."""

    name: WorkflowName
    namespace: Namespace = NAMESPACE_DEFAULT
    version: str | None = None


class DisableWorkflow(Word):
    """Refuse new runs; those that are there go on."""

    name: WorkflowName
    namespace: Namespace = NAMESPACE_DEFAULT


class EnableWorkflow(Word):
    name: WorkflowName
    namespace: Namespace = NAMESPACE_DEFAULT


class StartWorkflow(Word):
    name: WorkflowName
    input: bytes = b"{}"
    namespace: Namespace = NAMESPACE_DEFAULT
    version: str = LATEST
    idempotency_key: str | None = None
    run_id: RunId | None = None
    """What the run is to be called; otherwise it is given a number."""


class SignalWorkflow(Word):
    """Send a signal; it is kept until a step waits for its type."""

    run_id: RunId
    type: str
    payload: bytes = b""
    namespace: Namespace = NAMESPACE_DEFAULT


class CancelWorkflow(Word):
    """End a run: its actions and children are cancelled, what it has done is undone."""

    run_id: RunId
    namespace: Namespace = NAMESPACE_DEFAULT
    reason: str = ""


class PauseWorkflow(Word):
    """Let what is under way come to its end, and begin nothing new."""

    run_id: RunId
    namespace: Namespace = NAMESPACE_DEFAULT


class ResumeWorkflow(Word):
    run_id: RunId
    namespace: Namespace = NAMESPACE_DEFAULT


class RerunWorkflow(Word):
    """Start a run that repeats another one from a step on, with other input or another version."""

    run_id: RunId
    namespace: Namespace = NAMESPACE_DEFAULT
    step: StepName | None = None
    """None is the start."""
    input: bytes | None = None
    version: str | None = None


class GetWorkflow(Word):
    name: WorkflowName
    namespace: Namespace = NAMESPACE_DEFAULT
    version: str = LATEST


class ListWorkflows(Word):
    namespace: Namespace = NAMESPACE_DEFAULT
    limit: int = LIST_LIMIT_DEFAULT
    cursor: str | None = None


class GetWorkflowRun(Word):
    run_id: RunId
    namespace: Namespace = NAMESPACE_DEFAULT


class WaitForWorkflow(Word):
    """The run, once it has ended; as it is after `block_ms`."""

    run_id: RunId
    namespace: Namespace = NAMESPACE_DEFAULT
    block_ms: int = 30_000


class ListWorkflowRuns(Word):
    """Workflow runs, the newest first; `where` is a condition on search attributes."""

    namespace: Namespace = NAMESPACE_DEFAULT
    workflow: WorkflowName | None = None
    status: WorkflowStatus | None = None
    where: str | None = None
    since_ms: int | None = None
    limit: int = LIST_LIMIT_DEFAULT
    cursor: str | None = None


class GetHistory(Word):
    """The history of a run, the oldest first."""

    run_id: RunId
    namespace: Namespace = NAMESPACE_DEFAULT
    limit: int = HISTORY_LIMIT_DEFAULT
    cursor: str | None = None


class ExplainWorkflow(Word):
    """Why a run is where it is, and what would move it."""

    run_id: RunId
    namespace: Namespace = NAMESPACE_DEFAULT


class WorkflowCreated(Fact):
    namespace: Namespace
    name: WorkflowName
    version: str
    text: str
    definition: bytes
    """As it was understood: a later reader of the text need not agree."""
    at_ms: int


class WorkflowDeleted(Fact):
    namespace: Namespace
    name: WorkflowName
    version: str | None


class WorkflowDisabled(Fact):
    namespace: Namespace
    name: WorkflowName


class WorkflowEnabled(Fact):
    namespace: Namespace
    name: WorkflowName


class WorkflowStarted(Fact):
    namespace: Namespace
    run: WorkflowRun


class WorkflowAdmitted(Fact):
    """It was the run's turn: one of the slots of its key is its own until it ends."""

    namespace: Namespace
    run_id: RunId
    at_ms: int


class StepStarted(Fact):
    """A walk has begun a step, or another attempt at it."""

    namespace: Namespace
    run_id: RunId
    walk: WalkName
    now: Walk
    at_ms: int
    detail: str = ""
    """The target, the type of the signal, or how long."""


class StepHeld(Fact):
    """The walk waits at its step in another way: for a repetition, a poll, the rest of a plan."""

    namespace: Namespace
    run_id: RunId
    walk: WalkName
    now: Walk
    at_ms: int
    detail: str = ""


class ActionEnded(Fact):
    """What a walk waited for has an outcome: an action, or a child."""

    namespace: Namespace
    run_id: RunId
    walk: WalkName
    awaited: RunId
    outcome: str
    at_ms: int
    error: str | None = None


class StepEnded(Fact):
    """A step has its outcome; where the walk goes from here, follows."""

    namespace: Namespace
    run_id: RunId
    walk: WalkName
    step: StepName
    outcome: str
    output: bytes
    at_ms: int
    error: str | None = None


class WalkOpened(Fact):
    """A branch or an item begins."""

    namespace: Namespace
    run_id: RunId
    walk: WalkName
    step: StepName
    at_ms: int


class WalkEnded(Fact):
    """A branch or an item has come to its end, good or bad."""

    namespace: Namespace
    run_id: RunId
    walk: WalkName
    succeeded: bool
    output: bytes
    at_ms: int


class WalkClosed(Fact):
    """A walk is given up: it is not needed any more, or the run ends."""

    namespace: Namespace
    run_id: RunId
    walk: WalkName
    at_ms: int


class PlanNoted(Fact):
    """Something that happened on the way through a plan; breakers and health learn from it."""

    namespace: Namespace
    run_id: RunId
    walk: WalkName
    step: StepName
    workflow: WorkflowName
    version: str
    plan: str
    what: str
    at_ms: int
    executor: str | None = None
    attempt: int = 0
    error: str | None = None
    verdict: str | None = None
    began_ms: int = 0
    is_turn: bool = False


class ChildCancelled(Fact):
    """Its parent does not wait for it any more."""

    namespace: Namespace
    run_id: RunId
    at_ms: int
    reason: str


class SignalReceived(Fact):
    namespace: Namespace
    run_id: RunId
    signal: Signal


class SignalMatched(Fact):
    """The oldest signal of its type has found a walk that waits for it."""

    namespace: Namespace
    run_id: RunId
    walk: WalkName
    signal_type: str
    at_ms: int


class SignalTimedOut(Fact):
    namespace: Namespace
    run_id: RunId
    walk: WalkName
    signal_type: str
    goal: str
    at_ms: int


class WorkflowPaused(Fact):
    namespace: Namespace
    run_id: RunId
    at_ms: int


class WorkflowResumed(Fact):
    namespace: Namespace
    run_id: RunId
    at_ms: int


class RollbackBegan(Fact):
    """The run ends badly: what it has done is undone first, the last step first."""

    namespace: Namespace
    run_id: RunId
    ending: Ending
    steps: tuple[StepName, ...]
    at_ms: int


class StepUndone(Fact):
    namespace: Namespace
    run_id: RunId
    step: StepName
    succeeded: bool
    at_ms: int
    error: str | None = None


class WorkflowFinished(Fact):
    namespace: Namespace
    run_id: RunId
    ending: Ending
    output: bytes
    at_ms: int
    workflow: WorkflowName
    slot: str | None = None


class HistoryFiled(Fact):
    """A part of a long history has gone to the archive."""

    namespace: Namespace
    run_id: RunId
    part: int
    at_ms: int


class WorkflowDeployed(Word):
    name: WorkflowName
    version: str
    created: bool
    problems: list[dict[str, Any]] = msgspec.field(default_factory=list)
    """Warnings."""


class Validated(Word):
    valid: bool
    name: str | None
    version: str | None
    problems: list[dict[str, Any]]


class WorkflowBegun(Word):
    run_id: RunId
    duplicate: bool = False


class WorkflowView(Word):
    name: WorkflowName
    namespace: Namespace
    version: str
    versions: list[str]
    enabled: bool
    created_at_ms: int
    text: str
    live_runs: int


class WorkflowItem(Word):
    """A workflow in a list: without its text, which may be long."""

    name: WorkflowName
    namespace: Namespace
    version: str
    versions: list[str]
    enabled: bool
    created_at_ms: int
    live_runs: int


class WorkflowPage(Word):
    items: list[WorkflowItem]
    cursor: str | None = None


class StepView(Word):
    step: StepName
    outcome: str
    output: bytes
    error: str | None
    at_ms: int


class WaitView(Word):
    """What a walk of a run waits for."""

    walk: WalkName
    step: StepName
    phase: Phase
    attempt: int
    until_ms: int | None
    awaited: RunId | None
    signal: str | None = None


class WorkflowRunView(Word):
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


class WorkflowRunItem(Word):
    """A workflow run in a list."""

    run_id: RunId
    workflow: WorkflowName
    version: str
    status: WorkflowStatus
    created_at_ms: int
    finished_at_ms: int | None
    attributes: Attributes


class WorkflowRunPage(Word):
    items: list[WorkflowRunItem]
    cursor: str | None = None


class HistoryView(Word):
    type: str
    at_ms: int
    step: StepName | None
    detail: str
    attempt: int
    walk: WalkName


class HistoryPage(Word):
    items: list[HistoryView]
    cursor: str | None = None


class Explanation(Word):
    run_id: RunId
    status: WorkflowStatus
    summary: str
    """In one sentence."""
    reasons: list[str]
    next_at_ms: int | None
    advice: list[str]
    """Commands that would help."""
