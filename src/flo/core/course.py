"""How far a workflow run has come: its walks, the results of its steps, its signals.

A Course is changed by the events of its run and by nothing else. The rules work on a copy of it:
they fold each event that they decide on into the copy, and so always see where they are.
"""

from typing import TypeAlias

from msgspec.structs import replace

from flo.model.ids import RunId
from flo.model.workflows import (
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
from flo.workflow.definition import Definition, ParallelStep, RunStep, Step

HISTORY_PART_LENGTH = 200
"""So many entries are in each part of a long history."""

UNDO = "~"
"""The walk that undoes."""

CourseEvent: TypeAlias = (
    StepStarted
    | StepHeld
    | ActionEnded
    | StepEnded
    | WalkOpened
    | WalkEnded
    | WalkClosed
    | SignalReceived
    | SignalMatched
    | SignalTimedOut
    | WorkflowPaused
    | WorkflowResumed
    | RollbackBegan
    | StepUndone
    | WorkflowFinished
    | HistoryFiled
    | WorkflowAdmitted
)


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
        "outputs",
        "paused",
        "results",
        "run",
        "signals",
        "to_undo",
        "undone",
        "walks",
    )

    def __init__(self, run: WorkflowRun, definition: Definition) -> None:
        self.run = run
        self.definition = definition
        self.walks: dict[WalkName, Walk] = {}
        self.results: dict[StepName, StepResult] = dict(run.results)
        self.outputs: dict[WalkName, bytes] = {}
        """What the branches and items of joins under way have come to."""
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

    @property
    def run_id(self) -> RunId:
        return self.run.run_id

    def copy(self) -> "Course":
        """A copy to decide on; its history is of no use there."""
        copy = Course(self.run, self.definition)
        copy.walks = dict(self.walks)
        copy.results = dict(self.results)
        copy.outputs = dict(self.outputs)
        copy.signals = list(self.signals)
        copy.done = list(self.done)
        copy.paused = self.paused
        copy.admitted = self.admitted
        copy.ending = self.ending
        copy.to_undo = self.to_undo
        copy.undone = self.undone
        copy.hops, copy.hops_at_ms = self.hops, self.hops_at_ms
        return copy

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
        match event:
            case StepStarted(walk=walk, now=now) | StepHeld(walk=walk, now=now):
                self.walks[walk] = now
            case ActionEnded(walk=walk):
                if self.walks[walk].phase is Phase.ACTION:
                    self.hops = 0
                self.walks[walk] = replace(self.walks[walk], awaited=None, until_ms=None)
            case StepEnded():
                self._end_step(event)
            case WalkOpened(walk=walk, step=step, at_ms=at_ms):
                parent = parent_walk(walk)
                opened = self.walks[parent].opened + 1
                self.walks[parent] = replace(self.walks[parent], opened=opened)
                self.walks[walk] = Walk(step=step, phase=Phase.BETWEEN, began_at_ms=at_ms)
            case WalkEnded():
                self._end_walk(event)
            case WalkClosed(walk=walk):
                self.walks.pop(walk, None)
            case _:
                self._fold_rest(event)

    def _fold_rest(self, event: CourseEvent) -> None:
        match event:
            case SignalReceived(signal=signal):
                self.signals.append(signal)
            case SignalMatched(signal_type=kind):
                first = next(one for one in self.signals if one.type == kind)
                self.signals.remove(first)
            case SignalTimedOut(walk=walk):
                walk_now = self.walks[walk]
                self.walks[walk] = replace(walk_now, phase=Phase.BETWEEN, until_ms=None)
            case WorkflowPaused() | WorkflowResumed():
                self.paused = isinstance(event, WorkflowPaused)
            case RollbackBegan(ending=ending, steps=steps):
                self.ending, self.to_undo, self.paused = ending, steps, False
            case StepUndone(step=step, succeeded=succeeded):
                self.to_undo = tuple(one for one in self.to_undo if one != step)
                self.walks.pop(UNDO, None)
                if succeeded:
                    self.undone = (*self.undone, step)
            case WorkflowAdmitted():
                self.admitted = True
            case HistoryFiled():
                self.history_parts += 1
                self.history = self.history[HISTORY_PART_LENGTH:]
            case _:
                self.walks.clear()  # the run has finished

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
    opener = step_at(definition, parent_walk(walk), join_step(walk))
    if not isinstance(opener, ParallelStep):
        return None  # the walk of an item has no steps of its own
    branch = opener.parallel.branches[branch_of(walk)]
    return branch.start if name == branch_of(walk) else branch.steps.get(name)
