"""Rules of pipelines: submit, cancel, retry, patch; stored graphs and settings."""

from collections.abc import Iterator
from typing import Any

import msgspec

from flo.engine.context import Context
from flo.engine.decision import Decision
from flo.engine.due import DueKey
from flo.engine.pipelines import events as e
from flo.engine.pipelines.advance import begun, cancelled, given_up, node_cancelled
from flo.engine.pipelines.folds import ID_NAME, KEY_NAME
from flo.engine.pipelines.functions import call_function
from flo.engine.pipelines.journal import JournalEntry, Written, write
from flo.engine.pipelines.lookups import ended_pipeline, pipeline_with
from flo.engine.pipelines.records import NodeRecord, PipelineRecord, PipelineState
from flo.engine.state import State
from flo.model.base import Event, Nothing
from flo.model.errors import Conflict, Invalid, NotFound
from flo.model.ids import Namespace, check_namespace, check_stream_name
from flo.model.pipelines.names import (
    NODE_ENDED,
    PIPELINE_PREFIX,
    NodeStatus,
    PipelineStatus,
)
from flo.model.pipelines.pipelines import (
    CallPipelineFunction,
    CancelPipeline,
    ConfigurePipelines,
    DeletePipelineGraph,
    FunctionResult,
    GraphPublished,
    PatchPipeline,
    PipelineAffected,
    PublishPipeline,
    RetryPipeline,
    SubmitPipeline,
    Submitted,
)
from flo.pipeline.graph import PipelineGraph, read_graph
from flo.pipeline.variables import PREFIX, VarsChange, added, check_length, value_at

LIVE_MAX = 100_000
GRAPHS_MAX = 10_000
PATCHES_MAX = 1_000
PATCHES_LENGTH_MAX = 1024 * 1024
"""So many fields may be set beside those of a pipeline."""
TIMEOUT = "timeout"
SILENCE = "heartbeat_timeout"


def decide_submit(state: State, command: SubmitPipeline, context: Context) -> Decision:
    check_namespace(command.namespace)
    known = state.space(command.namespace).pipelines
    for name, key in ((KEY_NAME, command.idempotency_key), (ID_NAME, command.id)):
        if key is not None:
            before = pipeline_with(state.space(command.namespace), name, key, context)
            if before is not None:
                shown = before if name == KEY_NAME else key
                return Decision(Submitted(id=shown, duplicate=True))
    if len(known.live) >= LIVE_MAX:
        raise Conflict(
            f"there are {LIVE_MAX} live pipelines, and that is the most: wait for some to end",
            code="too_many_pipelines",
        )
    document, graph = _graph_of(state, command)
    number = known.number + 1
    record = PipelineRecord(
        id=command.id or f"{PIPELINE_PREFIX}-{number}",
        number=number,
        journal=state.streams_made + 1,
        graph=document,
        params=command.params,
        created_at_ms=context.now_ms,
        nodes=[NodeRecord(node_id=name) for name in graph.nodes],
        updated_at_ms=context.now_ms,
        heard_at_ms=context.now_ms,
        graph_name=command.name,
        idempotency_key=command.idempotency_key,
        is_lenient=command.lenient,
        functions_outside=command.functions_outside,
        timeout_at_ms=context.now_ms + command.timeout_ms if command.timeout_ms else None,
        soft_ms=command.soft_ms,
        hard_ms=command.hard_ms,
        cancel_grace_ms=command.cancel_grace_ms,
        backlog_max=command.backlog_max,
    )
    submitted = e.PipelineSubmitted(namespace=command.namespace, pipeline=record)
    return Decision(Submitted(id=record.id, warnings=list(graph.problems)), (submitted,))


def _graph_of(state: State, command: SubmitPipeline) -> tuple[dict[str, Any], PipelineGraph]:
    document = command.graph
    if document is None:
        if command.name is None:
            raise Invalid("expected a graph, or the name of a stored one, got neither")
        stored = state.space(command.namespace).pipelines.graphs.get(command.name)
        if stored is None:
            raise _no_graph(command.name)
        document = stored.graph
    return document, checked_graph(document, lenient=command.lenient)


