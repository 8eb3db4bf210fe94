"""Folds of pipeline events: how they change pipelines, their nodes, and who waits for what."""

import msgspec
from msgspec.structs import replace

from flo.engine.due import PIPELINE, PIPELINE_NODE
from flo.engine.pipelines import events as e
from flo.engine.pipelines.container import (
    ENDED_KEPT_MAX,
    LivePipelines,
    PipelineLimits,
    StoredGraph,
)
from flo.engine.pipelines.records import NodeState, PipelineState
from flo.engine.state import State
from flo.model.ids import Namespace
from flo.model.pipelines.names import (
    NODE_ENDED,
    NodeStatus,
    PipelineStatus,
    given_number,
)
from flo.pipeline.metrics import add_to
from flo.pipeline.variables import VarsChange, changed

PIPELINE_LENGTH = 4_096
NODE_LENGTH = 2_048
BATCH_LENGTH = 8
UID_LENGTH = 72
"""About how many bytes of memory each takes."""

_encode = msgspec.msgpack.Encoder().encode

KEY_NAME = "key"
ID_NAME = "id"


def apply_submitted(state: State, event: e.PipelineSubmitted) -> None:
    known = state.space_made(event.namespace).pipelines
    record = event.pipeline
    assert record.number > known.number
    known.number = record.number
    state.streams_made = max(state.streams_made, record.journal)
    state.journals.add(record.journal)
    if record.idempotency_key is not None:
        known.keys.run_ids[KEY_NAME, record.idempotency_key] = record.id
    if given_number(record.id) is None:
        known.keys.run_ids[ID_NAME, record.id] = f"pipe-{record.number}"
    put_in(state, event.namespace, known, PipelineState(record))


def apply_revived(state: State, event: e.PipelineRevived) -> None:
    known = state.spaces[event.namespace].pipelines
    record = event.pipeline
    again = set(event.nodes)
    nodes = [
        replace(
            one,
            status=NodeStatus.QUEUED,
            is_ready=False,
            worker_id=None,
            deadline_ms=0,
            finished_at_ms=None,
            retries=0,
            losses=0,
            cancel_reason=None,
            complete=None,
        )
        if one.node_id in again
        else one
        for one in record.nodes
    ]
    alive = replace(
        record,
        nodes=nodes,
        status=PipelineStatus.RUNNING,
        finished_at_ms=None,
        cancel_reason=None,
        cancelled_at_ms=None,
        is_failing=False,
        suspected_at_ms=None,
        heard_at_ms=event.at_ms,
        timeout_at_ms=None,
        look_at_ms=None,
    )
    if record.idempotency_key is not None:
        known.keys.revive((KEY_NAME, record.idempotency_key), record.id)
    if given_number(record.id) is None:
        known.keys.revive((ID_NAME, record.id), f"pipe-{record.number}")
    if record.journal in known.ended:
        known.ended.remove(record.journal)
    put_in(state, event.namespace, known, PipelineState(alive))


def put_in(
    state: State, namespace: Namespace, known: LivePipelines, pipeline: PipelineState
) -> None:
    """Have a pipeline among those under way, with the indexes that follow from it."""
    known.live[pipeline.id] = pipeline
    pipeline.length = length_of(pipeline)
    known.length += pipeline.length
    for name, node in pipeline.nodes.items():
        if node.has_worker:
            known.hold((pipeline.id, name), node)
        _schedule(state, namespace, pipeline, node)
    if pipeline.look_at_ms is None:
        schedule_pipeline(state, namespace, pipeline)
    else:
        state.due.set((PIPELINE, namespace, pipeline.id), pipeline.look_at_ms)


def length_of(pipeline: PipelineState) -> int:
    """About how many bytes of memory a pipeline takes, without its variables."""
    return (
        PIPELINE_LENGTH
        + len(_encode(pipeline.document))
        + len(_encode(pipeline.params))
        + sum(
            NODE_LENGTH + BATCH_LENGTH * len(node.batches) + UID_LENGTH * len(node.uids)
            for node in pipeline.nodes.values()
        )
    )


def schedule_pipeline(state: State, namespace: Namespace, pipeline: PipelineState) -> None:
    """When to look whether it takes too long, or nothing is heard of it."""
    settings, key = pipeline.settings, (PIPELINE, namespace, pipeline.id)
    times = [settings.timeout_at_ms] if settings.timeout_at_ms is not None else []
    if not pipeline.has_begun:
        times.append(settings.created_at_ms)
    if settings.soft_ms is not None and pipeline.suspected_at_ms is None:
        times.append(pipeline.heard_at_ms + settings.soft_ms)
    if settings.hard_ms is not None:
        times.append(pipeline.heard_at_ms + settings.hard_ms)
    pipeline.look_at_ms = min(times) if times and not pipeline.is_ending else None
    if pipeline.look_at_ms is not None:
        state.due.set(key, pipeline.look_at_ms)
    else:
        state.due.clear(key)


