"""What is shown of pipelines: their nodes, artifacts and events."""

from typing import Any

import msgspec

from flo.model.base import Message
from flo.model.ids import Namespace
from flo.model.pipelines.names import NodeStatus, PipelineStatus


class LeaseView(Message):
    """Who runs a node; a finished one keeps its last lease."""

    worker_id: str
    lease_id: str
    expires_at_ms: int


class NodeView(Message):
    node_id: str
    type: str
    status: NodeStatus
    attempt_epoch: int
    depends_on: list[str]
    fan_in: str
    spec: dict[str, Any]
    """The node as it stands in the graph."""
    lease: LeaseView | None = None
    batches: int = 0
    """Batches that it has handed to its consumers."""
    batches_failed: int = 0
    batches_in: int = 0
    """Batches of its sources that it is done with."""
    in_progress: int = 0
    """Batches of its sources that it has, and has not reported."""
    behind: int = 0
    """Batches of its sources that it has not asked for yet."""
    stats: dict[str, Any] = msgspec.field(default_factory=dict)
    stats_at_ms: int | None = None
    started_at_ms: int | None = None
    finished_at_ms: int | None = None
    last_event_at_ms: int | None = None
    next_retry_at_ms: int | None = None
    last_error: str | None = None
    """The reason code of the last failure."""
    error: str | None = None
    retries: int = 0
    is_ready: bool = False
    """It waits for a worker, or for a place under a limit."""
    started_on_first_batch: bool = False
    complete: bytes | None = None
    """The meta of its complete artifact."""


class PipelineView(Message):
    id: str
    namespace: Namespace
    status: PipelineStatus
    created_at_ms: int
    finished_at_ms: int | None
    updated_at_ms: int
    params: dict[str, Any]
    graph: dict[str, Any]
    """As it was submitted; `nodes` below say what has become of them."""
    nodes: list[NodeView]
    vars: dict[str, Any] = msgspec.field(default_factory=dict)
    result: dict[str, Any] | None = None
    """`nodes`: for each node its `node_id` and `stats`; once it has finished."""
    graph_name: str | None = None
    idempotency_key: str | None = None
    cancelled: bool = False
    cancel_reason: str | None = None
    cancelled_at_ms: int | None = None
    suspected_at_ms: int | None = None
    """Since when nothing was heard of it for too long."""
    last_event_at_ms: int | None = None
    extra: dict[str, Any] = msgspec.field(default_factory=dict)
    """What patches have set beside, by path."""
    updates: int = 0
    """How often it has changed."""


class PipelineSummary(Message):
    id: str
    namespace: Namespace
    status: PipelineStatus
    created_at_ms: int
    finished_at_ms: int | None
    nodes: dict[str, int]
    """How many nodes have each status."""
    graph_name: str | None = None
    cancel_reason: str | None = None


class PipelinePage(Message):
    items: list[PipelineSummary]
    cursor: str | None = None


class ArtifactView(Message):
    """An artifact of a node: a batch, or with `status` complete what it made as a whole.

    A batch that failed and then succeeded stands here twice; the later one counts.
    """

    number: int
    """Its place in the journal of the pipeline: ask on after it. 0 of a complete one."""
    node_id: str
    status: str
    """partial, failed or complete."""
    batch_uid: str | None
    meta: bytes
    artifacts_ref: bytes | None
    attempt_epoch: int
    worker_id: str | None
    created_at_ms: int
    error: str | None = None
    """The reason code of a failed one."""


class ArtifactPage(Message):
    items: list[ArtifactView] = msgspec.field(default_factory=list)
    last: int = 0
    """Ask on after this."""
    ended: bool = False
    """The pipeline has ended, and there is nothing after `last`. Complete artifacts are in here."""


class PipelineEventView(Message):
    """Something that happened in a pipeline, in the words of FlowKit's envelopes."""

    number: int
    """Its place: ask on after it."""
    at_ms: int
    kind: str
    """TASK_START, CANCEL, TASK_ACCEPTED, TASK_HEARTBEAT, BATCH_OK, BATCH_FAILED, TASK_DONE,
    TASK_FAILED or CANCELLED."""
    pipeline_id: str
    node_id: str
    step_type: str
    attempt_epoch: int
    worker_id: str | None
    payload: dict[str, Any]
    """That of the envelope, without `kind` and `worker_id`."""
    dedup_id: str
    fenced: bool = False
    """It was recorded, and had no effect: it came too late."""


class PipelineEventPage(Message):
    items: list[PipelineEventView] = msgspec.field(default_factory=list)
    last: int = 0
    """Ask on after this."""
    ended: bool = False


class StoredGraphView(Message):
    name: str
    namespace: Namespace
    graph: dict[str, Any]
    version: int
    created_at_ms: int


class StoredGraphPage(Message):
    items: list[StoredGraphView]
    cursor: str | None = None