def checked_graph(document: dict[str, Any], *, lenient: bool) -> PipelineGraph:
    """The graph of a document; problems refuse it, unless it is taken leniently."""
    graph = read_graph(document)
    if graph.problems and not lenient:
        more = len(graph.problems) - 1
        raise Invalid(
            graph.problems[0] + (f"; and {more} more" if more else ""),
            code="invalid_graph",
            details={"problems": list(graph.problems)},
        )
    return graph


def _no_graph(name: str) -> NotFound:
    return NotFound(
        f"no graph is stored under {name!r}: publish one", code="pipeline_graph_not_found"
    )


def live_pipeline(
    state: State, namespace: Namespace, pipeline_id: str, context: Context
) -> PipelineState:
    """The pipeline, if it is under way; else why it is not."""
    space = state.space(namespace)
    pipeline = space.pipelines.live.get(pipeline_id)
    if pipeline is not None:
        return pipeline
    ended = ended_pipeline(space, pipeline_id, context)
    if ended is None:
        raise no_pipeline(pipeline_id)
    raise Conflict(
        f"pipeline {pipeline_id!r} has ended already: it is {ended.status}",
        code="pipeline_has_ended",
    )


def no_pipeline(pipeline_id: str) -> NotFound:
    return NotFound(f"pipeline {pipeline_id!r} does not exist", code="pipeline_not_found")


def decide_cancel(state: State, command: CancelPipeline, context: Context) -> Decision:
    pipeline = live_pipeline(state, command.namespace, command.id, context)
    reply = PipelineAffected(id=command.id, status=_status_when_ended(pipeline))
    if pipeline.is_ending:
        return Decision(PipelineAffected(id=command.id, status=pipeline.status))
    written, journaled = _signals(state, command.namespace, pipeline, command.reason, context)
    then = cancelled(state, command.namespace, pipeline, command.reason, context, failing=False)
    chunks = written.chunks if written is not None else ()
    return Decision(reply, journaled, chunks=chunks, then=then)


def _status_when_ended(pipeline: PipelineState) -> PipelineStatus:
    is_held = any(node.has_worker for node in pipeline.nodes.values())
    return PipelineStatus.CANCELLING if is_held else PipelineStatus.CANCELLED


def _signals(
    state: State, namespace: Namespace, pipeline: PipelineState, reason: str, context: Context
) -> tuple[Written | None, tuple[Event, ...]]:
    """For the journal: which workers are told to stop."""
    deadline_ms = context.now_ms + pipeline.settings.cancel_grace_ms
    entries = [
        JournalEntry(
            kind="CANCEL",
            node=name,
            epoch=node.epoch,
            worker_id=node.worker_id,
            payload={"reason": reason, "cancel_token": None, "deadline_ts_ms": deadline_ms},
        )
        for name, node in pipeline.nodes.items()
        if node.status is NodeStatus.RUNNING
    ]
    if not entries:
        return None, ()
    written = write(state, namespace, pipeline, entries, context)
    journaled = e.JournalAppended(
        namespace=namespace,
        id=pipeline.id,
        count=len(entries),
        length=written.length,
        at_ms=context.now_ms,
    )
    return written, (journaled, *written.events)


def decide_retry(state: State, command: RetryPipeline, context: Context) -> Decision:
    space = state.space(command.namespace)
    pipeline = space.pipelines.live.get(command.id)
    if pipeline is not None:
        return _retry_live(command, pipeline)
    ended = ended_pipeline(space, command.id, context)
    if ended is None:
        raise no_pipeline(command.id)
    if ended.journal not in state.journals:
        raise Conflict(
            f"pipeline {command.id!r} ended too long ago: its batches are no longer kept",
            code="pipeline_forgotten",
        )
    again = [one.node_id for one in ended.nodes if one.status is not NodeStatus.FINISHED]
    if command.node is not None:
        belonging = read_graph(ended.graph).related_to(command.node)
        again = [name for name in again if name in belonging] if command.node in again else []
    if not again:
        raise Conflict(
            f"expected a node of pipeline {command.id!r} that did not finish, got "
            f"{command.node or 'none'}",
            code="nothing_to_retry",
        )
    revived = e.PipelineRevived(
        namespace=command.namespace, pipeline=ended, nodes=tuple(again), at_ms=context.now_ms
    )
    return Decision(PipelineAffected(id=command.id, status=PipelineStatus.RUNNING), (revived,))


