"""All that the log has said of one workflow run: its branches, what it has done, how it ended."""

from collections import Counter

from flo.engine.runs.records import RunCause
from flo.engine.workflows.records import Branch, Ending, WorkflowRun
from flo.model.ids import Namespace, RunId
from flo.model.workflows import MAIN, BranchName, BranchPhase, StepName
from flo.workflow.definition import Definition

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
        """The steps that can be undone, in the order in which they succeeded."""
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
