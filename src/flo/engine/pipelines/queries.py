"""Queries about pipelines: one, lists, artifacts, events, stored graphs, the watch of a node."""

from collections.abc import Callable, Iterator
from typing import TypeVar

from flo.engine.context import Context
from flo.engine.lists.paging import number_below, page_of
from flo.engine.lists.portion import page_of_portion
from flo.engine.pipelines.journal import COMPLETE, artifact_view, event_view
from flo.engine.pipelines.lookups import ended_pipeline, found_page, journal_of
from flo.engine.pipelines.nodes.reports import is_too_far_ahead
from flo.engine.pipelines.nodes.work import GONE, node_of, verdict_on
from flo.engine.pipelines.records import NodeState, PipelineState
from flo.engine.pipelines.results import result_of
from flo.engine.pipelines.rules import no_pipeline
from flo.engine.state import State
from flo.model.errors import NotFound
from flo.model.ids import Namespace
from flo.model.pipelines.names import PIPELINE_ENDED, NodeStatus, PipelineStatus, Reported
from flo.model.pipelines.pipelines import (
    GetPipeline,
    GetPipelineGraph,
    GetPipelineSettings,
    ListArtifacts,
    ListPipelineGraphs,
    ListPipelines,
    PipelineEnded,
    PipelineSettings,
    ReadPipelineEvents,
    WaitPipeline,
)
from flo.model.pipelines.views import (
    ArtifactPage,
    ArtifactView,
    LeaseView,
    NodeView,
    PipelineEventPage,
    PipelinePage,
    PipelineSummary,
    PipelineView,
    StoredGraphPage,
    StoredGraphView,
)
from flo.model.pipelines.work import WatchNode
from flo.model.storage.records import StreamRecord

PAGE_LENGTH_MAX = 2 * 1024 * 1024
SCANNED_MAX = 10_000
"""So many entries of a journal are looked at for one page of those that fit."""

T = TypeVar("T")


def _pipeline(
    state: State, namespace: Namespace, pipeline_id: str, context: Context
) -> PipelineState:
    """The pipeline, under way or ended."""
    space = state.space(namespace)
    live = space.pipelines.live.get(pipeline_id)
    if live is not None:
        return live
    ended = ended_pipeline(space, pipeline_id, context)
    if ended is None:
        raise no_pipeline(pipeline_id)
    return PipelineState(ended)


def get_pipeline(state: State, query: GetPipeline, context: Context) -> PipelineView:
    pipeline = _pipeline(state, query.namespace, query.id, context)
    return pipeline_view(query.namespace, pipeline)


def wait_pipeline(state: State, query: WaitPipeline, context: Context) -> PipelineEnded:
    pipeline = _pipeline(state, query.namespace, query.id, context)
    if pipeline.status not in PIPELINE_ENDED:
        return PipelineEnded()
    return PipelineEnded(pipeline=pipeline_view(query.namespace, pipeline))


def list_pipelines(state: State, query: ListPipelines, context: Context) -> PipelinePage:
    space = state.space(query.namespace)
    number_below(query, space.pipelines.number + 1)  # a cursor that makes no sense is refused
    shown, cursor = page_of_portion(found_page(space, context), query)
    items = [
        PipelineSummary(
            id=one.id,
            namespace=query.namespace,
            status=one.status,
            created_at_ms=one.created_at_ms,
            finished_at_ms=one.finished_at_ms,
            nodes=one.nodes,
            graph_name=one.graph_name,
            cancel_reason=one.cancel_reason,
        )
        for one in shown
    ]
    return PipelinePage(items=items, cursor=cursor)


def pipeline_view(namespace: Namespace, pipeline: PipelineState) -> PipelineView:
    settings = pipeline.settings
    return PipelineView(
        id=pipeline.id,
        namespace=namespace,
        status=pipeline.status,
        created_at_ms=settings.created_at_ms,
        finished_at_ms=pipeline.finished_at_ms,
        updated_at_ms=pipeline.updated_at_ms,
        params=pipeline.params,
        graph=pipeline.document,
        nodes=[node_view(pipeline, node) for node in pipeline.nodes.values()],
        vars=pipeline.vars,
        result=result_of(pipeline) if pipeline.status is PipelineStatus.FINISHED else None,
        graph_name=settings.graph_name,
        idempotency_key=settings.idempotency_key,
        cancelled=pipeline.cancelled_at_ms is not None,
        cancel_reason=pipeline.cancel_reason,
        cancelled_at_ms=pipeline.cancelled_at_ms,
        suspected_at_ms=pipeline.suspected_at_ms,
        last_event_at_ms=pipeline.heard_at_ms,
        extra=pipeline.extra,
        updates=pipeline.updates,
    )


