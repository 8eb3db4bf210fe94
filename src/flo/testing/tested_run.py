"""A workflow run as the test of a workflow sees it."""

from collections.abc import Sequence
from typing import Any

from flo.client.payloads.payload import decode_payload
from flo.model.executions.history import HistoryView
from flo.model.ids import RunId
from flo.model.workflows import (
    ENDED,
    MAIN,
    BranchName,
    StepName,
    StepView,
    WorkflowRunView,
    WorkflowStatus,
)

_AGAIN = ("step_retry", "poll_scheduled")


class TestedRun:
    """As it was when the test last waited for something."""

    __test__ = False  # pytest takes a class of this name for a test

    def __init__(
        self, view: WorkflowRunView, history: Sequence[HistoryView], *, duplicate: bool = False
    ) -> None:
        self.view = view
        self.history = list(history)
        """All that has happened, as `flo workflow history` shows it."""
        self.duplicate = duplicate
        """Whether the idempotency key was known already."""

    def __repr__(self) -> str:
        return f"TestedRun({self.run_id!r}, {self.status}, path={self.path})"

    @property
    def run_id(self) -> RunId:
        return self.view.run_id

    @property
    def status(self) -> WorkflowStatus:
        return self.view.status

    @property
    def has_ended(self) -> bool:
        return self.view.status in ENDED

    @property
    def terminal(self) -> str | None:
        return self.view.terminal

    @property
    def error(self) -> str | None:
        return self.view.error

    @property
    def output(self) -> Any:
        """Decoded; None while it has none."""
        return decode_payload(self.view.output) if self.view.output else None

    @property
    def undone(self) -> list[StepName]:
        return self.view.undone

    @property
    def waits_for(self) -> list[str]:
        """The types of the signals that it waits for."""
        return [wait.signal for wait in self.view.waits if wait.signal is not None]

    @property
    def at_steps(self) -> list[StepName]:
        """Where it is; branches are at steps of their own."""
        return [wait.step for wait in self.view.waits]

    @property
    def path(self) -> list[str]:
        """The steps it has come to, in order; once it has ended, the terminal is the last.

        A repetition is no new step. Those of branches are told by `path_of`.
        """
        steps = self.path_of(MAIN)
        return [*steps, self.view.terminal] if self.has_ended and self.view.terminal else steps

    def path_of(self, branch: BranchName) -> list[StepName]:
        """The steps of a branch: `path_of("prepare/payment")`."""
        path: list[StepName] = []
        again = False
        for entry in self.history:
            if entry.branch != branch:
                continue
            if entry.type in _AGAIN:
                again = True
            elif entry.type == "step_started" and entry.step is not None:
                path += [] if again else [entry.step]
                again = False
        return path

    def step(self, name: StepName) -> StepView:
        """What a step has come to: its outcome, its output, its error."""
        found = next((one for one in self.view.steps if one.step == name), None)
        assert found is not None, f"expected step {name!r} to have ended, got {self.path}"
        return found

    def details_of(self, kind: str) -> list[str]:
        """The details of all entries of one type in the history."""
        return [entry.detail for entry in self.history if entry.type == kind]
