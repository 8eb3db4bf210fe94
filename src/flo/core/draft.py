"""What one advance of a workflow run has come to so far: its events, and the run as it is by then.

    emit ──▸ the events of the run itself
      └────▸ folded at once into a copy of its Course, so that the next decision sees it

The runs and children that are started come first, so that nobody takes their numbers; then the
events of the run itself; what is cancelled comes last.
"""

from collections import deque

from flo.core.course import Course, CourseEvent
from flo.core.moment import Moment
from flo.core.runs import queue_run
from flo.core.state import State
from flo.model.base import Fact
from flo.model.ids import PAYLOAD_LENGTH_MAX, ActionName, Namespace, RunId
from flo.model.runs import RunCancelled, RunQueued
from flo.model.workflow_facts import (
    ChildCancelled,
    StepHeld,
    StepName,
    StepStarted,
    Walk,
    WalkName,
    WorkflowRun,
    WorkflowStarted,
)

EVENTS_PER_ADVANCE_MAX = 20_000


class Draft:
    def __init__(self, state: State, namespace: Namespace, course: Course, moment: Moment) -> None:
        self.course = course.copy()
        self.namespace, self.run_id = namespace, course.run_id
        self.space = state.space(namespace)
        self.moment = moment
        self.now_ms = moment.now_ms
        self.own: list[Fact] = []
        """The events of the run itself."""
        self.onward: deque[tuple[WalkName, StepName]] = deque()
        """The steps that walks have come to, and that are yet to begin."""
        self._queued: dict[RunId, RunQueued] = {}
        self._children: list[WorkflowStarted] = []
        self._cancelled: list[Fact] = []
        self._numbers: dict[ActionName, int] = {}

    def events(self) -> tuple[Fact, ...]:
        return (*self._queued.values(), *self._children, *self.own, *self._cancelled)

    def emit(self, event: CourseEvent) -> None:
        self.own.append(event)
        self.course.fold(event)

    def note(self, event: Fact) -> None:
        """A fact that the Course itself does not look at."""
        self.own.append(event)

    def start(self, walk: WalkName, now: Walk, detail: str = "") -> None:
        self.emit(
            StepStarted(
                namespace=self.namespace,
                run_id=self.run_id,
                walk=walk,
                now=now,
                at_ms=self.now_ms,
                detail=detail,
            )
        )

    def hold(self, walk: WalkName, now: Walk, detail: str = "") -> None:
        self.emit(
            StepHeld(
                namespace=self.namespace,
                run_id=self.run_id,
                walk=walk,
                now=now,
                at_ms=self.now_ms,
                detail=detail,
            )
        )

    def queue(self, action: ActionName, payload: bytes) -> RunId:
        """Queue a run of an action, unless the action refuses it."""
        number = max(self._numbers.get(action, 0), self.space.numbers.get(action, 0)) + 1
        run = queue_run(self.space, action, payload, self.moment, number)
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
