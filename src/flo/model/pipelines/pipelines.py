"""Pipelines: submit, watch, cancel, retry; stored graphs.

submit ──▸ queued ──▸ running ──▸ finished
                        ├──▸ cancelling ──▸ cancelled
                        └──▸ (a node failed for good) cancelling ──▸ failed
"""

from typing import Annotated, Any

import msgspec

from flo.model.base import Message, Nothing
from flo.model.declare.fields import (
    BlockMs,
    Checked,
    Cursor,
    IdempotencyKey,
    Limit,
    Range,
    about,
)
from flo.model.declare.operation import Command, Permission, Query, operation
from flo.model.declare.route import Route
from flo.model.ids import DURATION_MS_MAX, LIST_LIMIT_DEFAULT, NAMESPACE_DEFAULT, Namespace
from flo.model.pipelines.names import (
    CANCEL_GRACE_MS_DEFAULT,
    CANCEL_REASON_DEFAULT,
    EVENTS_PER_READ_DEFAULT,
    EVENTS_PER_READ_MAX,
    CancelReason,
    Graph,
    GraphName,
    NodeId,
    Params,
    PipelineId,
    PipelineStatus,
    Values,
    check_chosen_id,
)
from flo.model.pipelines.views import (
    ArtifactPage,
    PipelineEventPage,
    PipelinePage,
    PipelineView,
    StoredGraphPage,
    StoredGraphView,
)

EventLimit = Annotated[int, Range(1, EVENTS_PER_READ_MAX), about("The most items to answer.")]
After = Annotated[int, Range(0), about("Only what comes after this place; 0 is the start.")]


class Submitted(Message):
    id: str
    duplicate: bool = False
    """It was submitted before with this key, or under this id."""
    warnings: list[str] = msgspec.field(default_factory=list)
    """What a lenient submission lets pass."""


class GraphPublished(Message):
    name: str
    version: int
    changed: bool
    """False if the graph was stored already."""


class PipelineAffected(Message):
    """The status of a pipeline after a command."""

    id: str
    status: PipelineStatus


class PipelineEnded(Message):
    """`pipeline` is None while it has not ended."""

    pipeline: PipelineView | None = None


class PipelineSettings(Message):
    """What holds for all pipelines of a namespace."""

    max_global_running: Annotated[
        int | None, Range(1, 1_000_000), about("The most nodes that run at a time.")
    ] = None
    max_type_concurrency: Annotated[
        dict[str, int], about("The most nodes of a type that run at a time.")
    ] = msgspec.field(default_factory=dict)
    event_stream: Annotated[
        str | None,
        about("A stream that gets every event of every pipeline, as JSON; none without it."),
    ] = None


@operation(
    opcode=170,
    permission=Permission.PIPELINES_SUBMIT,
    http=Route("POST", "/pipelines", status=202, errors=(404, 409, 422), is_body_long=True),
)
class SubmitPipeline(Command[Submitted]):
    """Start a pipeline: a graph that is given, or one that is stored under a name.

    The graph is checked: a mistake in it refuses it, unless it is submitted leniently.
    """

    graph: Graph | None = None
    name: Annotated[GraphName | None, about("A stored graph, if none is given.")] = None
    params: Params = msgspec.field(default_factory=dict)
    id: Annotated[
        str | None,
        Checked(check_chosen_id),
        about("The id it is to have; submitted again under it, it is the same pipeline."),
    ] = None
    idempotency_key: IdempotencyKey | None = None
    lenient: Annotated[bool, about("Let pass what can never become ready, with a warning.")] = False
    functions_outside: Annotated[
        bool, about("A Coordinator process runs all coordinator functions, the known ones too.")
    ] = False
    timeout_ms: Annotated[
        int | None, Range(1, DURATION_MS_MAX), about("It fails if it takes longer.")
    ] = None
    soft_ms: Annotated[
        int | None, Range(1, DURATION_MS_MAX), about("It is deferred after so long a silence.")
    ] = None
    hard_ms: Annotated[
        int | None, Range(1, DURATION_MS_MAX), about("It fails after so long a silence.")
    ] = None
    cancel_grace_ms: Annotated[
        int, Range(0, DURATION_MS_MAX), about("How long nodes may take to stop.")
    ] = CANCEL_GRACE_MS_DEFAULT
    backlog_max: Annotated[
        int | None,
        Range(1, 1_000_000),
        about("A node waits while a consumer is so many batches behind; nodes may say their own."),
    ] = None
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(
    opcode=171,
    permission=Permission.PIPELINES_READ,
    http=Route("GET", "/pipelines/{id}", errors=(404,)),
)
class GetPipeline(Query[PipelineView]):
    """A pipeline, with its nodes, variables and result."""

    id: PipelineId
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(
    opcode=172,
    permission=Permission.PIPELINES_READ,
    http=Route("GET", "/pipelines"),
)
class ListPipelines(Query[PipelinePage]):
    """Pipelines, under way or ended, the newest first."""

    namespace: Namespace = NAMESPACE_DEFAULT
    status: Annotated[PipelineStatus | None, about("Only pipelines in this status.")] = None
    name: Annotated[GraphName | None, about("Only those of this stored graph.")] = None
    limit: Limit = LIST_LIMIT_DEFAULT
    cursor: Cursor = None


@operation(
    opcode=173,
    permission=Permission.PIPELINES_READ,
    http=Route("GET", "/pipelines/{id}/end", errors=(404,)),
)
class WaitPipeline(Query[PipelineEnded]):
    """Wait for the end of a pipeline."""

    id: PipelineId
    namespace: Namespace = NAMESPACE_DEFAULT
    block_ms: BlockMs = 0


