"""Checks of the graph: steps and terminals out of reach, outcomes without a transition."""

from typing import Final

from flo.workflow import outcome as o
from flo.workflow.check.findings import Findings
from flo.workflow.definition import Definition, TerminalKind
from flo.workflow.document.places import Path
from flo.workflow.graph import (
    Area,
    areas_of,
    predecessors_of,
    reachable,
    successors_of,
    transitions_of,
)
from flo.workflow.steps import (
    ForEachStep,
    ParallelStep,
    RunStep,
    SignalStep,
    SleepStep,
    Step,
    TargetKind,
)

FAILED: Final = "flo.Failed"
"""Where an outcome without a transition leads."""

_RUNTIME: Final = frozenset((*o.CHAIN, o.SUCCESS, o.FAILURE, o.TIMEOUT, o.PENDING))
"""Outcomes that are not named by an action itself."""


def check_flow(definition: Definition, findings: Findings) -> None:
    used: set[str] = set()
    for area in areas_of(definition):
        successors = successors_of(area)
        reached = reachable(successors, [area.start])
        for name, step in area.steps.items():
            if name not in reached:
                message = f"Step {name!r} is unreachable from start"
                findings.warning_of_name("E301", message, area.paths[name])
            else:
                used.update(transition.goal for transition in transitions_of(step))
            _check_outcomes(name, step, area.paths[name], findings)
            if isinstance(step, RunStep):
                _check_timeout(definition, area, name, step, findings)
        _check_exits(definition, area, successors, reached, findings)
    for name in definition.terminals:
        if name not in used:
            message = f"terminal {name!r} is never reached"
            findings.warning_of_name("E302", message, ("terminals", name))


def _check_exits(
    definition: Definition,
    area: Area,
    successors: dict[str, set[str]],
    reached: set[str],
    findings: Findings,
) -> None:
    """Warn of steps from which every way leads back into the same circle."""
    ends = [name for name, step in area.steps.items() if _can_end(definition, step, area)]
    escaping = reachable(predecessors_of(successors), ends)
    for name in area.steps:
        if name in reached and name not in escaping:
            message = f"no terminal can be reached from step {name!r}"
            hint = "a run that comes here never ends by itself"
            findings.warning_of_name("E303", message, area.paths[name], hint=hint)


def _can_end(definition: Definition, step: Step, area: Area) -> bool:
    """Whether the step leads to a terminal, or ends the run by having nowhere to go."""
    if any(outcome not in step.transitions for outcome in _expected(step)):
        return True
    if isinstance(step, SignalStep):
        wait = step.wait_for_signal
        if wait.timeout_ms is not None and wait.on_timeout is None:
            return True
    return any(
        transition.goal not in area.steps and definition.ending_of(transition.goal) is not None
        for transition in transitions_of(step)
    )


# ── outcomes ──────────────────────────────────────────────────────────────────────────────────────


def _check_outcomes(name: str, step: Step, path: Path, findings: Findings) -> None:
    if not step.transitions:
        message = f"Step {name!r} has no transitions"
        hint = "add transitions: {success: flo.Completed, failure: flo.Failed}"
        findings.warning_of_name("E502", message, path, hint=hint)
    else:
        for outcome in _expected(step):
            if outcome not in step.transitions:
                message = f"outcome {outcome!r} of step {name!r} has no transition"
                hint = "the run would fail there"
                findings.warning_of_name("E504", message, (*path, "transitions"), hint=hint)
    possible = _possible(step)
    for outcome in step.transitions:
        if possible is not None and outcome not in possible:
            message = f"step {name!r} never has the outcome {outcome!r}"
            findings.warning_of_name("E505", message, (*path, "transitions", outcome))
    if isinstance(step, SignalStep):
        _check_signal(name, step, path, findings)


def _check_timeout(
    definition: Definition, area: Area, name: str, step: RunStep, findings: Findings
) -> None:
    """Warn of an action whose failure leads somewhere, while its timeout ends the run or branch.

    A plan that times out has the outcome `failure`; so has a child, unless it says otherwise.
    """
    goal = step.transitions.get(o.FAILURE)
    if step.run.kind is not TargetKind.ACTION or o.TIMEOUT in step.transitions or goal is None:
        return
    ending = None if goal in area.steps else definition.ending_of(goal)
    if goal == FAILED or (area.parallel and ending not in (None, TerminalKind.COMPLETED)):
        return  # a timeout ends there too
    what = f"branch {area.start!r}" if area.parallel else "run"
    message = (
        f"action {step.run.name!r} of step {name!r} can time out, and that has no transition: "
        f"the {what} would fail, and not go to {goal!r} as after a failure"
    )
    hint = "add timeout to its transitions; the action may have had its effect by then"
    findings.warning_of_name("E210", message, (*area.paths[name], "transitions"), hint=hint)


def _check_signal(name: str, step: SignalStep, path: Path, findings: Findings) -> None:
    wait = step.wait_for_signal
    inner = (*path, "waitForSignal")
    if wait.timeout_ms is None:
        message = f"step {name!r} may wait for signal {wait.type!r} for ever"
        findings.warning_of_name("E503", message, inner, hint="add timeoutMs")
        if wait.on_timeout is not None:
            message = "onTimeout without timeoutMs is never followed"
            findings.warning("E505", message, (*inner, "onTimeout"))


def _expected(step: Step) -> list[str]:
    """The outcomes that are sure to come some day."""
    match step:
        case SignalStep() | SleepStep():
            return [o.SUCCESS]
        case ParallelStep() | ForEachStep():
            return [o.SUCCESS, o.FAILURE]
        case RunStep():
            named = any(outcome not in _RUNTIME for outcome in step.transitions)
            return [*([] if named else [o.SUCCESS]), o.FAILURE]


def _possible(step: Step) -> frozenset[str] | None:
    """All the outcomes the step can have; None if it can have any."""
    match step:
        case SignalStep() | SleepStep():
            return frozenset((o.SUCCESS,))
        case ParallelStep() | ForEachStep():
            return frozenset((o.SUCCESS, o.FAILURE, *o.CHAIN))
        case RunStep():
            if step.run.kind is TargetKind.WORKFLOW:
                return frozenset((o.SUCCESS, o.FAILURE, o.TIMEOUT, *o.CHAIN))
            return None
