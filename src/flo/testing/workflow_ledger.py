"""What clients were told of workflow runs, held against what is durable at that moment."""

from collections.abc import Sequence

from flo.model.ids import Namespace, RunId
from flo.model.workflow_facts import ENDED
from flo.model.workflows import (
    Explanation,
    HistoryView,
    StartWorkflow,
    WorkflowRunPage,
    WorkflowRunView,
)
from flo.testing.facts import Facts
from flo.testing.invariants import Checks, Invariant
from flo.testing.witness import Witness
from flo.testing.workflow_tale import WorkflowTale

WAKE_S_MAX = 5.0
OUTCOMES = frozenset({"action_completed", "child_completed"})
"""The lines of a history that tell of an outcome."""


class WorkflowLedger:
    def __init__(self, checks: Checks, facts: Facts, witness: Witness) -> None:
        self._hold = checks.hold
        self._facts = facts
        self._workflows = facts.workflows
        self._witness = witness
        self._made: set[tuple[Namespace, RunId]] = set()

    def before(self) -> int:
        return self._facts.position

    def begun(self, command: StartWorkflow, run_id: RunId, duplicate: bool) -> None:
        """A start was answered: its run is durable, and as it was asked for."""
        tale = self.durable(command.namespace, run_id)
        made = tale.made
        if duplicate:
            key = (command.namespace, command.name, command.idempotency_key or "")
            known = self._workflows.by_key.get(key) == run_id
            self._hold(Invariant.ONE_RUN_PER_KEY, known, command, tale)
            return
        self._hold(Invariant.ONE_MAKER, tale.key not in self._made, command, tale)
        self._made.add(tale.key)
        kept = (made.workflow, made.input, made.idempotency_key) == (
            command.name,
            command.input,
            command.idempotency_key,
        )
        self._hold(Invariant.INPUT_KEPT, kept, command, made)
        self._hold(Invariant.INPUT_KEPT, command.run_id in (None, run_id), command, made)

    def durable(self, namespace: Namespace, run_id: RunId) -> WorkflowTale:
        tale = self._workflows.runs.get((namespace, run_id))
        self._hold(Invariant.DURABLE_FIRST, tale is not None, run_id, "was told of")
        assert tale is not None
        return tale

    def unknown(self, namespace: Namespace, before: int, run_id: RunId) -> None:
        tale = self._workflows.runs.get((namespace, run_id))
        was_there = tale is not None and tale.began_at <= before
        self._hold(Invariant.ANSWERS_FRESH, not was_there, run_id, "is said not to exist;", tale)

    def viewed(self, before: int, view: WorkflowRunView) -> None:
        tale = self.durable(view.namespace, view.run_id)
        self._hold(Invariant.INPUT_KEPT, view.input == tale.made.input, view, tale)
        self._check_status(before, tale, view.status in ENDED, view.terminal)

    def explained(self, namespace: Namespace, before: int, answer: Explanation) -> None:
        tale = self.durable(namespace, answer.run_id)
        self._check_status(before, tale, answer.status in ENDED, None)

    def refused_as_ended(self, namespace: Namespace, run_id: RunId) -> None:
        """It has ended, or is being undone, at the time of the answer at the latest."""
        tale = self.durable(namespace, run_id)
        ended = not tale.is_live or tale.rolled_back
        self._hold(Invariant.REFUSALS_EXPLAINED, ended, tale, "is said to have ended")

    def not_ended(self, namespace: Namespace, run_id: RunId) -> None:
        """A wait without any trouble on the way was in vain."""
        tale = self.durable(namespace, run_id)
        recent = tale.is_live or self._witness.now_s() - tale.ended_s < WAKE_S_MAX
        self._hold(Invariant.WAITS_WAKE, recent, tale)

    def heard_of_end(self, namespace: Namespace, run_id: RunId, asked_s: float) -> None:
        """A wait without any trouble on the way was answered."""
        tale = self.durable(namespace, run_id)
        waited_s = self._witness.now_s() - max(asked_s, tale.ended_s)
        self._hold(Invariant.WAITS_WAKE, waited_s < WAKE_S_MAX, waited_s, tale)

    def listed(self, namespace: Namespace, page: WorkflowRunPage) -> None:
        numbers = [self.durable(namespace, item.run_id).made.number for item in page.items]
        in_order = numbers == sorted(set(numbers), reverse=True)
        self._hold(Invariant.LISTS_WHOLE, in_order, numbers)

    def whole_history(self, namespace: Namespace, run_id: RunId, lines: list[HistoryView]) -> None:
        """All of the history of a run that has ended."""
        tale = self.durable(namespace, run_id)
        shown = sum(line.type in OUTCOMES for line in lines)
        ends = [line.type for line in lines if line.type in _LAST]
        whole = shown == tale.outcomes and len(ends) == 1 and lines[-1].type == ends[0]
        self._hold(Invariant.HISTORIES_WHOLE, whole, shown, ends, tale.outcomes, tale)

    def whole_list(self, namespace: Namespace, run_ids: Sequence[RunId]) -> None:
        """Of all the runs there are, once nothing happens any more."""
        told = [
            tale.run_id for tale in self._workflows.runs.values() if tale.namespace == namespace
        ]
        self._hold(Invariant.LISTS_WHOLE, list(run_ids) == told[::-1], run_ids, told)

    def _check_status(
        self, before: int, tale: WorkflowTale, ended: bool, terminal: str | None
    ) -> None:
        """It is shown as it has been at some time since the question was asked."""
        if ended:
            self._hold(Invariant.ANSWERS_FRESH, not tale.is_live, "is said to have ended;", tale)
            if terminal is not None and tale.ending is not None:
                same = terminal == tale.ending.terminal
                self._hold(Invariant.ANSWERS_FRESH, same, terminal, tale)
        else:
            still = tale.is_live or tale.ended_at > before
            self._hold(Invariant.ANSWERS_FRESH, still, "is said to be under way;", tale)


_LAST = frozenset(
    {"workflow_completed", "workflow_failed", "workflow_cancelled", "workflow_timed_out"}
)
