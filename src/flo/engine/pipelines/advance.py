"""What follows on the events of a pipeline: nodes become ready, functions run, the pipeline ends.

    a batch, an end of a node ──▸ its dependents: ready? never? ──▸ NodeMadeReady, NodeSkipped
    a node failed for good    ──▸ PipelineCancelling ──▸ the others are closed, or told to stop
    no node is open           ──▸ PipelineClosed

Only the nodes that an event can make ready are looked at.
"""

from collections.abc import Iterable, Iterator

from flo.engine.context import Context
from flo.engine.pipelines import events as e
from flo.engine.pipelines.functions import FUNCTIONS, call_function
from flo.engine.pipelines.records import NodeState, PipelineState
from flo.engine.pipelines.results import result_payload, why_ended
from flo.engine.state import State
from flo.engine.workers.events import WorkerLost
from flo.model.base import Event
from flo.model.errors import FloError
from flo.model.ids import Namespace
from flo.model.pipelines.names import NODE_ENDED, NodeStatus, PipelineStatus
from flo.pipeline.readiness import NodeProgress, Readiness, readiness

SERVER_WORKER = "server"
"""Who runs coordinator functions that the server knows."""
LOSSES_MAX = 20
"""So often in a row a node may lose its worker without recording a batch."""
LOST_TOO_OFTEN = "lost_too_often"
HARD_FAIL = "hard_fail:"


def evaluated(
    namespace: Namespace, pipeline: PipelineState, names: Iterable[str], context: Context
) -> Iterator[Event]:
    """Which of these nodes may start now, and which can never."""
    if pipeline.is_ending:
        return
    for name in names:
        node = pipeline.nodes[name]
        if node.status is not NodeStatus.QUEUED or node.is_ready:
            continue
        match readiness(node.spec, lambda other: _progress(pipeline, other)):
            case Readiness.READY:
                yield e.NodeMadeReady(
                    namespace=namespace,
                    id=pipeline.id,
                    node=name,
                    on_first_batch=_is_on_first_batch(pipeline, node),
                )
            case Readiness.NEVER:
                yield e.NodeSkipped(
                    namespace=namespace, id=pipeline.id, node=name, at_ms=context.now_ms
                )
            case Readiness.WAITS:
                pass


def _progress(pipeline: PipelineState, name: str) -> NodeProgress | None:
    node = pipeline.nodes.get(name)
    if node is None:
        return None
    return NodeProgress(node.status, bool(node.batches), node.complete is not None)


def _is_on_first_batch(pipeline: PipelineState, node: NodeState) -> bool:
    parents = (pipeline.nodes.get(name) for name in node.spec.async_parents)
    return node.spec.first_batch or any(one is not None and one.batches for one in parents)


def dependents_of(
    state: State, namespace: Namespace, pipeline: PipelineState, name: str, context: Context
) -> Iterator[Event]:
    """What the node leads to; then the end of the pipeline, if that was all."""
    yield from evaluated(namespace, pipeline, pipeline.graph.dependents.get(name, ()), context)
    yield from closed_if_done(state, namespace, pipeline, context)


def closed_if_done(
    state: State, namespace: Namespace, pipeline: PipelineState, context: Context
) -> Iterator[Event]:
    is_live = state.spaces[namespace].pipelines.live.get(pipeline.id) is pipeline
    if pipeline.open_count or not is_live:
        return
    status = PipelineStatus.FINISHED
    if pipeline.is_ending:
        status = PipelineStatus.FAILED if pipeline.is_failing else PipelineStatus.CANCELLED
    is_awaited = pipeline.settings.parent is not None
    yield e.PipelineClosed(
        namespace=namespace,
        id=pipeline.id,
        status=status,
        at_ms=context.now_ms,
        result=result_payload(pipeline) if is_awaited else b"",
        error=why_ended(pipeline) if is_awaited and pipeline.is_ending else None,
    )


