"""Counts what becomes of runs, workflow runs, steps, schedules and triggers, event by event.

It reads the events of a commit once they are durable. What an event does not say, such as since
when a run was ready, is looked up in the state.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from prometheus_client.registry import Collector

from flo.engine.namespaces.events import NamespaceDeleted
from flo.engine.runs.events import (
    RunCancelled,
    RunClaimed,
    RunCompleted,
    RunFailed,
    RunQueued,
    RunRequeued,
    RunTimedOut,
)
from flo.engine.runs.records import Timing
from flo.engine.schedules.events import ScheduleFired
from flo.engine.state import State
from flo.engine.workflows.events import StepEnded, WorkflowFinished, WorkflowStarted
from flo.model.base import Event
from flo.model.ids import Namespace, RunId
from flo.server.watch.series import BoundedCounts, BoundedDurations

SHORT_SECONDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 3_600.0)
LONG_SECONDS = (0.01, 0.1, 1.0, 10.0, 60.0, 600.0, 3_600.0, 6 * 3_600.0, 86_400.0, 7 * 86_400.0)
STEPS_SERIES_MAX = 500
"""Outcomes are chosen by users too."""

_BY_ACTION = ("namespace", "action")
_BY_WORKFLOW = ("namespace", "workflow")


class _Begun(NamedTuple):
    """A workflow run that has not ended."""

    workflow: str
    created_at_ms: int


_Count: TypeAlias = Callable[[Any], None]


class WorkMetrics:
    def __init__(self) -> None:
        self._state: Callable[[], State] = State
        self._begun: dict[tuple[Namespace, RunId], _Begun] = {}
        self._queued = BoundedCounts("flo_runs_queued", "Runs queued", _BY_ACTION)
        self._ended = BoundedCounts(
            "flo_runs_ended", "Runs that have ended", (*_BY_ACTION, "status"), STEPS_SERIES_MAX
        )
        self._retried = BoundedCounts(
            "flo_runs_retried", "Attempts that another follows", _BY_ACTION
        )
        self._waited = BoundedDurations(
            "flo_run_queue_seconds", "From ready to claimed", _BY_ACTION, SHORT_SECONDS
        )
        self._executed = BoundedDurations(
            "flo_run_execution_seconds",
            "Executing an attempt, by the clock of its worker",
            _BY_ACTION,
            SHORT_SECONDS,
        )
        self._started = BoundedCounts(
            "flo_workflow_runs_started", "Workflow runs started", (*_BY_WORKFLOW, "by")
        )
        self._finished = BoundedCounts(
            "flo_workflow_runs_ended", "Workflow runs that have ended", (*_BY_WORKFLOW, "status")
        )
        self._lasted = BoundedDurations(
            "flo_workflow_run_seconds", "From start to end of a run", _BY_WORKFLOW, LONG_SECONDS
        )
        self._steps = BoundedCounts(
            "flo_workflow_steps_ended",
            "Steps that have ended",
            (*_BY_WORKFLOW, "outcome"),
            STEPS_SERIES_MAX,
        )
        self._fired = BoundedCounts(
            "flo_schedules_fired", "Times that have come", (*_BY_WORKFLOW, "result")
        )
        self._counts: Mapping[type[Event], _Count] = {
            RunQueued: self._count_queued,
            RunClaimed: self._count_claimed,
            RunCompleted: self._count_completed,
            RunRequeued: self._count_requeued,
            RunFailed: self._count_failed,
            RunTimedOut: self._count_timed_out,
            RunCancelled: self._count_cancelled,
            WorkflowStarted: self._count_started,
            WorkflowFinished: self._count_finished,
            StepEnded: self._count_step,
            ScheduleFired: self._count_fired,
            NamespaceDeleted: self._forget,
        }

    def collectors(self) -> Iterator[Collector]:
        yield from (self._queued, self._ended, self._retried, self._waited, self._executed)
        yield from (self._started, self._finished, self._lasted, self._steps, self._fired)

    def begin(self, state: Callable[[], State]) -> None:
        """Know the workflow runs that were there before, and where runs are looked up."""
        self._state = state
        for namespace, space in state().spaces.items():
            for run_id, execution in space.executions.items():
                run = execution.run
                self._begun[namespace, run_id] = _Begun(run.workflow, run.created_at_ms)

    def committed(self, events: Sequence[Event]) -> None:
        counts = self._counts
        for event in events:
            count = counts.get(type(event))
            if count is not None:
                count(event)

    def live_workflow_runs(self) -> int:
        return len(self._begun)

    def _forget(self, event: NamespaceDeleted) -> None:
        self._begun = {key: one for key, one in self._begun.items() if key[0] != event.name}

    def _count_queued(self, event: RunQueued) -> None:
        self._queued.add(event.namespace, event.run.action)

    def _count_claimed(self, event: RunClaimed) -> None:
        space = self._state().spaces.get(event.namespace)
        run = space.runs.get(event.run_id) if space is not None else None
        if run is not None and run.attempt == event.attempt:
            waited_ms = max(event.at_ms - run.ready_at_ms, 0)
            self._waited.observe(waited_ms / 1_000, event.namespace, run.action)

    def _count_completed(self, event: RunCompleted) -> None:
        self._count_end(event.namespace, event.run_id, event.timing, "completed")

    def _count_failed(self, event: RunFailed) -> None:
        self._count_end(event.namespace, event.run_id, event.timing, "failed")

    def _count_timed_out(self, event: RunTimedOut) -> None:
        self._count_end(event.namespace, event.run_id, event.timing, "timed_out")

    def _count_cancelled(self, event: RunCancelled) -> None:
        self._count_end(event.namespace, event.run_id, None, "cancelled")

    def _count_end(
        self, namespace: Namespace, run_id: RunId, timing: Timing | None, status: str
    ) -> None:
        action = _action_of(run_id)
        self._ended.add(namespace, action, status)
        self._count_time(namespace, action, timing)

    def _count_requeued(self, event: RunRequeued) -> None:
        action = _action_of(event.run_id)
        self._retried.add(event.namespace, action)
        self._count_time(event.namespace, action, event.timing)

    def _count_time(self, namespace: Namespace, action: str, timing: Timing | None) -> None:
        if timing is not None and timing.took_ms is not None:
            self._executed.observe(timing.took_ms / 1_000, namespace, action)

    def _count_started(self, event: WorkflowStarted) -> None:
        run = event.run
        self._begun[event.namespace, run.run_id] = _Begun(run.workflow, run.created_at_ms)
        self._started.add(event.namespace, run.workflow, run.triggered_by)

    def _count_finished(self, event: WorkflowFinished) -> None:
        self._finished.add(event.namespace, event.workflow, event.ending.status)
        begun = self._begun.pop((event.namespace, event.run_id), None)
        if begun is not None:
            lasted_ms = max(event.at_ms - begun.created_at_ms, 0)
            self._lasted.observe(lasted_ms / 1_000, event.namespace, event.workflow)

    def _count_step(self, event: StepEnded) -> None:
        begun = self._begun.get((event.namespace, event.run_id))
        if begun is not None:
            self._steps.add(event.namespace, begun.workflow, event.outcome)

    def _count_fired(self, event: ScheduleFired) -> None:
        result = "skipped" if event.run_id is None else "started"
        self._fired.add(event.namespace, event.workflow, result)


def _action_of(run_id: RunId) -> str:
    """A run is called after its action."""
    return run_id.rpartition("-")[0]
