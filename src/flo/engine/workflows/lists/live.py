"""The workflow runs under way in a namespace, and the indexes by which lists of them are read.

    by status                   numbers of runs
    by workflow and status      numbers of runs
    by search attribute         numbers of runs that have a value, as tags say it
    by subject                  the same

Executions are put in and taken out by their ids; `note_status` says that one may have changed. The
indexes follow when they are read, or when many have changed: a run that comes and goes between two
lists costs them nothing.
"""

from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import groupby
from typing import Any

from flo.engine.lists.numbers import NumbersByName, NumberSet
from flo.engine.workflows.execution import Execution
from flo.engine.workflows.lists.tags import tags_of_run
from flo.model.ids import RunId
from flo.model.workflows import MAIN, BranchPhase, WorkflowName, WorkflowStatus

LIVE = (WorkflowStatus.PENDING, WorkflowStatus.WAITING)
STALE_MAX = 500
"""So many runs may have changed before the indexes follow."""


class _ExecutionsInStatus:
    """The numbers of the runs in one status."""

    __slots__ = ("all", "of_workflow")

    def __init__(self) -> None:
        self.all = NumberSet()
        self.of_workflow = NumbersByName()

    def add(self, workflow: WorkflowName, number: int) -> None:
        self.all.add(number)
        self.of_workflow.add(workflow, number)

    def remove(self, workflow: WorkflowName, number: int) -> None:
        self.all.remove(number)
        self.of_workflow.remove(workflow, number)

    def below(self, workflow: WorkflowName | None, number: int) -> Iterator[int]:
        numbers = self.all if workflow is None else self.of_workflow.get(workflow, NOTHING)
        return numbers.below(number)


class LiveExecutions(dict[RunId, Execution]):
    def __init__(self) -> None:
        super().__init__()
        self._by_number: dict[int, Execution] = {}
        self._pending = _ExecutionsInStatus()
        self._waiting = _ExecutionsInStatus()
        self._tagged: dict[str, NumberSet | int] = {}
        """A value that a single run has leads to its number."""
        self._stale: dict[RunId, Execution] = {}
        """Those that have changed since the indexes followed."""
        self.length = 0
        """About how many bytes of memory they take."""

    def __setitem__(self, run_id: RunId, execution: Execution) -> None:
        assert run_id not in self
        super().__setitem__(run_id, execution)
        self.note_status(execution)

    def __delitem__(self, run_id: RunId) -> None:
        execution = self[run_id]
        self.length -= execution.counted_length
        super().__delitem__(run_id)
        if execution.listed is None:  # it came and went unnoticed
            self._stale.pop(run_id, None)
        else:
            self._stale[run_id] = execution

    def pop(self, *arguments: Any) -> Any:
        raise NotImplementedError("the indexes would not follow: use del")

    def note_status(self, execution: Execution) -> None:
        """Something has happened in it."""
        self._stale[execution.run_id] = execution
        self.note_length(execution)
        if len(self._stale) > STALE_MAX:
            self._catch_up()

    def note_length(self, execution: Execution) -> None:
        """It may take more memory than before, or less."""
        self.length += execution.length - execution.counted_length
        execution.counted_length = execution.length

    def in_status(
        self, workflow: WorkflowName | None, status: WorkflowStatus | None, below: int
    ) -> Iterator[tuple[int, Execution]]:
        """The runs under a number, the newest first: of a workflow or all, in a status or any."""
        self._catch_up()
        statuses = LIVE if status is None else [status] if status in LIVE else []
        numbers = merge(
            *(self._in_status(one).below(workflow, below) for one in statuses), reverse=True
        )
        return ((number, self._by_number[number]) for number in numbers)

    def tagged(self, tags: Iterable[str], below: int) -> Iterator[tuple[int, Execution]]:
        """The runs under a number that have one of these tags, the newest first."""
        self._catch_up()
        found = [_below(self._tagged[tag], below) for tag in tags if tag in self._tagged]
        for number, _ in groupby(merge(*found, reverse=True)):
            yield number, self._by_number[number]

    def _catch_up(self) -> None:
        for run_id, execution in self._stale.items():
            before = execution.listed
            now = status_of(execution) if run_id in self else None
            if before is None and now is not None:
                self._add_run(execution)
            if before is not now:
                run = execution.run
                if before is not None:
                    self._in_status(before).remove(run.workflow, run.number)
                if now is not None:
                    self._in_status(now).add(run.workflow, run.number)
            if before is not None and now is None:
                self._remove_run(execution)
            execution.listed = now
        self._stale.clear()

    def _add_run(self, execution: Execution) -> None:
        run = execution.run
        self._by_number[run.number] = execution
        for tag in tags_of_run(run):
            self._add_tag(tag, run.number)

    def _remove_run(self, execution: Execution) -> None:
        run = execution.run
        del self._by_number[run.number]
        for tag in tags_of_run(run):
            self._remove_tag(tag, run.number)

    def _add_tag(self, tag: str, number: int) -> None:
        numbers = self._tagged.get(tag)
        if numbers is None:
            self._tagged[tag] = number
        elif isinstance(numbers, NumberSet):
            numbers.add(number)
        else:
            both = self._tagged[tag] = NumberSet()
            both.add(numbers)
            both.add(number)

    def _remove_tag(self, tag: str, number: int) -> None:
        numbers = self._tagged[tag]
        if isinstance(numbers, NumberSet):
            numbers.remove(number)
        if not isinstance(numbers, NumberSet) or not numbers:
            del self._tagged[tag]

    def _in_status(self, status: WorkflowStatus) -> _ExecutionsInStatus:
        return self._pending if status is WorkflowStatus.PENDING else self._waiting


NOTHING = NumberSet()


def status_of(execution: Execution) -> WorkflowStatus:
    """Pending before its first step; then it waits, for between two waits no time passes."""
    main = execution.branches.get(MAIN)
    is_new = main is None or (main.phase is BranchPhase.BETWEEN and main.until_ms is not None)
    return WorkflowStatus.PENDING if is_new and not execution.ending else WorkflowStatus.WAITING


def _below(numbers: NumberSet | int, below: int) -> Iterator[int]:
    if isinstance(numbers, NumberSet):
        return numbers.below(below)
    return iter((numbers,) if numbers < below else ())
