"""Attempts of which nobody knows what came: a step may ask that these are undone, too."""

from flo.engine.runs.ends import RunEnd
from flo.engine.runs.events import RunCancelled, RunTimedOut
from flo.engine.workflows.advance.base import Advance
from flo.engine.workflows.events import AttemptLeftUnknown
from flo.model.views.attempts import AttemptEnd
from flo.model.workflows import BranchName, BranchPhase
from flo.workflow.steps import RollbackWhen, RunStep

MAY_HAVE_HAPPENED = frozenset(
    {
        AttemptEnd.LEASE_EXPIRED,
        AttemptEnd.WORKER_LEFT,
        AttemptEnd.WORKER_LOST,
        AttemptEnd.CANCELLED,
    }
)
"""A worker has begun it, and has not said how it ended."""


def left_unknown(
    advance: Advance, branch: BranchName, end: AttemptEnd
) -> tuple[AttemptLeftUnknown, ...]:
    """An attempt at the step of a branch has ended so; nothing if its step does not ask."""
    step = advance.execution.step(branch)
    rollback = step.rollback if isinstance(step, RunStep) else None
    if rollback is None or rollback.when is not RollbackWhen.ATTEMPTED:
        return ()
    now = advance.execution.branches[branch]
    assert now.awaited is not None
    unknown = AttemptLeftUnknown(
        namespace=advance.namespace,
        run_id=advance.run_id,
        branch=branch,
        step=now.step,
        awaited=now.awaited,
        end=end,
        at_ms=advance.now_ms,
    )
    return (unknown,)


def unknown_at_end(
    advance: Advance, branch: BranchName, event: RunEnd
) -> tuple[AttemptLeftUnknown, ...]:
    """The run of a branch has ended, and its last attempt may have had its effect."""
    match event:
        case RunTimedOut(end=end):
            return left_unknown(advance, branch, end)
        case RunCancelled(worker_id=str()):
            return left_unknown(advance, branch, AttemptEnd.CANCELLED)
        case _:
            return ()


def left_in_hand(advance: Advance, branch: BranchName) -> tuple[AttemptLeftUnknown, ...]:
    """A branch does not wait any more for the run of its step, which a worker has in hand."""
    now = advance.execution.branches[branch]
    if now.phase is not BranchPhase.ACTION or now.awaited is None:
        return ()
    end = advance.end_in_hand(now.awaited)
    return left_unknown(advance, branch, end) if end is not None else ()
