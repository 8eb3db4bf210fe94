"""What one advance of a workflow run has come to so far: its events, and the run as it is by then.

    emit ──▸ the events of the run itself
      └────▸ folded at once into a copy of its Course, so that the next decision sees it

The runs and children that are started come first, so that nobody takes their numbers; then the
events of the run itself; what is cancelled comes last.
"""

from collections import deque

from flo.engine.context import Context
from flo.engine.runs.events import RunCancelled, RunQueued
from flo.engine.runs.rules import queue_run
from flo.engine.state import State
from flo.engine.workflows.events import ChildCancelled, StepHeld, StepStarted, WorkflowStarted
from flo.engine.workflows.execution import Execution, ExecutionEvent
from flo.engine.workflows.records import Branch, WorkflowRun
from flo.model.base import Event
from flo.model.ids import PAYLOAD_LENGTH_MAX, ActionName, Namespace, RunId
from flo.model.workflows import BranchName, StepName

EVENTS_PER_ADVANCE_MAX = 20_000


class Draft:
    def __init__(
        self, state: State, namespace: Namespace, execution: Execution, context: Context
    ) -> None:
        self.execution = execution.copy()
        self.namespace, self.run_id = namespace, execution.run_id
        self.space = state.space(namespace)
        self.context = context
        self.now_ms = context.now_ms
        self.own: list[Event] = []
        """The events of the run itself."""
        self.onward: deque[tuple[BranchName, StepName]] = deque()
        """The steps that walks have come to, and that are yet to begin."""
        self._queued: dict[RunId, RunQueued] = {}
        self._children: list[WorkflowStarted] = []
        self._cancelled: list[Event] = []
        self._numbers: dict[ActionName, int] = {}

    def events(self) -> tuple[Event, ...]:
        return (*self._queued.values(), *self._children, *self.own, *self._cancelled)

    def emit(self, event: ExecutionEvent) -> None:
        self.own.append(event)
        self.execution.fold(event)

    def note(self, event: Event) -> None:
        """A fact that the Course itself does not look at."""
        self.own.append(event)

    def start(self, branch: BranchName, now: Branch, detail: str = "") -> None:
        self.emit(
            StepStarted(
                namespace=self.namespace,
                run_id=self.run_id,
                branch=branch,
                now=now,
                at_ms=self.now_ms,
                detail=detail,
            )
        )

    def hold(self, branch: BranchName, now: Branch, detail: str = "") -> None:
        self.emit(
            StepHeld(
                namespace=self.namespace,
                run_id=self.run_id,
                branch=branch,
                now=now,
                at_ms=self.now_ms,
                detail=detail,
            )
        )

    def queue(self, action: ActionName, payload: bytes) -> RunId:
        """Queue a run of an action, unless the action refuses it."""
        number = max(self._numbers.get(action, 0), self.space.numbers.get(action, 0)) + 1
        run = queue_run(self.space, action, payload, self.context, number)
        self._numbers[action] = number
        self._queued[run.run_id] = RunQueued(namespace=self.namespace, run=run)
        return run.run_id

    def next_child_number(self) -> int:
        return self.space.workflow_number + 1 + len(self._children)

    def start_child(self, child: WorkflowRun) -> None:
        self._children.append(WorkflowStarted(namespace=self.namespace, run=child))

    def cancel_run(self, run_id: RunId, reason: str) -> None:
        queued = self._queued.get(run_id)
        run = queued.run if queued is not None else self.space.runs.get(run_id)
        if run is not None:
            self._cancelled.append(
                RunCancelled(
                    namespace=self.namespace,
                    run_id=run_id,
                    at_ms=self.now_ms,
                    reason=reason,
                    worker_id=run.worker_id,
                )
            )

    def cancel_child(self, run_id: RunId) -> None:
        reason = f"its parent {self.run_id} does not wait for it"
        self._cancelled.append(
            ChildCancelled(
                namespace=self.namespace, run_id=run_id, at_ms=self.now_ms, reason=reason
            )
        )


def too_large(what: str, payload: bytes) -> str | None:
    """Why a payload cannot be passed on; None if it can."""
    if len(payload) <= PAYLOAD_LENGTH_MAX:
        return None
    return f"expected {what} to have at most {PAYLOAD_LENGTH_MAX} bytes, got {len(payload)}"