def cancelled(
    state: State,
    namespace: Namespace,
    pipeline: PipelineState,
    reason: str,
    context: Context,
    *,
    failing: bool,
) -> Iterator[Event]:
    """End a pipeline: what waits is closed, what runs has the grace period to stop."""
    if pipeline.is_ending:
        return
    yield e.PipelineCancelling(
        namespace=namespace, id=pipeline.id, reason=reason, failing=failing, at_ms=context.now_ms
    )
    for name in pipeline.nodes:
        yield from node_cancelled(namespace, pipeline, name, reason, context)
    yield from closed_if_done(state, namespace, pipeline, context)


def node_cancelled(
    namespace: Namespace, pipeline: PipelineState, name: str, reason: str, context: Context
) -> Iterator[Event]:
    """End one node."""
    node = pipeline.nodes[name]
    if node.status is NodeStatus.RUNNING:
        yield e.NodeCancelling(
            namespace=namespace,
            id=pipeline.id,
            node=name,
            reason=reason,
            deadline_ms=context.now_ms + pipeline.settings.cancel_grace_ms,
            at_ms=context.now_ms,
        )
    elif node.status not in NODE_ENDED and node.status is not NodeStatus.CANCELLING:
        yield e.NodeCancelled(
            namespace=namespace, id=pipeline.id, node=name, at_ms=context.now_ms, reason=reason
        )


def failed_attempt(
    namespace: Namespace,
    pipeline: PipelineState,
    node: NodeState,
    reason_code: str,
    error: str | None,
    context: Context,
    *,
    permanent: bool,
    epoch: int,
) -> Event:
    """What becomes of a node whose attempt has failed: its retry policy says so."""
    retry = node.spec.retry
    is_final = permanent or reason_code in retry.permanent_on or node.retries >= retry.max
    common = {"namespace": namespace, "id": pipeline.id, "node": node.spec.node_id}
    if is_final:
        return e.NodeFailed(
            **common, epoch=epoch, reason_code=reason_code, error=error, at_ms=context.now_ms
        )
    return e.NodeDeferred(
        **common,
        epoch=epoch,
        reason_code=reason_code,
        error=error,
        retry_at_ms=context.now_ms + retry.backoff_ms,
        at_ms=context.now_ms,
    )


def pipeline_of(state: State, event: Event) -> PipelineState | None:
    """The pipeline of an event, while it is under way."""
    space = state.spaces.get(event.namespace)  # type: ignore[attr-defined]
    return space.pipelines.live.get(event.id) if space is not None else None  # type: ignore[attr-defined]


def react_submitted(
    state: State, event: e.PipelineSubmitted | e.PipelineRevived, context: Context
) -> Iterator[Event]:
    pipeline = state.spaces[event.namespace].pipelines.live[event.pipeline.id]
    if pipeline.has_begun:
        yield from begun(state, event.namespace, pipeline, context)


def begun(
    state: State, namespace: Namespace, pipeline: PipelineState, context: Context
) -> Iterator[Event]:
    """The nodes that wait for nothing are ready; one with nothing to do ends."""
    yield from evaluated(namespace, pipeline, list(pipeline.nodes), context)
    yield from closed_if_done(state, namespace, pipeline, context)


def react_recorded(
    state: State, event: e.BatchRecorded | e.ArtifactPut, context: Context
) -> Iterator[Event]:
    """The first batch of a node may start others."""
    pipeline = pipeline_of(state, event)
    if pipeline is not None and len(pipeline.nodes[event.node].batches) == 1:
        names = pipeline.graph.dependents.get(event.node, ())
        yield from evaluated(event.namespace, pipeline, names, context)


def react_ended(
    state: State,
    event: e.NodeFinished | e.NodeSkipped | e.NodeCancelled | e.ArtifactCompleted,
    context: Context,
) -> Iterator[Event]:
    pipeline = pipeline_of(state, event)
    if pipeline is None:
        return
    node = pipeline.nodes[event.node]
    runs_here = node.spec.function in FUNCTIONS and not pipeline.settings.functions_outside
    is_outside = isinstance(event, e.ArtifactCompleted) and not runs_here
    if is_outside and node.is_ready and node.status is NodeStatus.QUEUED:
        yield _finished_outside(event.namespace, pipeline, node, context)
    else:
        yield from dependents_of(state, event.namespace, pipeline, event.node, context)


