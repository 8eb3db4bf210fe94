"""What a run has started beside it, children and pipelines: their end, and that of who waits."""

from collections.abc import Iterable

from flo.engine.context import Context
from flo.engine.pipelines.advance import cancelled as cancel_pipeline
from flo.engine.pipelines.events import PipelineClosed
from flo.engine.state import State
from flo.engine.workflows.advance import wakes
from flo.engine.workflows.advance.base import Advance
from flo.engine.workflows.advance.stepper import carry_out
from flo.engine.workflows.events import ChildCancelled
from flo.engine.workflows.records import AWAITED_PIPELINE, awaited_pipeline
from flo.model.base import Event


def react_pipeline_closed(state: State, event: PipelineClosed, context: Context) -> Iterable[Event]:
    """The branch that has waited for the pipeline goes on."""
    space = state.spaces[event.namespace]
    waiting = space.awaited.get(awaited_pipeline(event.id))
    if waiting is None:
        return ()
    run_id, branch = waiting
    advance = Advance(state, event.namespace, space.executions[run_id], context)
    return carry_out(advance, wakes.end_pipeline(advance, branch, event))


def react_child_cancelled(state: State, event: ChildCancelled, context: Context) -> Iterable[Event]:
    """A child that nobody waits for any more is cancelled, and so is a pipeline."""
    if event.run_id.startswith(AWAITED_PIPELINE):
        known = state.space(event.namespace).pipelines.live
        pipeline = known.get(event.run_id.removeprefix(AWAITED_PIPELINE))
        if pipeline is None:
            return ()
        namespace, reason = event.namespace, event.reason
        return cancel_pipeline(state, namespace, pipeline, reason, context, failing=False)
    execution = state.space(event.namespace).executions.get(event.run_id)
    if execution is None or execution.ending is not None:
        return ()
    advance = Advance(state, event.namespace, execution, context)
    return carry_out(advance, wakes.cancel(advance, event.reason))
