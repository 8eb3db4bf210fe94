"""A step whose action is not registered yet, in a workflow that waits for that (action_wait_ms).

It looks again after half the time that it has waited already, so that a wait of a second is
noticed at once, and one of an hour costs little.
"""

from flo.engine.state import Space
from flo.engine.workflows.execution import COMPENSATION, Execution, find_step, is_item, opener_of
from flo.model.ids import ActionName
from flo.model.workflows import BranchName, BranchPhase
from flo.workflow.steps import ForEachStep, RunStep, Target, TargetKind

LOOK_MS_MIN = 200
LOOK_MS_MAX = 10_000


def next_look_at_ms(execution: Execution, branch: BranchName, now_ms: int) -> int | None:
    """When to look again whether the action is there; None if the step does not wait (any more)."""
    began_at_ms = execution.branches[branch].began_at_ms
    until_ms = began_at_ms + execution.definition.action_wait_ms
    if now_ms >= until_ms or _called(execution, branch) is None:
        return None
    pause_ms = min(max((now_ms - began_at_ms) // 2, LOOK_MS_MIN), LOOK_MS_MAX)
    return min(now_ms + pause_ms, until_ms)


def awaited_action(space: Space, execution: Execution, branch: BranchName) -> ActionName | None:
    """The action for which a step waits; None if it waits for something else."""
    is_waiting = execution.branches[branch].phase is BranchPhase.POLL
    name = _called(execution, branch) if is_waiting else None
    return name if name is not None and name not in space.actions else None


def _called(execution: Execution, branch: BranchName) -> ActionName | None:
    """The action that the step, the item or the rollback calls that a branch is at."""
    target: Target | None = None
    if branch == COMPENSATION:
        undone = find_step(execution.definition, execution.branches[branch].step)
        rollback = undone.rollback if isinstance(undone, RunStep) else None
        target = rollback.run if rollback is not None else None
    elif is_item(execution.definition, branch):
        opener = opener_of(execution.definition, branch)
        target = opener.for_each.run if isinstance(opener, ForEachStep) else None
    else:
        step = execution.step(branch)
        target = step.run if isinstance(step, RunStep) else None
    return target.name if target is not None and target.kind is TargetKind.ACTION else None
