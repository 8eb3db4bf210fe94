"""All that the log has said of one workflow run: its branches, what it has done, how it ended."""

from collections import Counter
from collections.abc import Sequence

import msgspec

from flo.engine.runs.records import RunCause
from flo.engine.workflows.events import StepEnded, StepHeld, StepStarted
from flo.engine.workflows.records import Branch, Ending, WorkflowRecord, WorkflowRun
from flo.model.ids import Namespace, RunId
from flo.model.runs import RunStatus
from flo.model.storage.archive import Archived
from flo.model.workflows import MAIN, BranchName, BranchPhase, StepName, WorkflowStatus
from flo.workflow.definition import Definition
from flo.workflow.limits import BURST_S, STEPS_DEFAULT, STEPS_PER_SECOND_DEFAULT, Limits
from flo.workflow.steps import RollbackWhen, RunStep, SignalStep, Step
from simulator.reference.run_timeline import RunTimeline

_decode_record = msgspec.msgpack.Decoder(WorkflowRecord).decode

WORKFLOW_KINDS = frozenset(
    {"workflow", "workflow-of", "workflow-id", "history", "calls", "definition"}
)
"""What of workflows is in the archive."""


class WorkflowTimeline:
    def __init__(
        self, run: WorkflowRun, namespace: Namespace, definition: Definition, position: int
    ) -> None:
        self.made = run
        self.namespace = namespace
        self.run_id: RunId = run.run_id
        self.key = (namespace, run.run_id)
        self.definition = definition
        self.began_at = position
        """The append that started it."""
        self.branches: dict[BranchName, Branch] = {}
        """Where each branch is, and what it waits for."""
        self.last_awaited: dict[BranchName, RunId] = {}
        """The run or child of each branch that has ended last."""
        self.at_rest: set[BranchName] = set()
        """The branches whose step has ended."""
        self.done: list[StepName] = []
        """The steps that can be undone, in the order in which they succeeded, or may have."""
        self.unknown: set[RunId] = set()
        """The runs of which an attempt may have happened, as the log says."""
        self.to_undo: list[StepName] = []
        self.rolled_back = False
        self.signals: Counter[str] = Counter()
        self.paused = False
        self.admitted = run.limit_key is None
        self.ending: Ending | None = None
        self.ended_at = 0
        """The append that ended it."""
        self.ended_s = 0.0
        self.step_outcomes: dict[StepName, str] = {}
        """How each step has ended the last time."""
        self.steps_in_a_row: Counter[BranchName] = Counter()
        """Steps of a branch since it has waited for something outside, or one of its branches."""
        self.steps_ended = 0
        self.waited = False
        self.outcomes = 0
        """How often something that it waited for has had an outcome."""

    @property
    def awaits_a_signal(self) -> bool:
        """Whether nothing but a signal moves it on."""
        now = self.branches.get(MAIN)
        return now is not None and now.phase is BranchPhase.SIGNAL and now.until_ms is None

    def cause(self, branch: BranchName, now: Branch) -> RunCause:
        """What a run says that is queued now for this branch."""
        return RunCause(
            run_id=self.run_id, branch=branch, step=now.step, visit=now.visit, attempt=now.attempt
        )

    def undoes_attempts(self, branch: BranchName) -> bool:
        """Whether the step that a branch is at is undone even if nobody knows what came of it."""
        step = self.definition.step_named(self.branches[branch].step)
        rollback = step.rollback if isinstance(step, RunStep) and branch == MAIN else None
        return rollback is not None and rollback.when is RollbackWhen.ATTEMPTED

    def knows_what_came_of(self, run: RunTimeline, branch: BranchName) -> bool:
        """Whether the log says that a run may have had its effect, where its step asks."""
        may_have = run.may_have_happened or run.status is RunStatus.RUNNING
        return not may_have or not self.undoes_attempts(branch) or run.run_id in self.unknown

    def wait_for_time(self, event: StepStarted | StepHeld) -> None:
        """A sleep or the delay of a poll, unless it has no length."""
        now = event.now
        is_timed = now.phase in (BranchPhase.SLEEP, BranchPhase.POLL)
        if is_timed and now.until_ms is not None and now.until_ms > event.at_ms:
            self.wait_outside(event.branch)

    def end_step(self, event: StepEnded) -> None:
        self.last_awaited.pop(event.branch, None)
        self.step_outcomes[event.step] = event.outcome
        self.steps_in_a_row[event.branch] += 1
        self.steps_ended += 1

    def is_within_limits(self, event: StepStarted) -> bool:
        """Whether it may begin another step, as far as its document and the defaults say.

        What branches may do follows from that.
        """
        if event.branch != MAIN:
            return True
        own = self.definition.limits or Limits()
        steps = own.steps or STEPS_DEFAULT
        rate = own.steps_per_second or STEPS_PER_SECOND_DEFAULT
        for_ms = max(0, event.at_ms - self.made.created_at_ms)  # a clock may have been set back
        for_s = BURST_S + for_ms / 1_000
        return self.steps_ended < steps and self.steps_ended <= rate * for_s

    def wait_outside(self, branch: BranchName) -> None:
        self.waited = True
        for name in [MAIN, *self.steps_in_a_row]:
            if name in (branch, MAIN) or branch.startswith(f"{name}/"):
                self.steps_in_a_row[name] = 0

    @property
    def is_live(self) -> bool:
        return self.ending is None

    def __str__(self) -> str:
        how = f"{self.ending.status} at {self.ending.terminal}" if self.ending else "under way"
        paused = ", paused" if self.paused else ""
        name = f"{self.namespace}/{self.run_id} of {self.made.workflow}"
        return f"{name} is {how}{paused}, {self.branches}"


def goals_of(step: Step | None) -> set[str]:
    if step is None:
        return set()
    goals = set(step.transitions.values())
    if isinstance(step, SignalStep) and step.wait_for_signal.on_timeout is not None:
        goals.add(step.wait_for_signal.on_timeout)
    return goals


def triggered_inputs(definition: Definition | None, payloads: list[bytes]) -> list[bytes]:
    """What the runs that these records start are given."""
    if definition is None or definition.trigger is None or definition.trigger.batch_size == 1:
        return payloads
    return [b"[" + b",".join(payloads) + b"]"]


def ended_in(archived: Sequence[Archived]) -> list[tuple[Namespace, RunId, WorkflowStatus]]:
    """The workflow runs that are archived, and as what."""
    return [
        (row.namespace.partition("~")[0], record.run.run_id, record.status)
        for row in archived
        if row.kind == "workflow"
        for record in (_decode_record(row.body),)
    ]
