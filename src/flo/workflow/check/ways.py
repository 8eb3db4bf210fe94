"""The ways through a graph, and on which of them a part of a step's result is missing.

    start ──skip──▸ ship             $.steps.charge.output is missing in ship: charge has not run
      └─success─▸ charge ─failure─▸ ship                       and here: a failure gives no output

An edge says which step has ended with which outcome. An edge behind a parallel step keeps only what
is known by way of its branch: of a join of all, each branch has come to its end.

Sets of steps are bits of a number here: a document may have a thousand steps.
"""

from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from flo.workflow import outcome as o
from flo.workflow.definition import START, Definition, TerminalKind
from flo.workflow.graph import Area, areas_of, transitions_of
from flo.workflow.mapping import Root
from flo.workflow.steps import ForEachStep, ParallelStep, RunStep, SignalStep, Step, needed

NOT_RUN: Final = ""
"""Instead of the outcome of a step that has not run."""

_FAILURES: Final = frozenset((*o.CHAIN, o.FAILURE, o.TIMEOUT))
_BRANCH: Final = "branch"
_PRESENT: Final = "+"


class FlowEdge(NamedTuple):
    """From one step to the next step or terminal."""

    source: str
    goal: str
    outcome: str
    """Of the source; `branch` if it has not ended, but opened a branch."""
    keeps: int
    """The steps whose results are known by this edge."""


class Way(NamedTuple):
    """A way on which something is missing, and why."""

    outcome: str
    """Of the step whose result is looked for, or NOT_RUN."""
    edges: tuple[FlowEdge, ...]

    def __str__(self) -> str:
        passed = [f"{edge.source}: {edge.outcome}" for edge in self.edges]
        if len(passed) > 8:
            passed = [*passed[:3], "…", *passed[-4:]]
        return " → ".join((*passed, self.edges[-1].goal)) if self.edges else START


class Ways:
    """All ways of a definition."""

    def __init__(self, definition: Definition) -> None:
        self._areas = list(areas_of(definition))
        self._steps = {name: step for area in self._areas for name, step in area.steps.items()}
        self._bits = {name: 1 << number for number, name in enumerate(self._steps)}
        self._all = (1 << len(self._steps)) - 1
        self._edges: dict[str, list[FlowEdge]] = {}
        for edge in self._edges_of(definition):
            self._edges.setdefault(edge.source, []).append(edge)
        self._missing: dict[Root, dict[str, int]] = {}

    def may_miss(self, goal: str, step: str, root: Root) -> bool:
        """Whether a part of the step's result may be missing where the goal begins."""
        if root not in self._missing:
            self._missing[root] = self._spread(root)
        return bool(self._missing[root].get(goal, 0) & self._bits[step])

    def to(self, goal: str, step: str, root: Root) -> list[Way]:
        """The shortest way to the goal for each reason why it may be missing there."""
        bit, first = self._bits[step], (START, NOT_RUN)
        came: dict[tuple[str, str], tuple[tuple[str, str], FlowEdge] | None] = {first: None}
        waiting = deque([first])
        while waiting:
            at, known = here = waiting.popleft()
            for edge in self._edges.get(at, ()):
                there = (edge.goal, self._after(edge, step, root, known))
                if edge.keeps & bit and there not in came:
                    came[there] = (here, edge)
                    waiting.append(there)
        return [
            Way(known, _traced(came, (at, known)))
            for at, known in came
            if at == goal and known != _PRESENT
        ]

    def _after(self, edge: FlowEdge, step: str, root: Root, known: str) -> str:
        if edge.source != step or edge.outcome == _BRANCH:
            return known
        is_missing = lacks(self._steps[step], edge.outcome, root)
        return edge.outcome if is_missing else _PRESENT

    def _spread(self, root: Root) -> dict[str, int]:
        """Step or terminal → the steps whose results may be missing when it begins."""
        masks = {START: self._all}
        waiting = dict.fromkeys([START])
        while waiting:
            origin = next(iter(waiting))
            del waiting[origin]
            for edge in self._edges.get(origin, ()):
                mask = masks[origin]
                if edge.outcome != _BRANCH:
                    mask &= ~self._bits[origin]
                    if lacks(self._steps[origin], edge.outcome, root):
                        mask |= self._bits[origin]
                mask = masks.get(edge.goal, 0) | mask & edge.keeps
                if mask != masks.get(edge.goal):
                    masks[edge.goal] = mask
                    waiting[edge.goal] = None
        return masks

    # ── edges ──

    def _edges_of(self, definition: Definition) -> Iterator[FlowEdge]:
        for area in self._areas:
            for name, step in area.steps.items():
                for transition in transitions_of(step):
                    if isinstance(step, ParallelStep):
                        branches = [one for one in self._areas if one.parallel == name]
                        yield from self._joined(definition, name, step, branches, transition[:2])
                    elif not area.parallel or transition.goal in area.steps:
                        yield FlowEdge(name, transition.goal, transition.outcome, self._all)
            if area.parallel:
                yield FlowEdge(area.parallel, area.start, _BRANCH, self._all)

    def _joined(
        self,
        definition: Definition,
        name: str,
        step: ParallelStep,
        branches: list[Area],
        transition: tuple[str, str],
    ) -> Iterator[FlowEdge]:
        """From a parallel step to what follows: by itself, and by way of each branch."""
        outcome, goal = transition
        count = len(branches)
        is_whole = outcome == o.SUCCESS and needed(step.parallel.join, count) == count
        inside = [sum(self._bits[inner] for inner in branch.steps) for branch in branches]
        yield FlowEdge(name, goal, outcome, self._all & ~sum(inside) if is_whole else self._all)
        if outcome not in (o.SUCCESS, o.FAILURE):
            return
        for branch, bits in zip(branches, inside, strict=True):
            for last, inner in branch.steps.items():
                for ended in _last_outcomes(definition, branch, inner, is_whole=is_whole):
                    yield FlowEdge(last, goal, ended, bits)


def _last_outcomes(
    definition: Definition, branch: Area, step: Step, *, is_whole: bool
) -> Iterator[str]:
    """The outcomes with which a step can be the last of its branch.

    A branch that is not needed any more ends wherever it is.
    """
    for outcome, goal, _ in transitions_of(step):
        ending = None if goal in branch.steps else definition.ending_of(goal)
        if not is_whole or ending is TerminalKind.COMPLETED:
            yield outcome
    if o.SUCCESS not in step.transitions:
        yield o.SUCCESS


def lacks(step: Step, outcome: str, root: Root) -> bool:
    """Whether a step that ends with the outcome may leave this part of its result empty."""
    match root:
        case Root.OUTPUT:
            gives_none = isinstance(step, RunStep | ForEachStep | SignalStep)
            return gives_none and outcome in _FAILURES
        case Root.ERROR | Root.ERROR_CODE:
            return outcome not in _FAILURES
        case _:
            return False


def _traced(
    came: dict[tuple[str, str], tuple[tuple[str, str], FlowEdge] | None], at: tuple[str, str]
) -> tuple[FlowEdge, ...]:
    edges: list[FlowEdge] = []
    while (before := came[at]) is not None:
        at, edge = before
        edges.append(edge)
    return tuple(reversed(edges))