def react_failed(state: State, event: e.NodeFailed, context: Context) -> Iterator[Event]:
    """A failure that another node handles is a way on; any other ends the pipeline."""
    pipeline = pipeline_of(state, event)
    if pipeline is None:
        return
    if pipeline.nodes[event.node].spec.on_failure or pipeline.is_ending:
        yield from dependents_of(state, event.namespace, pipeline, event.node, context)
    else:
        reason = f"{HARD_FAIL}{event.reason_code}"
        yield from cancelled(state, event.namespace, pipeline, reason, context, failing=True)


def react_lost(state: State, event: e.NodeLost, context: Context) -> Iterator[Event]:
    """Somebody else has it at once, unless it has cost too many workers."""
    pipeline = pipeline_of(state, event)
    if pipeline is None:
        return
    node = pipeline.nodes[event.node]
    if node.losses > LOSSES_MAX:
        yield e.NodeFailed(
            namespace=event.namespace,
            id=event.id,
            node=event.node,
            epoch=node.epoch,
            reason_code=LOST_TOO_OFTEN,
            error=f"{node.losses} workers in a row were lost, or gave it back: {event.reason}",
            at_ms=context.now_ms,
        )
    else:
        yield e.NodeMadeReady(namespace=event.namespace, id=event.id, node=event.node)


def react_made_ready(state: State, event: e.NodeMadeReady, context: Context) -> Iterator[Event]:
    """What needs no worker is done at once."""
    pipeline = pipeline_of(state, event)
    assert pipeline is not None
    node = pipeline.nodes[event.node]
    if node.complete is not None:
        yield _finished_outside(event.namespace, pipeline, node, context)
    elif node.spec.function in FUNCTIONS and not pipeline.settings.functions_outside:
        yield from _run_function(state, event, pipeline, node, context)


def _finished_outside(
    namespace: Namespace, pipeline: PipelineState, node: NodeState, context: Context
) -> Event:
    """Somebody has written its complete artifact: nothing is left to do."""
    assert node.complete is not None
    return e.NodeFinished(
        namespace=namespace,
        id=pipeline.id,
        node=node.spec.node_id,
        epoch=node.epoch + 1,
        meta=node.complete,
        numbers={},
        at_ms=context.now_ms,
    )


def _run_function(
    state: State,
    event: e.NodeMadeReady,
    pipeline: PipelineState,
    node: NodeState,
    context: Context,
) -> Iterator[Event]:
    assert node.spec.function is not None
    epoch = node.epoch + 1
    try:
        done = call_function(
            event.namespace,
            pipeline,
            node.spec.function,
            node.spec.arguments,
            event.node,
            context.now_ms,
        )
    except FloError as error:
        yield failed_attempt(
            event.namespace,
            pipeline,
            node,
            error.code,
            str(error),
            context,
            permanent=False,
            epoch=epoch,
        )
        return
    yield from done.events
    complete = node.complete if node.complete is not None else b"{}"
    yield e.NodeFinished(
        namespace=event.namespace,
        id=event.id,
        node=event.node,
        epoch=epoch,
        meta=complete,
        numbers={},
        at_ms=context.now_ms,
    )


def react_worker_lost(state: State, event: WorkerLost, context: Context) -> Iterator[Event]:
    """The nodes of a worker that is gone go to others at once."""
    known = state.spaces[event.namespace].pipelines
    for pipeline_id, name in list(known.held.get(event.worker_id, ())):
        pipeline = known.live[pipeline_id]
        yield from given_up(
            event.namespace, pipeline, name, f"worker {event.worker_id} is lost", context
        )


def given_up(
    namespace: Namespace, pipeline: PipelineState, name: str, reason: str, context: Context
) -> Iterator[Event]:
    """A node whose worker has it no longer."""
    node = pipeline.nodes[name]
    if node.status is NodeStatus.CANCELLING:
        yield e.NodeCancelled(namespace=namespace, id=pipeline.id, node=name, at_ms=context.now_ms)
    elif node.status is NodeStatus.RUNNING:
        yield e.NodeLost(
            namespace=namespace, id=pipeline.id, node=name, reason=reason, at_ms=context.now_ms
        )
