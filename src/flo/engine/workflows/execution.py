"""A workflow execution: its branches, the results of its steps, its signals.

It is changed by folding the events of its run and by nothing else. Only `items` is filled in while
it advances: what is there follows from the log and can be computed again.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from msgspec.structs import replace

from flo.engine.workflows.calls.log import WAITS, CallLog, ItemOutputs
from flo.engine.workflows.events import (
    ActionEnded,
    AttemptLeftUnknown,
    BranchClosed,
    BranchEnded,
    BranchOpened,
    CallNotMade,
    HistoryFiled,
    RollbackBegan,
    SignalMatched,
    SignalReceived,
    SignalTimedOut,
    StepEnded,
    StepHeld,
    StepStarted,
    StepUndone,
    WorkflowAdmitted,
    WorkflowPaused,
    WorkflowResumed,
)
from flo.engine.workflows.records import (
    Branch,
    CallRecord,
    ControlKind,
    Ending,
    HistoryEntry,
    Signal,
    StepResult,
    WorkflowRun,
    begins_at_once,
    is_asked_for,
)
from flo.model.errors import TIMEOUT_CODE
from flo.model.storage.since import Since
from flo.model.workflows import MAIN, BranchName, BranchPhase, StepName, WorkflowStatus
from flo.workflow.definition import Definition
from flo.workflow.limits import pace_of
from flo.workflow.outcome import SUCCESS, TIMEOUT
from flo.workflow.steps import ForEachStep, ParallelStep, RunStep, Step

HISTORY_PART_LENGTH = 200
"""So many entries are in each part of a long history."""

COMPENSATION = "~"
"""The branch that compensates."""

EXECUTION_LENGTH = 4_096
ENTRY_LENGTH = 512
"""About how many bytes of memory an execution takes, and each entry of its history."""

NO_BRANCH = Branch(step="", phase=BranchPhase.BETWEEN)
"""What a branch that is not there waits for: nothing."""

WAITS_FOR_TIME = frozenset((BranchPhase.SLEEP, BranchPhase.POLL))

BranchEvent: TypeAlias = (
    StepStarted
    | StepHeld
    | ActionEnded
    | AttemptLeftUnknown
    | CallNotMade
    | StepEnded
    | BranchOpened
    | BranchEnded
    | BranchClosed
    | SignalMatched
    | SignalTimedOut
)
EventOfAllBranches: TypeAlias = (
    SignalReceived | WorkflowPaused | WorkflowResumed | RollbackBegan | StepUndone | HistoryFiled
)
ExecutionEvent: TypeAlias = BranchEvent | EventOfAllBranches | WorkflowAdmitted


class Items(NamedTuple):
    """The list of a forEach step and the input of its run, decoded once for all items."""

    values: list[Any] | None
    input: Any


class Execution:
    __slots__ = (
        "admitted",
        "behind_ms",
        "branches",
        "calls",
        "counted_length",
        "definition",
        "done",
        "due_at_ms",
        "ending",
        "ending_since",
        "event_count",
        "history",
        "history_parts",
        "items",
        "length",
        "listed",
        "outputs",
        "pace",
        "paused",
        "paused_since",
        "results",
        "run",
        "run_id",
        "signals",
        "since",
        "step_count",
        "steps_since_wait",
        "to_undo",
        "undone",
        "visits",
        "waited",
    )

    def __init__(self, run: WorkflowRun, definition: Definition) -> None:
        self.run, self.run_id = run, run.run_id
        self.definition = definition
        self.pace = pace_of(definition.limits, run.limits)
        self.step_count = self.event_count = 0
        """How many steps have ended, and how many events there were."""
        self.behind_ms = 0
        """When it would have ended its steps if it had kept to its pace."""
        self.branches: dict[BranchName, Branch] = {}
        self.results: dict[StepName, StepResult] = dict(run.results)
        self.outputs: dict[BranchName, bytes] = {}
        """What the branches and items of joins under way have come to."""
        self.items: dict[tuple[BranchName, StepName], Items] = {}
        self.visits: dict[StepName, int] = {}
        """How often it has come to each step."""
        self.signals: list[Signal] = []
        """Those that no step has waited for yet."""
        self.done: list[StepName] = []
        """The steps that have succeeded and can be undone, in order; also those that may have, if
        they ask for that."""
        self.admitted = run.limit_key is None
        """Whether it may run; without a limit, it always may."""
        self.paused = False
        self.paused_since: Since | None = None
        self.since: Since | None = None
        """Since when it runs, or waits for a permit."""
        self.ending_since: Since | None = None
        self.listed: WorkflowStatus | None = None
        """The status under which the indexes of lists have it; they keep it."""
        self.ending: Ending | None = None
        """How the run ends, while its steps are undone."""
        self.to_undo: tuple[StepName, ...] = ()
        self.undone: tuple[StepName, ...] = ()
        self.due_at_ms: int | None = None
        """The time under which it stands in the queue of what falls due."""
        self.steps_since_wait: dict[BranchName, int] = {}
        """How many steps a branch has ended since it last waited for something outside: a worker, a
        signal, a time. One that begins counts on from the branch that has opened it."""
        self.waited = False
        """Whether it has ever waited for something outside."""
        self.calls = CallLog()
        self.history: list[HistoryEntry] = []
        self.history_parts = 0
        self.length = EXECUTION_LENGTH + len(run.input)
        """About how many bytes of memory it takes."""
        self.counted_length = 0
        """As much of that as the sum over all live executions has in it."""

    def step(self, branch: BranchName) -> Step | None:
        """The step that a branch is at; None for an item and for the compensation."""
        if branch == COMPENSATION or is_item(self.definition, branch):
            return None
        return step_at(self.definition, branch, self.branches[branch].step)

    def item_outputs(self) -> ItemOutputs:
        """What the items of joins under way have come to."""
        return ItemOutputs(self.outputs, self.visits)

    def next_at_ms(self) -> int | None:
        """When something of it falls due; nothing does while it is paused."""
        if self.paused:
            return None
        next_at_ms: int | None = None
        for branch in self.branches.values():
            if branch.until_ms is not None and (next_at_ms is None or branch.until_ms < next_at_ms):
                next_at_ms = branch.until_ms
        return next_at_ms

    def fold(self, event: ExecutionEvent) -> None:
        self.event_count += 1
        EXECUTION_FOLDS[type(event)](self, event)
        self.length += ENTRY_LENGTH + len(getattr(event, "output", None) or b"")

    def measure(self) -> None:
        """Find out anew how many bytes of memory it takes."""
        payloads = [self.run.input, *self.outputs.values()]
        payloads += [result.output for result in self.results.values()]
        payloads += [signal.payload for signal in self.signals]
        entries = len(self.history) + len(self.calls.ended)
        self.length = EXECUTION_LENGTH + ENTRY_LENGTH * entries + sum(map(len, payloads))

    def _start_step(self, event: StepStarted) -> None:
        if event.branch != COMPENSATION:
            self.visits[event.now.step] = event.now.visit
        self._branch_on(event)

    def _branch_on(self, event: StepStarted | StepHeld) -> None:
        now = event.now
        self.branches[event.branch] = now
        self._note_begin(event.at_ms)
        if now.phase in WAITS:
            began_ms = event.at_ms - self.run.created_at_ms
            self.calls.begin(event.branch, now, began_ms, event.detail)
        if now.until_ms is not None and now.phase in WAITS_FOR_TIME and now.until_ms > event.at_ms:
            self._wait_outside(event.branch)

    def _note_begin(self, at_ms: int) -> None:
        calls = self.calls
        if not calls.begun:
            calls.begun = True
            if not begins_at_once(self.run):
                calls.control(ControlKind.BEGUN, at_ms)

    def _wait_outside(self, branch: BranchName) -> None:
        """A branch waits for something outside, and so do the joins that wait for the branch."""
        self.waited = True
        self.steps_since_wait.pop(branch, None)
        while branch != MAIN:
            branch = parent_branch(branch)
            self.steps_since_wait.pop(branch, None)

    def _end_action(self, event: ActionEnded) -> None:
        self._keep_unknown(event.branch)
        if event.outside:
            self._wait_outside(event.branch)
        branch = self.branches[event.branch]
        self.branches[event.branch] = replace(branch, awaited=None, until_ms=None)
        self.calls.end(
            event.branch,
            event.at_ms - self.run.created_at_ms,
            outcome=event.outcome,
            error=event.error,
            error_code=event.error_code,
            retryable=event.retryable,
            output=event.output,
            inside=not event.outside,
        )

    def _note_call(self, event: CallNotMade) -> None:
        call = CallRecord(
            branch=event.branch,
            step=event.step,
            visit=event.visit,
            attempt=event.attempt,
            began_ms=event.at_ms - self.run.created_at_ms,
            outcome=event.outcome,
            error=event.error,
            error_code=event.error_code,
            retryable=event.retryable,
            output=b"" if event.error_code is not None else None,
            target=event.target,
        )
        self.calls.add(call)

    def _leave_unknown(self, event: AttemptLeftUnknown) -> None:
        self.calls.leave_unknown(event.branch, event.end)

    def _keep_unknown(self, branch: BranchName) -> None:
        """What may have been done is to be undone, as what was done at this moment."""
        if self.calls.is_unknown(branch):
            self.done.append(self.branches[branch].step)

    def _end_step(self, event: StepEnded) -> None:
        self.step_count += 1
        self.behind_ms = self.pace.after_step(self.behind_ms, event.at_ms)
        steps_since_wait = self.steps_since_wait
        steps_since_wait[event.branch] = steps_since_wait.get(event.branch, 0) + 1
        result = StepResult(
            outcome=event.outcome,
            output=event.output,
            error=event.error,
            at_ms=event.at_ms,
            error_code=event.error_code,
            retryable=event.retryable,
        )
        branch = self.branches[event.branch]
        self._keep_result(event.step, result, branch.visit)
        if branch.phase is BranchPhase.JOIN:
            self._forget_outputs(event)
        elif branch.phase is BranchPhase.SLEEP:
            ended_ms = event.at_ms - self.run.created_at_ms
            self.calls.end(event.branch, ended_ms, outcome=event.outcome)
        self.branches[event.branch] = Branch(
            step=event.step, phase=BranchPhase.BETWEEN, began_at_ms=branch.began_at_ms
        )
        step = step_at(self.definition, event.branch, event.step)
        if isinstance(step, RunStep) and step.rollback is not None and event.outcome == "success":
            self.done.append(event.step)

    def _keep_result(self, step: StepName, result: StepResult, visit: int) -> None:
        before = self.results.pop(step, None)  # the last one that has ended stands last
        if before is not None:
            self.calls.keep_outputs(step, visit, before)
        self.results[step] = result

    def _forget_outputs(self, event: StepEnded) -> None:
        """A join has ended: what its branches have come to is in its output."""
        prefix = branch_under(event.branch, event.step, "")
        if not event.output:  # unless it could not be joined
            self.calls.keep_items(self.item_outputs())
        for name in [name for name in self.outputs if name.startswith(prefix)]:
            del self.outputs[name]

    def _end_branch(self, event: BranchEnded) -> None:
        del self.branches[event.branch]
        self.outputs[event.branch] = event.output
        parent = parent_branch(event.branch)
        steps, before = self.steps_since_wait.pop(event.branch, 0), self.steps_since_wait
        if parent in before:  # otherwise a branch of the join has waited for something outside
            before[parent] = max(before[parent], steps)
        join = self.branches[parent]
        self.branches[parent] = replace(
            join,
            succeeded=join.succeeded + event.succeeded,
            failed=join.failed + (not event.succeeded),
        )

    def _open_branch(self, event: BranchOpened) -> None:
        parent = parent_branch(event.branch)
        join = self.branches[parent]
        self.branches[parent] = replace(join, opened=join.opened + 1)
        if steps := self.steps_since_wait.get(parent):
            self.steps_since_wait[event.branch] = steps
        self.branches[event.branch] = Branch(
            step=event.step, phase=BranchPhase.BETWEEN, began_at_ms=event.at_ms
        )

    def _close_branch(self, event: BranchClosed) -> None:
        self._keep_unknown(event.branch)
        closed = self.branches.pop(event.branch, NO_BRANCH)
        self.steps_since_wait.pop(event.branch, None)
        ended_ms = event.at_ms - self.run.created_at_ms
        self.calls.close(event.branch, ended_ms)
        if closed.phase is BranchPhase.REST:  # its plan would have gone on
            self.calls.rest(event.branch, closed, ended_ms)

    def _receive(self, event: SignalReceived) -> None:
        self.length += len(event.signal.payload)
        self.signals.append(event.signal)
        self.calls.receive(event.signal)

    def _match(self, event: SignalMatched) -> None:
        self._wait_outside(event.branch)
        self.signals.remove(next(one for one in self.signals if one.type == event.signal_type))
        ended_ms = event.at_ms - self.run.created_at_ms
        self.calls.end(event.branch, ended_ms, outcome=SUCCESS)

    def _miss(self, event: SignalTimedOut) -> None:
        self._wait_outside(event.branch)
        branch = self.branches[event.branch]
        self.branches[event.branch] = replace(branch, phase=BranchPhase.BETWEEN, until_ms=None)
        error = f"no signal {event.signal_type!r} came in time"
        timed_out = StepResult(
            outcome=TIMEOUT,
            output=b"null",
            error=error,
            at_ms=event.at_ms,
            error_code=TIMEOUT_CODE,
        )
        self._keep_result(branch.step, timed_out, branch.visit)
        ended_ms = event.at_ms - self.run.created_at_ms
        self.calls.end(event.branch, ended_ms, outcome=TIMEOUT, error_code=TIMEOUT_CODE)

    def _pause(self, event: WorkflowPaused) -> None:
        self.paused = True
        self.calls.control(ControlKind.PAUSED, event.at_ms)

    def _resume(self, event: WorkflowResumed) -> None:
        self.paused = False
        self.calls.control(ControlKind.RESUMED, event.at_ms)

    def _begin_rollback(self, event: RollbackBegan) -> None:
        self.ending, self.to_undo, self.paused = event.ending, event.steps, False
        if is_asked_for(event.ending):
            self.calls.control(ControlKind.CANCELLED, event.at_ms)

    def _undo(self, event: StepUndone) -> None:
        self.to_undo = tuple(one for one in self.to_undo if one != event.step)
        self.branches.pop(COMPENSATION, None)
        if event.succeeded:
            self.undone = (*self.undone, event.step)

    def _admit(self, event: WorkflowAdmitted) -> None:
        self.admitted = True

    def _file(self, event: HistoryFiled) -> None:
        self.history_parts += 1
        self.history = self.history[HISTORY_PART_LENGTH:]
        self.calls.file()
        self.measure()


EXECUTION_FOLDS: dict[type[ExecutionEvent], Callable[[Execution, Any], None]] = {
    StepStarted: Execution._start_step,
    StepHeld: Execution._branch_on,
    ActionEnded: Execution._end_action,
    AttemptLeftUnknown: Execution._leave_unknown,
    CallNotMade: Execution._note_call,
    StepEnded: Execution._end_step,
    BranchOpened: Execution._open_branch,
    BranchEnded: Execution._end_branch,
    BranchClosed: Execution._close_branch,
    SignalReceived: Execution._receive,
    SignalMatched: Execution._match,
    SignalTimedOut: Execution._miss,
    WorkflowPaused: Execution._pause,
    WorkflowResumed: Execution._resume,
    RollbackBegan: Execution._begin_rollback,
    StepUndone: Execution._undo,
    WorkflowAdmitted: Execution._admit,
    HistoryFiled: Execution._file,
}


def parent_branch(branch: BranchName) -> BranchName:
    """The branch whose step has opened this one: of "prepare/email" it is the main branch."""
    return branch.rpartition("/")[0].rpartition("/")[0]


def join_step(branch: BranchName) -> StepName:
    """The name of the step that has opened a branch."""
    return branch.rpartition("/")[0].rpartition("/")[2]


def leaf_of(branch: BranchName) -> str:
    """The name of a branch, or the number of an item."""
    return branch.rpartition("/")[2]


def branch_under(parent: BranchName, step: StepName, name: str) -> BranchName:
    return f"{parent}/{step}/{name}" if parent else f"{step}/{name}"


def step_at(definition: Definition, branch: BranchName, name: StepName) -> Step | None:
    """The step of this name in the graph of this branch."""
    if branch in (MAIN, COMPENSATION):
        return definition.step_named(name)
    opener = opener_of(definition, branch)
    if not isinstance(opener, ParallelStep):
        return None  # an item has no steps of its own
    parallel = opener.parallel.branches[leaf_of(branch)]
    return parallel.start if name == leaf_of(branch) else parallel.steps.get(name)


def opener_of(definition: Definition, branch: BranchName) -> Step | None:
    """The step that has opened a branch."""
    return step_at(definition, parent_branch(branch), join_step(branch))


def is_item(definition: Definition, branch: BranchName) -> bool:
    """Whether a branch is one item of a list."""
    return branch not in (MAIN, COMPENSATION) and isinstance(
        opener_of(definition, branch), ForEachStep
    )


def find_step(definition: Definition, name: StepName) -> Step | None:
    """The step of this name, wherever in the graph it is."""
    found = definition.step_named(name)
    if found is not None:
        return found
    for step in (definition.start, *definition.steps.values()):
        if isinstance(step, ParallelStep):
            for own_name, parallel in step.parallel.branches.items():
                if name == own_name:
                    return parallel.start
                if name in parallel.steps:
                    return parallel.steps[name]
    return None
