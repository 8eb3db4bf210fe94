"""Who carries a workflow run on, as the parts know it that do some of it: plans, joins, the end."""

from typing import Protocol

from flo.engine.workflows.advance.draft import Draft
from flo.engine.workflows.execution import Execution
from flo.engine.workflows.records import Branch
from flo.model.ids import ActionName
from flo.model.workflows import BranchName
from flo.workflow.definition import Target


class Stepper(Protocol):
    draft: Draft
    execution: Execution
    """The one of the draft."""

    def call(self, branch: BranchName, now: Branch, target: Target, payload: bytes) -> None:
        """Begin an attempt at a target: queue its run, start its child, take up its plan."""

    def invoke(
        self,
        branch: BranchName,
        now: Branch,
        action: ActionName,
        payload: bytes,
        until_ms: int | None = None,
        *,
        held: bool = False,
    ) -> str | None:
        """Queue the run that a walk then waits for; the outcome if it cannot be queued."""

    def judge(self, branch: BranchName, outcome: str, output: bytes, error: str | None) -> None:
        """An attempt has an outcome: ask again, try again, or let the step end."""

    def end_step(self, branch: BranchName, outcome: str, output: bytes, error: str | None) -> None:
        """The step has an outcome: on to where it leads."""