def _schedule(state: State, namespace: Namespace, pipeline: PipelineState, node: NodeState) -> None:
    key = (PIPELINE_NODE, namespace, pipeline.id, node.spec.node_id)
    match node.status:
        case NodeStatus.RUNNING:
            state.due.set(key, node.lease_until_ms)
        case NodeStatus.DEFERRED if not node.is_ready:
            state.due.set(key, node.deadline_ms)
        case NodeStatus.CANCELLING:
            state.due.set(key, node.deadline_ms)
        case _:
            state.due.clear(key)


def _touched(state: State, event: "OfPipeline") -> tuple[LivePipelines, PipelineState]:
    known = state.spaces[event.namespace].pipelines
    pipeline = known.live[event.id]
    pipeline.updates += 1
    at_ms = getattr(event, "at_ms", None)
    if at_ms is not None:
        pipeline.updated_at_ms = at_ms
    return known, pipeline


def _heard(state: State, event: "Heard", pipeline: PipelineState, node: NodeState) -> None:
    pipeline.heard_at_ms = node.heard_at_ms = event.at_ms
    if pipeline.status is PipelineStatus.DEFERRED:
        pipeline.status, pipeline.suspected_at_ms = PipelineStatus.RUNNING, None
        schedule_pipeline(state, event.namespace, pipeline)


def _move(
    state: State, event: "OfNodeEvent", status: NodeStatus
) -> tuple[PipelineState, NodeState]:
    """A node goes into a status; who holds what, and what falls due, follow."""
    known, pipeline = _touched(state, event)
    node, key = pipeline.nodes[event.node], (event.id, event.node)
    if node.has_worker and status not in (NodeStatus.RUNNING, NodeStatus.CANCELLING):
        known.let_go(key, node)
    if node.is_ready:
        known.drop_ready(key, node)
    if node.status not in NODE_ENDED and status in NODE_ENDED:
        pipeline.open_count -= 1
        node.finished_at_ms = event.at_ms
        _forget_uids(known, pipeline, node, status)
    node.status = status
    return pipeline, node


def _forget_uids(
    known: LivePipelines, pipeline: PipelineState, node: NodeState, status: NodeStatus
) -> None:
    """What has finished reports no batch again."""
    if status is NodeStatus.FINISHED and node.uids:
        _grow(known, pipeline, -UID_LENGTH * len(node.uids))
        node.uids = set()


def _grow(known: LivePipelines, pipeline: PipelineState, length: int) -> None:
    known.length += length
    pipeline.length += length


def apply_journaled(state: State, event: e.JournalAppended) -> None:
    _, pipeline = _touched(state, event)
    pipeline.journal_next += event.count
    pipeline.journal_length += event.length
    if event.node is not None:
        _heard(state, event, pipeline, pipeline.nodes[event.node])


def apply_made_ready(state: State, event: e.NodeMadeReady) -> None:
    known, pipeline = _touched(state, event)
    node = pipeline.nodes[event.node]
    assert node.status in (NodeStatus.QUEUED, NodeStatus.DEFERRED)
    known.push_ready((event.id, event.node), node)
    node.on_first_batch = node.on_first_batch or event.on_first_batch
    _schedule(state, event.namespace, pipeline, node)


def apply_started(state: State, event: e.NodeStarted) -> None:
    pipeline, node = _move(state, event, NodeStatus.RUNNING)
    assert event.epoch == node.epoch + 1
    node.epoch, node.worker_id = event.epoch, event.worker_id
    node.lease_id, node.lease_until_ms = event.lease_id, event.lease_until_ms
    if node.started_at_ms is None:
        node.started_at_ms = event.at_ms
    if pipeline.status is PipelineStatus.QUEUED:
        pipeline.status = PipelineStatus.RUNNING
    _heard(state, event, pipeline, node)
    state.spaces[event.namespace].pipelines.hold((event.id, event.node), node)
    _schedule(state, event.namespace, pipeline, node)


def apply_resumed(state: State, event: e.NodeResumed) -> None:
    _, pipeline = _touched(state, event)
    node = pipeline.nodes[event.node]
    node.lease_id = event.lease_id
    node.lease_until_ms = max(node.lease_until_ms, event.lease_until_ms)
    _heard(state, event, pipeline, node)
    _schedule(state, event.namespace, pipeline, node)