def _retry_live(command: RetryPipeline, pipeline: PipelineState) -> Decision:
    """Nodes that wait for their next attempt have it now."""
    ready = [
        e.NodeMadeReady(namespace=command.namespace, id=command.id, node=name)
        for name, node in pipeline.nodes.items()
        if command.node in (None, name) and node.status is NodeStatus.DEFERRED and not node.is_ready
    ]
    if not ready or pipeline.is_ending:
        raise Conflict(
            f"pipeline {command.id!r} is {pipeline.status}, and no node that was asked for waits "
            "for another attempt",
            code="nothing_to_retry",
        )
    return Decision(PipelineAffected(id=command.id, status=pipeline.status), tuple(ready))


def decide_call(state: State, command: CallPipelineFunction, context: Context) -> Decision:
    pipeline = live_pipeline(state, command.namespace, command.id, context)
    done = call_function(
        command.namespace,
        pipeline,
        command.function,
        command.arguments,
        command.node,
        context.now_ms,
    )
    return Decision(FunctionResult(result=done.result), done.events)


def decide_patch(state: State, command: PatchPipeline, context: Context) -> Decision:
    pipeline = live_pipeline(state, command.namespace, command.id, context)
    events = tuple(_patched(command, pipeline, context))
    reply = PipelineAffected(id=command.id, status=pipeline.status)
    return Decision(reply, events, then=_cancels(state, command, pipeline, context))


def _patched(command: PatchPipeline, pipeline: PipelineState, context: Context) -> Iterator[Event]:
    values: dict[str, Any] = dict(command.set)
    for path, number in command.inc.items():
        values[path] = added(_value_before(pipeline, path), number, path)
    sets = tuple(
        (tuple(path.removeprefix(PREFIX).split(".")), value)
        for path, value in values.items()
        if path.startswith(PREFIX)
    )
    unsets = tuple(
        tuple(path.removeprefix(PREFIX).split("."))
        for path in command.unset
        if path.startswith(PREFIX)
    )
    change = VarsChange(sets, unsets)
    if sets or unsets:
        check_length(pipeline.vars, change)
        yield e.VarsChanged(
            namespace=command.namespace,
            id=command.id,
            sets=change.sets,
            unsets=change.unsets,
            at_ms=context.now_ms,
        )
    beside = {path: value for path, value in values.items() if not path.startswith(PREFIX)}
    gone = tuple(path for path in command.unset if not path.startswith(PREFIX))
    if beside:
        _check_beside(pipeline.extra | beside)
    if beside or gone:
        yield e.PipelinePatched(
            namespace=command.namespace,
            id=command.id,
            sets=beside,
            unsets=gone,
            at_ms=context.now_ms,
        )


def _check_beside(extra: dict[str, Any]) -> None:
    length = len(msgspec.msgpack.encode(extra))
    if len(extra) > PATCHES_MAX or length > PATCHES_LENGTH_MAX:
        raise Conflict(
            f"expected at most {PATCHES_MAX} fields of {PATCHES_LENGTH_MAX} bytes together beside "
            f"those of a pipeline, got {len(extra)} of {length} bytes",
            code="too_many_patches",
        )


def _value_before(pipeline: PipelineState, path: str) -> float | int:
    if path.startswith(PREFIX):
        value = value_at(pipeline.vars, path.removeprefix(PREFIX).split("."))
    else:
        value = pipeline.extra.get(path)
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Invalid(f"expected a number at {path[:80]!r}, got {type(value).__name__}")
    return value


