"""Who carries a workflow run on, as the parts know it that do some of it: plans, joins, the end."""

from typing import Protocol

from flo.core.course import Course
from flo.core.draft import Draft
from flo.model.ids import ActionName
from flo.model.workflow_facts import Walk, WalkName
from flo.workflow.definition import Target


class Carrier(Protocol):
    draft: Draft
    course: Course
    """The one of the draft."""

    def call(self, walk: WalkName, now: Walk, target: Target, payload: bytes) -> None:
        """Begin an attempt at a target: queue its run, start its child, take up its plan."""

    def invoke(
        self,
        walk: WalkName,
        now: Walk,
        action: ActionName,
        payload: bytes,
        until_ms: int | None = None,
        *,
        held: bool = False,
    ) -> str | None:
        """Queue the run that a walk then waits for; the outcome if it cannot be queued."""

    def judge(self, walk: WalkName, outcome: str, output: bytes, error: str | None) -> None:
        """An attempt has an outcome: ask again, try again, or let the step end."""

    def end_step(self, walk: WalkName, outcome: str, output: bytes, error: str | None) -> None:
        """The step has an outcome: on to where it leads."""
