"""Workflows as the log and the archive keep them: the records of their runs, and all their events.

A workflow run walks through the graph of its definition. Mostly there is one walk; a parallel step
opens one for each of its branches, a forEach step one for each item that is under way.

    ""                   the walk of the run itself
    "prepare/email"      the walk of the branch `email` of the step `prepare`
    "notify_all/3"       the walk of the fourth item of the step `notify_all`

The events below are the history that users see: nothing else is written down for it.
"""

from enum import StrEnum
from typing import TypeAlias

import msgspec

from flo.model.base import Event, Record
from flo.model.ids import Namespace, RunId

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


class Branch(Record):
    """How far a walk has come: the step it is at, and what it waits for there."""

    step: StepName
    phase: BranchPhase
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
    branch: BranchName


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
    branch: BranchName = MAIN


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


class WorkflowCreated(Event):
    namespace: Namespace
    name: WorkflowName
    version: str
    text: str
    definition: bytes
    """As it was understood: a later reader of the text need not agree."""
    at_ms: int


class WorkflowDeleted(Event):
    namespace: Namespace
    name: WorkflowName
    version: str | None


class WorkflowDisabled(Event):
    namespace: Namespace
    name: WorkflowName
    version: str | None = None


class WorkflowEnabled(Event):
    namespace: Namespace
    name: WorkflowName
    version: str | None = None


class WorkflowStarted(Event):
    namespace: Namespace
    run: WorkflowRun


class WorkflowAdmitted(Event):
    """It was the run's turn: one of the slots of its key is its own until it ends."""

    namespace: Namespace
    run_id: RunId
    at_ms: int


class StepStarted(Event):
    """A walk has begun a step, or another attempt at it."""

    namespace: Namespace
    run_id: RunId
    branch: BranchName
    now: Branch
    at_ms: int
    detail: str = ""
    """The target, the type of the signal, or how long."""


class StepHeld(Event):
    """The walk waits at its step in another way: for a repetition, a poll, the rest of a plan."""

    namespace: Namespace
    run_id: RunId
    branch: BranchName
    now: Branch
    at_ms: int
    detail: str = ""


class ActionEnded(Event):
    """What a walk waited for has an outcome: an action, or a child."""

    namespace: Namespace
    run_id: RunId
    branch: BranchName
    awaited: RunId
    outcome: str
    at_ms: int
    error: str | None = None


class StepEnded(Event):
    """A step has its outcome; where the walk goes from here, follows."""

    namespace: Namespace
    run_id: RunId
    branch: BranchName
    step: StepName
    outcome: str
    output: bytes
    at_ms: int
    error: str | None = None
    target: str = ""
    """What could not be begun, as the definition names it."""


class BranchOpened(Event):
    """A branch or an item begins."""

    namespace: Namespace
    run_id: RunId
    branch: BranchName
    step: StepName
    at_ms: int


class BranchEnded(Event):
    """A branch or an item has come to its end, good or bad."""

    namespace: Namespace
    run_id: RunId
    branch: BranchName
    succeeded: bool
    output: bytes
    at_ms: int


class BranchClosed(Event):
    """A walk is given up: it is not needed any more, or the run ends."""

    namespace: Namespace
    run_id: RunId
    branch: BranchName
    at_ms: int


class PollExhausted(Event):
    """A step has asked as often as it may, and what it asks for is still pending."""

    namespace: Namespace
    run_id: RunId
    branch: BranchName
    step: StepName
    at_ms: int
    attempt: int


class PlanNoted(Event):
    """Something that happened on the way through a plan; breakers and health learn from it."""

    namespace: Namespace
    run_id: RunId
    branch: BranchName
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


class ChildCancelled(Event):
    """Its parent does not wait for it any more."""

    namespace: Namespace
    run_id: RunId
    at_ms: int
    reason: str


class SignalReceived(Event):
    namespace: Namespace
    run_id: RunId
    signal: Signal


class SignalMatched(Event):
    """The oldest signal of its type has found a walk that waits for it."""

    namespace: Namespace
    run_id: RunId
    branch: BranchName
    signal_type: str
    at_ms: int


class SignalTimedOut(Event):
    namespace: Namespace
    run_id: RunId
    branch: BranchName
    signal_type: str
    goal: str
    at_ms: int


class WorkflowPaused(Event):
    namespace: Namespace
    run_id: RunId
    at_ms: int


class WorkflowResumed(Event):
    namespace: Namespace
    run_id: RunId
    at_ms: int


class RollbackBegan(Event):
    """The run ends badly: what it has done is undone first, the last step first."""

    namespace: Namespace
    run_id: RunId
    ending: Ending
    steps: tuple[StepName, ...]
    at_ms: int


class StepUndone(Event):
    namespace: Namespace
    run_id: RunId
    step: StepName
    succeeded: bool
    at_ms: int
    error: str | None = None


class WorkflowFinished(Event):
    namespace: Namespace
    run_id: RunId
    ending: Ending
    output: bytes
    at_ms: int
    workflow: WorkflowName
    slot: str | None = None


class HistoryFiled(Event):
    """A part of a long history has gone to the archive."""

    namespace: Namespace
    run_id: RunId
    part: int
    at_ms: int