def _cancels(
    state: State, command: PatchPipeline, pipeline: PipelineState, context: Context
) -> Iterator[Event]:
    """The flags that cancel, as FlowKit's documents have them."""
    if command.set.get("coordinator.cancelled") is True:
        reason = str(command.set.get("coordinator.cancel_reason") or "db_flag")
        yield from cancelled(state, command.namespace, pipeline, reason, context, failing=False)
    for name in list(pipeline.nodes):
        if command.set.get(f"nodes.{name}.coordinator.cancelled") is True:
            yield from node_cancelled(command.namespace, pipeline, name, "db_flag", context)


def decide_publish(state: State, command: PublishPipeline, context: Context) -> Decision:
    check_namespace(command.namespace)
    checked_graph(command.graph, lenient=False)
    known = state.space(command.namespace).pipelines
    stored = known.graphs.get(command.name)
    if stored is not None and stored.graph == command.graph:
        reply = GraphPublished(name=command.name, version=stored.version, changed=False)
        return Decision(reply)
    if stored is None and len(known.graphs) >= GRAPHS_MAX:
        raise Conflict(
            f"there are {GRAPHS_MAX} stored graphs, and that is the most: delete some",
            code="too_many_graphs",
        )
    version = known.graph_versions.get(command.name, 0) + 1
    event = e.GraphStored(
        namespace=command.namespace,
        name=command.name,
        graph=command.graph,
        version=version,
        at_ms=context.now_ms,
    )
    return Decision(GraphPublished(name=command.name, version=version, changed=True), (event,))


def decide_delete_graph(state: State, command: DeletePipelineGraph, context: Context) -> Decision:
    if command.name not in state.space(command.namespace).pipelines.graphs:
        raise _no_graph(command.name)
    return Decision(Nothing(), (e.GraphDeleted(namespace=command.namespace, name=command.name),))


def decide_configure(state: State, command: ConfigurePipelines, context: Context) -> Decision:
    check_namespace(command.namespace)
    settings = command.settings
    for role, most in settings.max_type_concurrency.items():
        if most < 1:
            raise Invalid(f"expected a limit of 1 or more for {role[:80]!r}, got {most}")
    if settings.event_stream is not None:
        check_stream_name(settings.event_stream)
    event = e.PipelinesConfigured(
        namespace=command.namespace,
        max_global_running=settings.max_global_running,
        max_type_concurrency=settings.max_type_concurrency,
        event_stream=settings.event_stream,
    )
    return Decision(Nothing(), (event,))


def fall_due(state: State, key: DueKey, context: Context) -> Iterator[Event]:
    """A pipeline is to begin, takes too long, or has been silent for too long."""
    _, namespace, pipeline_id = key
    pipeline = state.spaces[namespace].pipelines.live[pipeline_id]
    if not pipeline.has_begun:
        yield e.PipelineLookedAt(namespace=namespace, id=pipeline_id)
        yield from begun(state, namespace, pipeline, context)
        return
    settings, silence = pipeline.settings, context.now_ms - pipeline.heard_at_ms
    if settings.timeout_at_ms is not None and settings.timeout_at_ms <= context.now_ms:
        yield from cancelled(state, namespace, pipeline, TIMEOUT, context, failing=True)
    elif settings.hard_ms is not None and silence >= settings.hard_ms:
        yield from cancelled(state, namespace, pipeline, SILENCE, context, failing=True)
    elif (
        settings.soft_ms is not None
        and silence >= settings.soft_ms
        and pipeline.suspected_at_ms is None
    ):
        yield e.PipelineSuspected(namespace=namespace, id=pipeline_id, at_ms=context.now_ms)
    else:
        yield e.PipelineLookedAt(namespace=namespace, id=pipeline_id)


def node_falls_due(state: State, key: DueKey, context: Context) -> Iterator[Event]:
    """A lease has ended, a retry is due, or a cancelled node has not stopped in time."""
    _, namespace, pipeline_id, name = key
    pipeline = state.spaces[namespace].pipelines.live[pipeline_id]
    node = pipeline.nodes[name]
    assert node.status not in NODE_ENDED
    if node.status is NodeStatus.DEFERRED:
        yield e.NodeMadeReady(namespace=namespace, id=pipeline_id, node=name)
    else:
        yield from given_up(namespace, pipeline, name, "its lease ended", context)