def node_view(pipeline: PipelineState, node: NodeState) -> NodeView:
    spec, name = node.spec, node.spec.node_id
    document = next(one for one in pipeline.document["nodes"] if one["node_id"] == name)
    lease = None
    if node.lease_id and node.worker_id is not None:
        lease = LeaseView(
            worker_id=node.worker_id, lease_id=node.lease_id, expires_at_ms=node.lease_until_ms
        )
    sources = {*node.spec.sources, *node.inputs}
    made = sum(len(pipeline.nodes[one].batches) for one in sources if one in pipeline.nodes)
    return NodeView(
        node_id=name,
        type=spec.type,
        status=node.status,
        attempt_epoch=node.epoch,
        depends_on=list(spec.depends_on),
        fan_in=spec.fan_in,
        spec=document,
        lease=lease,
        batches=len(node.batches),
        batches_failed=node.batches_failed,
        batches_in=sum(one.done for one in node.inputs.values()),
        in_progress=sum(len(one.in_progress) for one in node.inputs.values()),
        behind=made - sum(one.next for one in node.inputs.values()),
        stats=node.stats,
        stats_at_ms=node.stats_at_ms,
        started_at_ms=node.started_at_ms,
        finished_at_ms=node.finished_at_ms,
        last_event_at_ms=node.heard_at_ms,
        next_retry_at_ms=node.deadline_ms if node.status is NodeStatus.DEFERRED else None,
        last_error=node.last_error,
        error=node.error,
        retries=node.retries,
        is_ready=node.is_ready,
        started_on_first_batch=node.on_first_batch,
        complete=node.complete,
    )


def list_artifacts(state: State, query: ListArtifacts, context: Context) -> ArtifactPage:
    pipeline = _pipeline(state, query.namespace, query.id, context)
    if query.node is not None and query.node not in pipeline.nodes:
        raise NotFound(
            f"pipeline {query.id!r} has no node {query.node!r}", code="pipeline_node_not_found"
        )

    def fitting(record: StreamRecord) -> ArtifactView | None:
        view = artifact_view(record)
        return view if view is not None and query.node in (None, view.node_id) else None

    items, last = _page(state, query, context, fitting, lambda view: len(view.meta))
    ended = pipeline.status in PIPELINE_ENDED and last >= pipeline.journal_next - 1
    if ended:
        items += _complete_ones(pipeline, query.node)
    return ArtifactPage(items=items, last=last, ended=ended)


def _complete_ones(pipeline: PipelineState, wanted: str | None) -> Iterator[ArtifactView]:
    for name, node in pipeline.nodes.items():
        if node.complete is not None and wanted in (None, name):
            yield ArtifactView(
                number=0,
                node_id=name,
                status=COMPLETE,
                batch_uid=None,
                meta=node.complete,
                artifacts_ref=None,
                attempt_epoch=node.epoch,
                worker_id=node.worker_id,
                created_at_ms=node.finished_at_ms or pipeline.updated_at_ms,
            )


def read_events(state: State, query: ReadPipelineEvents, context: Context) -> PipelineEventPage:
    pipeline = _pipeline(state, query.namespace, query.id, context)
    items, last = _page(
        state, query, context, lambda record: event_view(pipeline, record), lambda view: 1_024
    )
    ended = pipeline.status in PIPELINE_ENDED and last >= pipeline.journal_next - 1
    return PipelineEventPage(items=items, last=last, ended=ended)


def _page(
    state: State,
    query: ListArtifacts | ReadPipelineEvents,
    context: Context,
    fitting: Callable[[StreamRecord], T | None],
    length_of: Callable[[T], int],
) -> tuple[list[T], int]:
    """What fits of a journal, and the place of the last entry that was looked at."""
    journal = journal_of(state, query, context)
    assert journal is not None
    number, following = journal
    if number not in state.journals:
        raise NotFound(
            f"pipeline {query.id!r} ended too long ago: its journal is no longer kept",
            code="pipeline_forgotten",
        )
    items: list[T] = []
    length, last = 0, min(query.after, following - 1)
    for sequence in range(last + 1, min(following, last + 1 + SCANNED_MAX)):
        record = context.records.record(number, sequence)
        if record is None or len(items) >= query.limit or length >= PAGE_LENGTH_MAX:
            break
        last = sequence
        if (view := fitting(record)) is not None:
            items.append(view)
            length += length_of(view)
    return items, last


def get_graph(state: State, query: GetPipelineGraph, context: Context) -> StoredGraphView:
    stored = state.space(query.namespace).pipelines.graphs.get(query.name)
    if stored is None:
        raise NotFound(f"no graph is stored under {query.name!r}", code="pipeline_graph_not_found")
    return StoredGraphView(
        name=query.name,
        namespace=query.namespace,
        graph=stored.graph,
        version=stored.version,
        created_at_ms=stored.created_at_ms,
    )


def list_graphs(state: State, query: ListPipelineGraphs, context: Context) -> StoredGraphPage:
    graphs = state.space(query.namespace).pipelines.graphs
    names, cursor = page_of(graphs, query)
    items = [
        StoredGraphView(
            name=name,
            namespace=query.namespace,
            graph=graphs[name].graph,
            version=graphs[name].version,
            created_at_ms=graphs[name].created_at_ms,
        )
        for name in names
    ]
    return StoredGraphPage(items=items, cursor=cursor)


def get_settings(state: State, query: GetPipelineSettings, context: Context) -> PipelineSettings:
    limits = state.space(query.namespace).pipelines.limits
    return PipelineSettings(
        max_global_running=limits.max_global_running,
        max_type_concurrency=limits.max_type_concurrency,
        event_stream=limits.event_stream,
    )


def watch_node(state: State, query: WatchNode, context: Context) -> Reported:
    found = node_of(state, query.namespace, query.id, query.node)
    if found is None:
        return GONE
    return verdict_on(found[1], query.epoch, query.lease_id)


def must_wait(state: State, query: WatchNode) -> bool:
    """Whether a node is to make no more batches for now."""
    found = node_of(state, query.namespace, query.id, query.node)
    return found is not None and is_too_far_ahead(*found)
