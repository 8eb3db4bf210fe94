"""The moves of an advance: what one part asks for and the stepper carries out.

    EnterStep ──▸ Call ──▸ (a run, a child) …  EndAttempt ──▸ EndStep ──▸ Go ──▸ EnterStep
                   └─▸ BeginPlan, EndCall             │                    └──▸ Finish
                                                     ▼
    OpenItems ──▸ BeginItem              EndBranch ──▸ SettleJoin ──▸ EndStep of the join
    Finish ──▸ Close ──▸ Compensate ──▸ Call …

A part is asked with one move and returns what follows from it: events and further moves, in order.
By the time a move is made, all events before it are folded. A part never calls another one back.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from flo.engine.workflows.records import Branch
from flo.model.base import Event
from flo.model.workflows import BranchName, StepName, WorkflowStatus
from flo.workflow.outcome import StepError
from flo.workflow.steps import Target

FAILED = "flo.Failed"


class EnterStep(NamedTuple):
    """A branch has come to a step, which begins when all other moves are made."""

    branch: BranchName
    step: StepName


class Call(NamedTuple):
    """Begin an attempt at a target: queue its run, start its child, take up its plan."""

    branch: BranchName
    now: Branch
    target: Target
    payload: bytes


class BeginPlan(NamedTuple):
    """The plan of the step that the branch is at begins."""

    branch: BranchName


class EndCall(NamedTuple):
    """The call of an executor has ended: the plan decides what comes next."""

    branch: BranchName
    outcome: str
    output: bytes
    error: StepError | None
    answered: bool
    """Whether the run completed; not if it failed, timed out or was cancelled."""


class EndAttempt(NamedTuple):
    """An attempt has an outcome: poll again, try again, or end the step."""

    branch: BranchName
    outcome: str
    output: bytes
    error: StepError | None


class EndStep(NamedTuple):
    """The step that the branch is at has an outcome."""

    branch: BranchName
    outcome: str
    output: bytes
    error: StepError | None


class Go(NamedTuple):
    """A branch goes on to a step or a terminal."""

    branch: BranchName
    goal: str


class MatchSignal(NamedTuple):
    """Give a branch that waits for a signal the oldest one of its type, if there is one."""

    branch: BranchName


class Resume(NamedTuple):
    """A branch of an execution that was paused goes on."""

    branch: BranchName


class OpenItems(NamedTuple):
    """Open items of a forEach step, as many as may be under way at a time."""

    branch: BranchName
    step: StepName


class BeginItem(NamedTuple):
    """Begin an attempt at an item of a forEach step."""

    branch: BranchName
    now: Branch


class EndBranch(NamedTuple):
    """A parallel branch or an item has come to its end."""

    branch: BranchName
    succeeded: bool
    output: bytes
    error: StepError | None = None


class SettleJoin(NamedTuple):
    """One more branch of a step has ended: does that decide the step?"""

    branch: BranchName
    step: StepName
    error: StepError | None = None
    """Of the branch that has ended."""


class Close(NamedTuple):
    """A branch goes no further, and what it waits for is cancelled."""

    branch: BranchName


class Finish(NamedTuple):
    """The execution ends; unless it completes, it is compensated first."""

    status: WorkflowStatus
    terminal: str
    error: StepError | None


class Compensate(NamedTuple):
    """Compensate the next step that is to be; the execution ends when there is none."""


Move: TypeAlias = (
    EnterStep
    | Call
    | BeginPlan
    | EndCall
    | EndAttempt
    | EndStep
    | Go
    | MatchSignal
    | Resume
    | OpenItems
    | BeginItem
    | EndBranch
    | SettleJoin
    | Close
    | Finish
    | Compensate
)
Moves: TypeAlias = Sequence[Event | Move]
"""What follows: events to be folded and moves to be made, in this order."""


def failure(message: str, code: str) -> Finish:
    return Finish(WorkflowStatus.FAILED, FAILED, StepError(message=message, code=code))
