"""A recording: all that the archive has of an execution, and the definition it went by."""

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from flo.engine.workflows.calls.log import Outputs
from flo.engine.workflows.records import (
    Branch,
    CallParts,
    CallRecord,
    ControlRecord,
    HistoryEntry,
    Signal,
    WorkflowRecord,
)
from flo.model.ids import RunId
from flo.model.views.attempts import AttemptEnd
from flo.model.workflows import BranchName, StepName
from flo.workflow.definition import Definition

Entry: TypeAlias = CallRecord | Signal | ControlRecord


class Diverged(Exception):
    """The replay has come to where the recording does not go on so."""


class Recording(NamedTuple):
    definition: Definition
    record: WorkflowRecord
    history: tuple[HistoryEntry, ...]
    """All of it."""
    calls: tuple[CallRecord, ...]
    """Each with its output."""
    entries: tuple[Entry, ...]
    """Calls as they ended, signals and controls as they came: in one order."""


def recording_of(
    definition: Definition,
    record: WorkflowRecord,
    filed: Iterable[CallParts] = (),
    filed_history: Iterable[Sequence[HistoryEntry]] = (),
) -> Recording:
    """The recording of an execution that has ended; the parts that were filed, in their order."""
    parts = [*filed, record.calls]
    outputs = Outputs(record.results)
    calls = outputs.filled(call for part in parts for call in part.calls)
    history = [entry for part in filed_history for entry in part]
    placed: dict[int, Entry] = {}
    for part in parts:
        for signal in part.signals:
            placed[signal.order] = signal
        for control in part.controls:
            placed[control.order] = control
    ahead = deque(calls)
    entries = tuple(
        placed[order] if order in placed else ahead.popleft()
        for order in range(len(calls) + len(placed))
    )
    return Recording(definition, record, (*history, *record.history), calls, entries)


class CallsAhead:
    """The calls that are yet to come, branch by branch."""

    def __init__(self, calls: Iterable[CallRecord], error_code: str | None = None) -> None:
        self.error_code = error_code
        """Why the execution has failed, if it has."""
        self._of_branch: dict[BranchName, deque[CallRecord]] = {}
        self._refused: Counter[BranchName] = Counter()
        """How many calls of a branch were refused in the move under way; they end with it."""
        for call in calls:
            self._of_branch.setdefault(call.branch, deque()).append(call)

    def next(self, branch: BranchName) -> CallRecord | None:
        """The call under way on a branch, or the one that comes next."""
        ahead, refused = self._of_branch.get(branch, ()), self._refused[branch]
        return ahead[refused] if refused < len(ahead) else None

    def unknown(self, run_id: RunId) -> AttemptEnd | None:
        """How an attempt ended of a run under way, if nobody knows what came of it."""
        ahead = (calls[0] for calls in self._of_branch.values() if calls)
        return next((call.unknown for call in ahead if call.run_id == run_id), None)

    def begun(self, branch: BranchName, now: Branch) -> CallRecord:
        """The call that a branch begins now."""
        call = self.next(branch)
        if call is None or not is_at(call, now):
            raise Diverged(f"branch {branch!r} begins {_place(now)}, not {call}")
        if call.run_id is None:
            self._refused[branch] += 1
        return call

    def ended(self, call: CallRecord) -> None:
        ahead = self._of_branch.get(call.branch)
        known = ahead[0] if ahead else None
        if ahead is None or known is None or _attempt_of(known) != _attempt_of(call):
            raise Diverged(f"{call} has ended, not {known}")
        ahead.popleft()
        self._refused[call.branch] -= bool(self._refused[call.branch])


def is_at(call: CallRecord, now: Branch) -> bool:
    """Whether a call is one of the attempt that a branch is at."""
    return _attempt_of(call) == _attempt_of(now)


def _attempt_of(one: CallRecord | Branch) -> tuple[StepName, int, int]:
    return one.step, one.visit, one.attempt


def _place(now: Branch) -> str:
    return f"attempt {now.attempt} at step {now.step!r}, visit {now.visit}"
