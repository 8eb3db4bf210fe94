"""How far a workflow run has come: its walks, the results of its steps, its signals.

A Course is changed by the events of its run and by nothing else. The rules work on a copy of it:
they fold each event that they decide on into the copy, and so always see where they are.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from msgspec.structs import replace

from flo.model.workflow_facts import (
    MAIN,
    ActionEnded,
    Ending,
    HistoryEntry,
    HistoryFiled,
    Phase,
    RollbackBegan,
    Signal,
    SignalMatched,
    SignalReceived,
    SignalTimedOut,
    StepEnded,
    StepHeld,
    StepName,
    StepResult,
    StepStarted,
    StepUndone,
    Walk,
    WalkClosed,
    WalkEnded,
    WalkName,
    WalkOpened,
    WorkflowAdmitted,
    WorkflowFinished,
    WorkflowPaused,
    WorkflowResumed,
    WorkflowRun,
)
from flo.workflow.definition import Definition, ForEachStep, ParallelStep, RunStep, Step

HISTORY_PART_LENGTH = 200
"""So many entries are in each part of a long history."""

UNDO = "~"
"""The walk that undoes."""

AT_REST = Walk(step="", phase=Phase.BETWEEN)
"""A walk that is not there awaits nothing."""

WalkEvent: TypeAlias = (
    StepStarted
    | StepHeld
    | ActionEnded
    | StepEnded
    | WalkOpened
    | WalkEnded
    | WalkClosed
    | SignalMatched
    | SignalTimedOut
)
CourseEvent: TypeAlias = (
    WalkEvent
    | SignalReceived
    | WorkflowPaused
    | WorkflowResumed
    | RollbackBegan
    | StepUndone
    | WorkflowFinished
    | HistoryFiled
    | WorkflowAdmitted
)


class Items(NamedTuple):
    """The list of a forEach step under way, and the input of its run: both decoded, once for all
    of the items. They follow from what is in the log, and are found again when they are missing."""

    values: list[Any] | None
    input: Any


class Course:
    __slots__ = (
        "admitted",
        "definition",
        "done",
        "due_at_ms",
        "ending",
        "history",
        "history_parts",
        "hops",
        "hops_at_ms",
        "items",
        "outputs",
        "paused",
        "results",
        "run",
        "run_id",
        "signals",
        "to_undo",
        "undone",
        "walks",
    )

    def __init__(self, run: WorkflowRun, definition: Definition) -> None:
        self.run, self.run_id = run, run.run_id
        self.definition = definition
        self.walks: dict[WalkName, Walk] = {}
        self.results: dict[StepName, StepResult] = dict(run.results)
        self.outputs: dict[WalkName, bytes] = {}
        """What the branches and items of joins under way have come to."""
        self.items: dict[tuple[WalkName, StepName], Items] = {}
        self.signals: list[Signal] = []
        """Those that no step has waited for yet."""
        self.done: list[StepName] = []
        """The steps that have succeeded and can be undone, in order."""
        self.admitted = run.slot is None
        """Whether it may run; without a limit, it always may."""
        self.paused = False
        self.ending: Ending | None = None
        """How the run ends, while it is undone."""
        self.to_undo: tuple[StepName, ...] = ()
        self.undone: tuple[StepName, ...] = ()
        self.due_at_ms: int | None = None
        """When it is down to fall due."""
        self.hops = 0
        """How many steps have ended at the same time, without an action that was waited for."""
        self.hops_at_ms = 0
        self.history: list[HistoryEntry] = []
        self.history_parts = 0

    def copy(self) -> "Course":
        """A copy to decide on; its history is of no use there."""
        copy = Course.__new__(Course)
        copy.run, copy.run_id, copy.definition = self.run, self.run_id, self.definition
        copy.walks = self.walks.copy()
        copy.results = self.results.copy()
        copy.outputs = self.outputs.copy()
        copy.items = self.items  # they are the same for both
        copy.signals = self.signals.copy()
        copy.done = self.done.copy()
        copy.paused, copy.admitted = self.paused, self.admitted
        copy.ending, copy.to_undo, copy.undone = self.ending, self.to_undo, self.undone
        copy.hops, copy.hops_at_ms = self.hops, self.hops_at_ms
        copy.due_at_ms, copy.history, copy.history_parts = None, [], 0
        return copy

    def step(self, walk: WalkName) -> Step | None:
        """The step that a walk is at; that of an item has none of its own, nor has what undoes."""
        if walk == UNDO or is_item(self.definition, walk):
            return None
        return step_at(self.definition, walk, self.walks[walk].step)

    def next_at_ms(self) -> int | None:
        """When something of it falls due; nothing does while it is paused."""
        if self.paused:
            return None
        next_at_ms: int | None = None
        for walk in self.walks.values():
            if walk.until_ms is not None and (next_at_ms is None or walk.until_ms < next_at_ms):
                next_at_ms = walk.until_ms
        return next_at_ms

    def fold(self, event: CourseEvent) -> None:
        _FOLDS[type(event)](self, event)

    def _walk_on(self, event: StepStarted | StepHeld) -> None:
        self.walks[event.walk] = event.now

    def _end_action(self, event: ActionEnded) -> None:
        walk = self.walks[event.walk]
        if walk.phase is Phase.ACTION:
            self.hops = 0
        self.walks[event.walk] = replace(walk, awaited=None, until_ms=None)

    def _end_step(self, event: StepEnded) -> None:
        self.hops = self.hops + 1 if event.at_ms == self.hops_at_ms else 1
        self.hops_at_ms = event.at_ms
        self.results.pop(event.step, None)  # the last one that has ended stands last
        self.results[event.step] = StepResult(
            outcome=event.outcome, output=event.output, error=event.error, at_ms=event.at_ms
        )
        walk = self.walks[event.walk]
        self.walks[event.walk] = Walk(
            step=event.step, phase=Phase.BETWEEN, began_at_ms=walk.began_at_ms
        )
        step = step_at(self.definition, event.walk, event.step)
        if isinstance(step, RunStep) and step.rollback is not None and event.outcome == "success":
            self.done.append(event.step)

    def _end_walk(self, event: WalkEnded) -> None:
        del self.walks[event.walk]
        self.outputs[event.walk] = event.output
        parent = parent_walk(event.walk)
        join = self.walks[parent]
        self.walks[parent] = replace(
            join,
            succeeded=join.succeeded + event.succeeded,
            failed=join.failed + (not event.succeeded),
        )

    def _open_walk(self, event: WalkOpened) -> None:
        parent = parent_walk(event.walk)
        join = self.walks[parent]
        self.walks[parent] = replace(join, opened=join.opened + 1)
        self.walks[event.walk] = Walk(step=event.step, phase=Phase.BETWEEN, began_at_ms=event.at_ms)

    def _close_walk(self, event: WalkClosed) -> None:
        self.walks.pop(event.walk, None)

    def _receive(self, event: SignalReceived) -> None:
        self.signals.append(event.signal)

    def _match(self, event: SignalMatched) -> None:
        self.signals.remove(next(one for one in self.signals if one.type == event.signal_type))

    def _miss(self, event: SignalTimedOut) -> None:
        walk = self.walks[event.walk]
        self.walks[event.walk] = replace(walk, phase=Phase.BETWEEN, until_ms=None)

    def _pause(self, event: WorkflowPaused) -> None:
        self.paused = True

    def _resume(self, event: WorkflowResumed) -> None:
        self.paused = False

    def _begin_rollback(self, event: RollbackBegan) -> None:
        self.ending, self.to_undo, self.paused = event.ending, event.steps, False

    def _undo(self, event: StepUndone) -> None:
        self.to_undo = tuple(one for one in self.to_undo if one != event.step)
        self.walks.pop(UNDO, None)
        if event.succeeded:
            self.undone = (*self.undone, event.step)

    def _admit(self, event: WorkflowAdmitted) -> None:
        self.admitted = True

    def _file(self, event: HistoryFiled) -> None:
        self.history_parts += 1
        self.history = self.history[HISTORY_PART_LENGTH:]

    def _finish(self, event: WorkflowFinished) -> None:
        self.walks.clear()


_FOLDS: dict[type[CourseEvent], Callable[[Course, Any], None]] = {
    StepStarted: Course._walk_on,
    StepHeld: Course._walk_on,
    ActionEnded: Course._end_action,
    StepEnded: Course._end_step,
    WalkOpened: Course._open_walk,
    WalkEnded: Course._end_walk,
    WalkClosed: Course._close_walk,
    SignalReceived: Course._receive,
    SignalMatched: Course._match,
    SignalTimedOut: Course._miss,
    WorkflowPaused: Course._pause,
    WorkflowResumed: Course._resume,
    RollbackBegan: Course._begin_rollback,
    StepUndone: Course._undo,
    WorkflowAdmitted: Course._admit,
    HistoryFiled: Course._file,
    WorkflowFinished: Course._finish,
}


def parent_walk(walk: WalkName) -> WalkName:
    """The walk whose step has opened this one: "prepare/email" was opened by the main walk."""
    return walk.rpartition("/")[0].rpartition("/")[0]


def join_step(walk: WalkName) -> StepName:
    """The step that has opened a walk."""
    return walk.rpartition("/")[0].rpartition("/")[2]


def branch_of(walk: WalkName) -> str:
    """The name of a branch, or the number of an item."""
    return walk.rpartition("/")[2]


def walk_under(parent: WalkName, step: StepName, name: str) -> WalkName:
    return f"{parent}/{step}/{name}" if parent else f"{step}/{name}"


def step_at(definition: Definition, walk: WalkName, name: StepName) -> Step | None:
    """The step of this name where this walk goes."""
    if walk in (MAIN, UNDO):
        return definition.step_named(name)
    opener = opener_of(definition, walk)
    if not isinstance(opener, ParallelStep):
        return None  # the walk of an item has no steps of its own
    branch = opener.parallel.branches[branch_of(walk)]
    return branch.start if name == branch_of(walk) else branch.steps.get(name)


def opener_of(definition: Definition, walk: WalkName) -> Step | None:
    """The step that has opened a walk, as the definition has it."""
    return step_at(definition, parent_walk(walk), join_step(walk))


def is_item(definition: Definition, walk: WalkName) -> bool:
    """Whether a walk goes through one item of a list."""
    return walk not in (MAIN, UNDO) and isinstance(opener_of(definition, walk), ForEachStep)


def find_step(definition: Definition, name: StepName) -> Step | None:
    """The step of this name, wherever in the graph it is."""
    found = definition.step_named(name)
    if found is not None:
        return found
    for step in (definition.start, *definition.steps.values()):
        if isinstance(step, ParallelStep):
            for branch_name, branch in step.parallel.branches.items():
                if name == branch_name:
                    return branch.start
                if name in branch.steps:
                    return branch.steps[name]
    return None
