"""An attempt at a target begins: a run is queued, a child or a pipeline is started, a plan is
taken up.
"""

from msgspec.structs import replace

from flo.engine.pipelines.events import PipelineSubmitted
from flo.engine.runs.events import RunQueued
from flo.engine.workflows.advance.base import Advance, Refused
from flo.engine.workflows.advance.choices import said_outcome
from flo.engine.workflows.advance.moves import BeginPlan, Call, EndAttempt, Moves
from flo.engine.workflows.blocks.execute import execute
from flo.engine.workflows.events import WorkflowStarted
from flo.engine.workflows.records import awaited_pipeline
from flo.model.workflows import BranchPhase
from flo.workflow.steps import TargetKind


def call(advance: Advance, move: Call) -> Moves:
    branch, now, target, payload = move
    match target.kind:
        case TargetKind.ACTION:
            run = advance.queued(branch, now, target.name, payload)
            return _await(advance, move, BranchPhase.ACTION, run)
        case TargetKind.WORKFLOW:
            child = advance.child(branch, now, target, payload)
            return _await(advance, move, BranchPhase.CHILD, child)
        case TargetKind.PIPELINE:
            pipeline = advance.pipeline(branch, now, target, payload)
            return _await(advance, move, BranchPhase.PIPELINE, pipeline)
        case TargetKind.BLOCK:
            return _await_job(advance, move)
        case TargetKind.OUTCOME:
            return (advance.started(branch, now, target.name), said_outcome(branch, payload))
        case TargetKind.PLAN:
            return (advance.started(branch, now, target.name), BeginPlan(branch))


def _await_job(advance: Advance, move: Call) -> Moves:
    """The step begins, and its entry is in the ledger before anybody can execute it."""
    branch, now, _, payload = move
    made = advance.job(branch, now, lambda: execute(advance, branch, now, payload))
    if isinstance(made, Refused | RunQueued):
        return _await(advance, move, BranchPhase.ACTION, made)
    queued, opened = made
    return (queued, opened, *_await(advance, move, BranchPhase.ACTION, queued)[1:])


def _await(
    advance: Advance,
    move: Call,
    phase: BranchPhase,
    started: RunQueued | WorkflowStarted | PipelineSubmitted | Refused,
) -> Moves:
    """The step begins, and its branch waits for what was started."""
    branch, now, target, _ = move
    if isinstance(started, Refused):
        return (
            advance.started(branch, now, target.name),
            advance.not_made(branch, now, str(target), started.outcome, started.error),
            EndAttempt(branch, started.outcome, b"", started.error),
        )
    if isinstance(started, PipelineSubmitted):
        awaited = awaited_pipeline(started.pipeline.id)
    else:
        awaited = started.run.run_id
    waiting = replace(now, phase=phase, awaited=awaited)
    return (started, advance.started(branch, waiting, target.name))
