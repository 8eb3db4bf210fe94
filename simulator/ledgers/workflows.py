"""What clients were answered about workflow runs, checked against what is durable then."""

from collections.abc import Sequence

from flo.model.executions.history import HistoryView
from flo.model.executions.steps import CallView
from flo.model.ids import Namespace, RunId
from flo.model.workflows import (
    ENDED,
    Explanation,
    StartWorkflow,
    WorkflowRunPage,
    WorkflowRunView,
)
from simulator.checks.invariants import Checks, Invariant
from simulator.checks.observer import Observer
from simulator.reference.log import ReferenceModel
from simulator.reference.workflow_timeline import WorkflowTimeline

WAKE_S_MAX = 5.0
OUTCOMES = frozenset({"action_completed", "child_completed"})
"""The entries of a history that are about an outcome."""


class WorkflowLedger:
    def __init__(self, checks: Checks, reference: ReferenceModel, observer: Observer) -> None:
        self._hold = checks.hold
        self._reference = reference
        self._workflows = reference.workflows
        self._observer = observer
        self._made: set[tuple[Namespace, RunId]] = set()

    def before(self) -> int:
        return self._reference.position

    def begun(self, command: StartWorkflow, run_id: RunId, duplicate: bool) -> None:
        """A start was answered: its run is durable, and as it was asked for."""
        timeline = self.durable(command.namespace, run_id)
        made = timeline.made
        if duplicate:
            key = (command.namespace, command.name, command.idempotency_key or "")
            known = self._workflows.by_key.get(key) == run_id
            self._hold(Invariant.ONE_RUN_PER_KEY, known, command, timeline)
            return
        self._hold(Invariant.ONE_MAKER, timeline.key not in self._made, command, timeline)
        self._made.add(timeline.key)
        kept = (made.workflow, made.input, made.idempotency_key, made.subject) == (
            command.name,
            command.input,
            command.idempotency_key,
            command.subject,
        )
        self._hold(Invariant.INPUT_KEPT, kept, command, made)
        self._hold(Invariant.INPUT_KEPT, command.run_id in (None, run_id), command, made)

    def durable(self, namespace: Namespace, run_id: RunId) -> WorkflowTimeline:
        timeline = self._workflows.runs.get((namespace, run_id))
        self._hold(Invariant.DURABLE_FIRST, timeline is not None, run_id, "was acknowledged")
        assert timeline is not None
        return timeline

    def unknown(self, namespace: Namespace, before: int, run_id: RunId) -> None:
        timeline = self._workflows.runs.get((namespace, run_id))
        was_there = timeline is not None and timeline.began_at <= before
        self._hold(
            Invariant.ANSWERS_FRESH, not was_there, run_id, "is said not to exist;", timeline
        )

    def viewed(self, before: int, view: WorkflowRunView) -> None:
        timeline = self.durable(view.namespace, view.run_id)
        self._hold(Invariant.INPUT_KEPT, view.input == timeline.made.input, view, timeline)
        self._check_status(before, timeline, view.status in ENDED, view.terminal)

    def explained(self, namespace: Namespace, before: int, answer: Explanation) -> None:
        timeline = self.durable(namespace, answer.run_id)
        self._check_status(before, timeline, answer.status in ENDED, None)

    def refused_as_ended(self, namespace: Namespace, run_id: RunId) -> None:
        """It has ended, or is being undone, at the time of the answer at the latest."""
        timeline = self.durable(namespace, run_id)
        ended = not timeline.is_live or timeline.rolled_back
        self._hold(Invariant.REFUSALS_EXPLAINED, ended, timeline, "is said to have ended")

    def not_ended(self, namespace: Namespace, run_id: RunId) -> None:
        """A wait without any trouble on the way was in vain."""
        timeline = self.durable(namespace, run_id)
        recent = timeline.is_live or self._observer.now_s() - timeline.ended_s < WAKE_S_MAX
        self._hold(Invariant.WAITS_WAKE, recent, timeline)

    def heard_of_end(self, namespace: Namespace, run_id: RunId, asked_s: float) -> None:
        """A wait without any trouble on the way was answered."""
        timeline = self.durable(namespace, run_id)
        waited_s = self._observer.now_s() - max(asked_s, timeline.ended_s)
        self._hold(Invariant.WAITS_WAKE, waited_s < WAKE_S_MAX, waited_s, timeline)

    def listed(self, namespace: Namespace, page: WorkflowRunPage) -> None:
        numbers = [self.durable(namespace, item.run_id).made.number for item in page.items]
        in_order = numbers == sorted(set(numbers), reverse=True)
        self._hold(Invariant.LISTS_WHOLE, in_order, numbers)

    def whole_history(self, namespace: Namespace, run_id: RunId, lines: list[HistoryView]) -> None:
        """All of the history of a run that has ended; after its end, only late reports come."""
        timeline = self.durable(namespace, run_id)
        shown = sum(line.type in OUTCOMES for line in lines)
        ends = [line.type for line in lines if line.type in _LAST]
        last = [line.type for line in lines if line.type != LATE_REPORT][-1:]
        whole = shown == timeline.outcomes and len(ends) == 1 and last == ends
        self._hold(Invariant.HISTORIES_WHOLE, whole, shown, ends, timeline.outcomes, timeline)

    def all_steps(self, namespace: Namespace, run_id: RunId, calls: list[CallView]) -> None:
        """All calls of a run that has ended."""
        timeline = self.durable(namespace, run_id)
        ended = [call for call in calls if call.run_id is not None and call.outcome is not None]
        ids = {call.run_id for call in ended}
        whole = len(ids) == len(ended) == timeline.outcomes
        over = all(call.ended_at_ms is not None for call in calls)
        self._hold(Invariant.STEPS_TOLD, whole and over, calls, timeline.outcomes, timeline)

    def whole_list(self, namespace: Namespace, run_ids: Sequence[RunId]) -> None:
        """Of all the runs there are, once nothing happens any more."""
        expected = [
            timeline.run_id
            for timeline in self._workflows.runs.values()
            if timeline.namespace == namespace
        ]
        self._hold(Invariant.LISTS_WHOLE, list(run_ids) == expected[::-1], run_ids, expected)

    def _check_status(
        self, before: int, timeline: WorkflowTimeline, ended: bool, terminal: str | None
    ) -> None:
        """It is shown as it has been at some time since it was asked for."""
        if ended:
            self._hold(
                Invariant.ANSWERS_FRESH, not timeline.is_live, "is said to have ended;", timeline
            )
            if terminal is not None and timeline.ending is not None:
                same = terminal == timeline.ending.terminal
                self._hold(Invariant.ANSWERS_FRESH, same, terminal, timeline)
        else:
            still = timeline.is_live or timeline.ended_at > before
            self._hold(Invariant.ANSWERS_FRESH, still, "is said to be under way;", timeline)


LATE_REPORT = "late_report"
_LAST = frozenset(
    {"workflow_completed", "workflow_failed", "workflow_cancelled", "workflow_timed_out"}
)