def apply_kept(state: State, event: e.NodeKept) -> None:
    _, pipeline = _touched(state, event)
    node = pipeline.nodes[event.node]
    node.lease_until_ms = max(node.lease_until_ms, event.lease_until_ms)
    _heard(state, event, pipeline, node)
    _schedule(state, event.namespace, pipeline, node)


def apply_lost(state: State, event: e.NodeLost) -> None:
    pipeline, node = _move(state, event, NodeStatus.QUEUED)
    node.losses += 1
    node.worker_id = None
    _schedule(state, event.namespace, pipeline, node)


def apply_taken(state: State, event: e.InputsTaken) -> None:
    _, pipeline = _touched(state, event)
    taken = pipeline.nodes[event.node].input_of(event.source)
    for number in range(taken.next, taken.next + event.count):
        taken.in_progress[number] = []
    taken.next += event.count


def apply_inputs_finished(state: State, event: e.InputsFinished) -> None:
    _, pipeline = _touched(state, event)
    node = pipeline.nodes[event.node]
    for source, number in event.inputs:
        del node.inputs[source].in_progress[number]
    _heard(state, event, pipeline, node)


def apply_recorded(state: State, event: e.BatchRecorded) -> None:
    known, pipeline = _touched(state, event)
    node = pipeline.nodes[event.node]
    node.batches.append(pipeline.journal_next)
    grown = BATCH_LENGTH
    if event.source is None:
        assert isinstance(event.uid, int)
        assert event.uid not in node.uids
        node.uids.add(event.uid)
        grown += UID_LENGTH
    elif event.input_done:
        del node.inputs[event.source].in_progress[event.input]
    else:
        assert isinstance(event.uid, str)
        node.inputs[event.source].in_progress[event.input].append(event.uid)
    _grow(known, pipeline, grown)
    pipeline.journal_next += 1
    pipeline.journal_length += event.length
    add_to(node.totals, event.numbers)
    node.losses = 0
    _heard(state, event, pipeline, node)


def apply_batch_failed(state: State, event: e.BatchFailed) -> None:
    _, pipeline = _touched(state, event)
    node = pipeline.nodes[event.node]
    node.batches_failed += 1
    pipeline.journal_next += 1
    pipeline.journal_length += event.length
    _heard(state, event, pipeline, node)


def apply_put(state: State, event: e.ArtifactPut) -> None:
    known, pipeline = _touched(state, event)
    node = pipeline.nodes[event.node]
    if event.handed:
        node.batches.append(pipeline.journal_next)
        node.uids.add(event.uid)
        _grow(known, pipeline, BATCH_LENGTH + UID_LENGTH)
    pipeline.journal_next += 1
    pipeline.journal_length += event.length


def apply_artifact_completed(state: State, event: e.ArtifactCompleted) -> None:
    _, pipeline = _touched(state, event)
    pipeline.nodes[event.node].complete = event.meta


def apply_finished(state: State, event: e.NodeFinished) -> None:
    pipeline, node = _move(state, event, NodeStatus.FINISHED)
    node.epoch, node.complete = event.epoch, event.meta
    if node.started_at_ms is None:
        node.started_at_ms = event.at_ms
    node.last_error = node.error = None
    add_to(node.totals, event.numbers)
    if pipeline.status is PipelineStatus.QUEUED:
        pipeline.status = PipelineStatus.RUNNING
    _heard(state, event, pipeline, node)
    _schedule(state, event.namespace, pipeline, node)


def apply_deferred(state: State, event: e.NodeDeferred) -> None:
    pipeline, node = _move(state, event, NodeStatus.DEFERRED)
    node.epoch = event.epoch
    node.retries += 1
    node.deadline_ms = event.retry_at_ms
    node.last_error, node.error = event.reason_code, event.error
    node.worker_id = None
    _heard(state, event, pipeline, node)
    _schedule(state, event.namespace, pipeline, node)


def apply_failed(state: State, event: e.NodeFailed) -> None:
    pipeline, node = _move(state, event, NodeStatus.FAILED)
    node.epoch = event.epoch
    node.last_error, node.error = event.reason_code, event.error
    _heard(state, event, pipeline, node)
    _schedule(state, event.namespace, pipeline, node)


def apply_node_cancelling(state: State, event: e.NodeCancelling) -> None:
    pipeline, node = _move(state, event, NodeStatus.CANCELLING)
    node.cancel_reason, node.deadline_ms = event.reason, event.deadline_ms
    _schedule(state, event.namespace, pipeline, node)