@operation(
    opcode=174,
    permission=Permission.PIPELINES_MANAGE,
    http=Route("POST", "/pipelines/{id}/cancel", errors=(404, 409), is_body_optional=True),
)
class CancelPipeline(Command[PipelineAffected]):
    """Cancel a pipeline: nodes that wait are closed at once, those that run are told to stop."""

    id: PipelineId
    reason: CancelReason = CANCEL_REASON_DEFAULT
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(
    opcode=175,
    permission=Permission.PIPELINES_MANAGE,
    http=Route("POST", "/pipelines/{id}/retry", errors=(404, 409), is_body_optional=True),
)
class RetryPipeline(Command[PipelineAffected]):
    """Run failed and cancelled nodes of an ended pipeline again, or a deferred node now.

    What has been recorded stays: only batches without a result are processed again.
    """

    id: PipelineId
    node: Annotated[
        NodeId | None, about("Only this node, with what it waits for and what waits for it.")
    ] = None
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(
    opcode=176,
    permission=Permission.PIPELINES_READ,
    http=Route("GET", "/pipelines/{id}/artifacts", errors=(404,)),
)
class ListArtifacts(Query[ArtifactPage]):
    """The artifacts of a pipeline in the order in which they were made; can wait for the next."""

    id: PipelineId
    node: Annotated[NodeId | None, about("Only of this node.")] = None
    after: After = 0
    limit: EventLimit = EVENTS_PER_READ_DEFAULT
    block_ms: BlockMs = 0
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(
    opcode=177,
    permission=Permission.PIPELINES_READ,
    http=Route("GET", "/pipelines/{id}/events", errors=(404,)),
)
class ReadPipelineEvents(Query[PipelineEventPage]):
    """What happened in a pipeline, in order; can wait for the next event.

    The events of all pipelines are in a stream, if the settings name one: `event_stream`.
    """

    id: PipelineId
    after: After = 0
    limit: EventLimit = EVENTS_PER_READ_DEFAULT
    block_ms: BlockMs = 0
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(
    opcode=178,
    permission=Permission.PIPELINES_DEPLOY,
    http=Route("PUT", "/pipeline-graphs/{name}", errors=(422,), is_body_long=True),
)
class PublishPipeline(Command[GraphPublished]):
    """Store a graph under a name, instead of the one that was there."""

    name: GraphName
    graph: Graph
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(
    opcode=179,
    permission=Permission.PIPELINES_READ,
    http=Route("GET", "/pipeline-graphs/{name}", errors=(404,)),
)
class GetPipelineGraph(Query[StoredGraphView]):
    """A stored graph."""

    name: GraphName
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(
    opcode=180,
    permission=Permission.PIPELINES_READ,
    http=Route("GET", "/pipeline-graphs"),
)
class ListPipelineGraphs(Query[StoredGraphPage]):
    """The stored graphs, by name."""

    namespace: Namespace = NAMESPACE_DEFAULT
    limit: Limit = LIST_LIMIT_DEFAULT
    cursor: Cursor = None


@operation(
    opcode=181,
    permission=Permission.PIPELINES_DEPLOY,
    http=Route("DELETE", "/pipeline-graphs/{name}", errors=(404,)),
)
class DeletePipelineGraph(Command[Nothing]):
    """Delete a stored graph; pipelines of it go on."""

    name: GraphName
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(
    opcode=182,
    permission=Permission.PIPELINES_MANAGE,
    http=Route("PUT", "/pipeline-settings", flat="settings"),
)
class ConfigurePipelines(Command[Nothing]):
    """Set what holds for all pipelines of the namespace: limits, and a stream of events."""

    settings: Annotated[PipelineSettings, about("What is to hold from now on.")]
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(
    opcode=183,
    permission=Permission.PIPELINES_READ,
    http=Route("GET", "/pipeline-settings"),
)
class GetPipelineSettings(Query[PipelineSettings]):
    """What holds for all pipelines of the namespace."""

    namespace: Namespace = NAMESPACE_DEFAULT


class FunctionResult(Message):
    """What a coordinator function answers: `ok` and, for example, `touched`."""

    result: dict[str, Any]


@operation(
    opcode=184,
    permission=Permission.PIPELINES_MANAGE,
    http=Route(
        "POST", "/pipelines/{id}/functions/{function}", errors=(404, 409), is_body_optional=True
    ),
)
class CallPipelineFunction(Command[FunctionResult]):
    """Run a coordinator function of the server on a pipeline: vars.set, vars.merge, vars.incr,
    vars.unset, merge.generic, metrics.aggregate or noop.

    One call is one atomic change. A mistake in the arguments refuses it: `bad_function_args`.
    """

    id: PipelineId
    function: Annotated[str, about("Its name.")]
    arguments: Annotated[Values, about("Its arguments, by name.")] = msgspec.field(
        default_factory=dict
    )
    node: Annotated[NodeId | None, about("The node that it is called for.")] = None
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(
    opcode=185,
    permission=Permission.PIPELINES_MANAGE,
    http=Route("POST", "/pipelines/{id}/patch", errors=(404, 409)),
)
class PatchPipeline(Command[PipelineAffected]):
    """Set, remove or add to single fields of the task document, by dotted paths.

    `coordinator.vars.*` are the variables; `coordinator.cancelled` and
    `nodes.<node id>.coordinator.cancelled`, set to true, cancel; all others are kept beside and
    shown in `extra`.
    """

    id: PipelineId
    set: Annotated[Values, about("Path → value.")] = msgspec.field(default_factory=dict)
    unset: Annotated[list[str], about("Paths.")] = msgspec.field(default_factory=list)
    inc: Annotated[dict[str, float | int], about("Path → number to add.")] = msgspec.field(
        default_factory=dict
    )
    namespace: Namespace = NAMESPACE_DEFAULT
