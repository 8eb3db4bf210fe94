"""Nodes and edges of a definition, for checks and for drawing.

An area is what one branch goes through: the document itself, and each branch of a parallel step.

    main      start ──▸ prepare ══▸ ship ──▸ flo.Completed
                          ║
    email                 ╠══▸ email
    payment               ╚══▸ payment ──▸ capture
"""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import NamedTuple

from flo.workflow.definition import START, Definition
from flo.workflow.document.places import Path
from flo.workflow.outcome import TIMEOUT
from flo.workflow.steps import (
    JOIN_ALL,
    JOIN_ANY,
    ForEachStep,
    ParallelBranch,
    ParallelStep,
    RunStep,
    SignalStep,
    SleepStep,
    Step,
    TargetKind,
)


class NodeKind(StrEnum):
    RUN = "run"
    SIGNAL = "signal"
    SLEEP = "sleep"
    PARALLEL = "parallel"
    FOR_EACH = "for_each"
    TERMINAL = "terminal"


class Node(NamedTuple):
    name: str
    kind: NodeKind
    label: str
    """What it does: a target, a signal, a status."""
    inside: str = ""
    """The parallel step to whose branches it belongs; empty outside of them."""


class Edge(NamedTuple):
    source: str
    target: str
    label: str
    """The outcome, or `branch`."""


class Graph(NamedTuple):
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]


class Area(NamedTuple):
    """The steps that one branch goes through."""

    start: str
    steps: dict[str, Step]
    paths: dict[str, Path]
    """Where each step stands in the document."""
    parallel: str = ""
    """The parallel step that the area is a branch of; empty for the main area."""


class Transition(NamedTuple):
    """A way out of a step."""

    outcome: str
    goal: str
    path: Path
    """Relative to the step."""


def areas_of(definition: Definition) -> Iterator[Area]:
    """The main area first, then the branches."""
    main = Area(
        start=START,
        steps={START: definition.start, **definition.steps},
        paths={START: ("start",), **{name: ("steps", name) for name in definition.steps}},
    )
    yield main
    for name, step in main.steps.items():
        if isinstance(step, ParallelStep):
            for branch_name, branch in step.parallel.branches.items():
                path = (*main.paths[name], "parallel", "branches", branch_name)
                yield _branch_area(name, branch_name, branch, path)


def _branch_area(parallel: str, name: str, branch: ParallelBranch, path: Path) -> Area:
    steps: dict[str, Step] = {name: branch.start, **branch.steps}
    paths: dict[str, Path] = {inner: (*path, "steps", inner) for inner in branch.steps}
    return Area(start=name, steps=steps, paths={**paths, name: path}, parallel=parallel)


def called_actions(definition: Definition) -> tuple[str, ...]:
    """The actions that steps, items, rollbacks and executors call, each once."""
    targets = [one.action for plan in definition.plans.values() for one in plan.executors]
    for area in areas_of(definition):
        for step in area.steps.values():
            if isinstance(step, RunStep):
                targets += [step.run, *([step.rollback.run] if step.rollback is not None else [])]
            elif isinstance(step, ForEachStep):
                targets.append(step.for_each.run)
    return tuple(dict.fromkeys(one.name for one in targets if one.kind is TargetKind.ACTION))


def transitions_of(step: Step) -> Iterator[Transition]:
    for outcome, goal in step.transitions.items():
        yield Transition(outcome, goal, ("transitions", outcome))
    if isinstance(step, SignalStep) and step.wait_for_signal.on_timeout is not None:
        yield Transition(TIMEOUT, step.wait_for_signal.on_timeout, ("waitForSignal", "onTimeout"))


def successors_of(area: Area) -> dict[str, set[str]]:
    """Step → the steps of the same area that it leads to directly."""
    return {
        name: {
            transition.goal for transition in transitions_of(step) if transition.goal in area.steps
        }
        for name, step in area.steps.items()
    }


def reachable(successors: dict[str, set[str]], origins: Iterable[str]) -> set[str]:
    """All that can be reached from the origins, themselves included."""
    found = set(origins)
    waiting = list(found)
    while waiting:
        fresh = successors[waiting.pop()] - found
        found |= fresh
        waiting.extend(fresh)
    return found


def predecessors_of(successors: dict[str, set[str]]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {name: set() for name in successors}
    for origin, goals in successors.items():
        for goal in goals:
            found[goal].add(origin)
    return found


def graph_of(definition: Definition) -> Graph:
    nodes: list[Node] = []
    edges: dict[Edge, None] = {}
    terminals: dict[str, Node] = {}
    for area in areas_of(definition):
        for name, step in area.steps.items():
            nodes.append(Node(name, kind_of_step(step), label_of_step(step), area.parallel))
            if isinstance(step, ParallelStep):
                for branch in step.parallel.branches:
                    edges[Edge(name, branch, "branch")] = None
            for transition in transitions_of(step):
                ending = definition.ending_of(transition.goal)
                if ending is not None and transition.goal not in area.steps:
                    if area.parallel:
                        continue  # the end of a branch is where its parallel step goes on
                    terminals[transition.goal] = Node(
                        transition.goal, NodeKind.TERMINAL, ending.value
                    )
                edges[Edge(name, transition.goal, transition.outcome)] = None
    return Graph((*nodes, *terminals.values()), tuple(edges))


def kind_of_step(step: Step) -> NodeKind:
    match step:
        case RunStep():
            return NodeKind.RUN
        case SignalStep():
            return NodeKind.SIGNAL
        case SleepStep():
            return NodeKind.SLEEP
        case ParallelStep():
            return NodeKind.PARALLEL
        case ForEachStep():
            return NodeKind.FOR_EACH


def label_of_step(step: Step) -> str:
    """What the step does, in a few words."""
    match step:
        case RunStep():
            return str(step.run)
        case SignalStep():
            return f"signal {step.wait_for_signal.type}"
        case SleepStep(sleep=sleep):
            if sleep.duration_ms is not None:
                return f"sleep {sleep.duration_ms} ms"
            return f"sleep until {sleep.until}" if sleep.until else f"sleep {sleep.duration_from}"
        case ParallelStep():
            return f"parallel, join {join_text(step.parallel.join)}"
        case ForEachStep(for_each=each):
            return f"{each.run} for each of {each.items}"


def join_text(join: int) -> str:
    return {JOIN_ALL: "all", JOIN_ANY: "any"}.get(join, str(join))