def apply_node_cancelled(state: State, event: e.NodeCancelled) -> None:
    pipeline, node = _move(state, event, NodeStatus.CANCELLED)
    if event.reason:
        node.cancel_reason = event.reason
    _schedule(state, event.namespace, pipeline, node)


def apply_skipped(state: State, event: e.NodeSkipped) -> None:
    pipeline, node = _move(state, event, NodeStatus.SKIPPED)
    _schedule(state, event.namespace, pipeline, node)


def apply_vars(state: State, event: e.VarsChanged) -> None:
    _, pipeline = _touched(state, event)
    pipeline.vars = changed(pipeline.vars, VarsChange(event.sets, event.unsets))


def apply_stats(state: State, event: e.StatsAggregated) -> None:
    _, pipeline = _touched(state, event)
    node = pipeline.nodes[event.node]
    node.stats, node.stats_at_ms = event.stats, event.at_ms


def apply_patched(state: State, event: e.PipelinePatched) -> None:
    _, pipeline = _touched(state, event)
    kept = {path: one for path, one in pipeline.extra.items() if path not in event.unsets}
    pipeline.extra = kept | event.sets


def apply_cancelling(state: State, event: e.PipelineCancelling) -> None:
    _, pipeline = _touched(state, event)
    pipeline.status, pipeline.cancel_reason = PipelineStatus.CANCELLING, event.reason
    pipeline.cancelled_at_ms, pipeline.is_failing = event.at_ms, event.failing
    schedule_pipeline(state, event.namespace, pipeline)


def apply_suspected(state: State, event: e.PipelineSuspected) -> None:
    _, pipeline = _touched(state, event)
    pipeline.status, pipeline.suspected_at_ms = PipelineStatus.DEFERRED, event.at_ms
    schedule_pipeline(state, event.namespace, pipeline)


def apply_looked_at(state: State, event: e.PipelineLookedAt) -> None:
    _, pipeline = _touched(state, event)
    pipeline.has_begun = True
    schedule_pipeline(state, event.namespace, pipeline)


def apply_closed(state: State, event: e.PipelineClosed) -> None:
    """It leaves memory; of too many journals the oldest is let go of."""
    known, pipeline = _touched(state, event)
    assert not pipeline.open_count
    pipeline.status, pipeline.finished_at_ms = event.status, event.at_ms
    del known.live[event.id]
    known.length -= pipeline.length
    state.due.clear((PIPELINE, event.namespace, event.id))
    settings = pipeline.settings
    if settings.idempotency_key is not None:
        state.keys_finished_count += 1
        known.keys.finish((KEY_NAME, settings.idempotency_key))
    if given_number(event.id) is None:
        state.keys_finished_count += 1
        known.keys.finish((ID_NAME, event.id))
    known.ended.append(pipeline.journal)
    if len(known.ended) > ENDED_KEPT_MAX:
        state.journals.discard(known.ended.popleft())


def apply_graph_stored(state: State, event: e.GraphStored) -> None:
    known = state.space_made(event.namespace).pipelines
    known.graphs[event.name] = StoredGraph(event.graph, event.version, event.at_ms)
    known.graph_versions[event.name] = event.version


def apply_graph_deleted(state: State, event: e.GraphDeleted) -> None:
    del state.spaces[event.namespace].pipelines.graphs[event.name]


def apply_configured(state: State, event: e.PipelinesConfigured) -> None:
    state.space_made(event.namespace).pipelines.limits = PipelineLimits(
        max_global_running=event.max_global_running,
        max_type_concurrency=event.max_type_concurrency,
        event_stream=event.event_stream,
    )


OfNodeEvent = (
    e.NodeStarted
    | e.NodeLost
    | e.NodeFinished
    | e.NodeDeferred
    | e.NodeFailed
    | e.NodeCancelling
    | e.NodeCancelled
    | e.NodeSkipped
)
OfPipeline = (
    OfNodeEvent
    | e.JournalAppended
    | e.NodeMadeReady
    | e.NodeResumed
    | e.NodeKept
    | e.InputsTaken
    | e.InputsFinished
    | e.BatchRecorded
    | e.BatchFailed
    | e.ArtifactPut
    | e.ArtifactCompleted
    | e.VarsChanged
    | e.StatsAggregated
    | e.PipelinePatched
    | e.PipelineCancelling
    | e.PipelineSuspected
    | e.PipelineLookedAt
    | e.PipelineClosed
)
Heard = (
    e.JournalAppended
    | e.NodeStarted
    | e.NodeResumed
    | e.NodeKept
    | e.InputsFinished
    | e.BatchRecorded
    | e.BatchFailed
    | e.NodeFinished
    | e.NodeDeferred
    | e.NodeFailed
)
