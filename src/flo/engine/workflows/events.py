"""What the log remembers of workflows."""

from flo.engine.workflows.records import Branch, Ending, Signal, WorkflowRun
from flo.model.base import Event
from flo.model.ids import Namespace, RunId, WorkerId
from flo.model.views.attempts import AttemptEnd
from flo.model.workflows import BranchName, StepName, WorkflowName


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
    at_ms: int = 0


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
    """It was the run's turn: it has a permit of its key until it ends."""

    namespace: Namespace
    run_id: RunId
    at_ms: int


class StepStarted(Event):
    """A branch has begun a step, or another attempt at it."""

    namespace: Namespace
    run_id: RunId
    branch: BranchName
    now: Branch
    at_ms: int
    detail: str = ""
    """The target, the type of the signal, or how long."""


class StepHeld(Event):
    """A branch waits at its step for something else: a retry, a poll, the next call of a plan."""

    namespace: Namespace
    run_id: RunId
    branch: BranchName
    now: Branch
    at_ms: int
    detail: str = ""


class ActionEnded(Event):
    """The run or the child that a branch waited for has an outcome."""

    namespace: Namespace
    run_id: RunId
    branch: BranchName
    awaited: RunId
    outcome: str
    at_ms: int
    error: str | None = None
    error_code: str | None = None
    outside: bool = True
    """Whether a worker outside did it; of a child, whether it has waited for something outside."""
    retryable: bool = True
    output: bytes | None = None
    """Of a call that need not end its step; None if the result of the step has it."""


class CallNotMade(Event):
    """An attempt that has queued nothing: its target refused, or a plan has answered by itself."""

    namespace: Namespace
    run_id: RunId
    branch: BranchName
    step: StepName
    visit: int
    attempt: int
    target: str
    outcome: str
    at_ms: int
    error: str | None = None
    error_code: str | None = None
    retryable: bool = True


class AttemptLeftUnknown(Event):
    """Nobody knows what came of an attempt: its step is undone if the run ends badly."""

    namespace: Namespace
    run_id: RunId
    branch: BranchName
    step: StepName
    awaited: RunId
    end: AttemptEnd
    at_ms: int


class StepReportedLate(Event):
    """A run that a step has called was reported when its attempt had ended without a report."""

    namespace: Namespace
    run_id: RunId
    branch: BranchName
    step: StepName
    attempt: int
    """Of the step."""
    awaited: RunId
    worker_id: WorkerId
    outcome: str
    at_ms: int
    error_code: str | None = None


class StepEnded(Event):
    """A step has its outcome; the next events say where the branch goes from here."""

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
    error_code: str | None = None
    retryable: bool = True


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
    """A branch is given up: it is not needed any more, or the run ends."""

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
    """Something that happened in a plan; its breakers and the health of its executors follow."""

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
    error_code: str | None = None


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
    """The oldest signal of its type was given to a branch that waited for one."""

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
    """The run does not complete: its steps are undone before it ends, the last one first."""

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
    error_code: str | None = None


class WorkflowFinished(Event):
    namespace: Namespace
    run_id: RunId
    ending: Ending
    output: bytes
    at_ms: int
    workflow: WorkflowName
    limit_key: str | None = None
    waited: bool = True
    """Whether it has ever waited for something outside."""


class HistoryFiled(Event):
    """A part of a long history has gone to the archive."""

    namespace: Namespace
    run_id: RunId
    part: int
    at_ms: int
