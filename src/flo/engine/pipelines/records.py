"""Pipelines and nodes as the state has them, and as snapshots and the archive keep them.

    NodeState.batches     where in the journal its batches are: what consumers get, in order
    InputState            of a consumer, for each source: the next batch, and those in progress

Metas are in the journal alone: a batch costs memory for its place, and of a node that makes
batches of its own for 64 bits of its uid until the node has ended.
"""

from array import array
from collections.abc import Iterable
from typing import Any

import msgspec

from flo.model.base import Record
from flo.model.ids import WorkerId
from flo.model.pipelines.names import NODE_ENDED, NodeStatus, PipelineStatus
from flo.pipeline.graph import NodeSpec, PipelineGraph, read_graph
from flo.pipeline.metrics import Totals


class InputState:
    """What a consumer has of one source."""

    __slots__ = ("in_progress", "next")

    def __init__(self, next_number: int = 0, in_progress: dict[int, list[str]] | None = None):
        self.next = next_number
        self.in_progress = in_progress or {}
        """The number of a batch → the uids of those of its parts that are recorded."""

    @property
    def done(self) -> int:
        return self.next - len(self.in_progress)


class NodeInputRecord(Record):
    source: str
    next: int
    in_progress: list[tuple[int, list[str]]]


class NodeRecord(Record):
    node_id: str
    status: NodeStatus = NodeStatus.QUEUED
    epoch: int = 0
    is_ready: bool = False
    worker_id: WorkerId | None = None
    lease_id: str = ""
    lease_until_ms: int = 0
    deadline_ms: int = 0
    """When it is tried again, or given up, as its status says."""
    places: list[int] = msgspec.field(default_factory=list)
    """The places of its batches in the journal, each but the first counted from the one before."""
    uids: list[int] = msgspec.field(default_factory=list)
    batches_failed: int = 0
    inputs: list[NodeInputRecord] = msgspec.field(default_factory=list)
    totals: Totals = msgspec.field(default_factory=dict)
    stats: dict[str, Any] = msgspec.field(default_factory=dict)
    stats_at_ms: int | None = None
    complete: bytes | None = None
    started_at_ms: int | None = None
    finished_at_ms: int | None = None
    heard_at_ms: int | None = None
    last_error: str | None = None
    error: str | None = None
    retries: int = 0
    losses: int = 0
    on_first_batch: bool = False
    cancel_reason: str | None = None


class PipelineRecord(Record):
    id: str
    number: int
    journal: int
    """The number that the store knows its journal by."""
    graph: dict[str, Any]
    params: dict[str, Any]
    created_at_ms: int
    nodes: list[NodeRecord]
    status: PipelineStatus = PipelineStatus.QUEUED
    finished_at_ms: int | None = None
    updated_at_ms: int = 0
    updates: int = 0
    heard_at_ms: int = 0
    graph_name: str | None = None
    idempotency_key: str | None = None
    is_lenient: bool = False
    functions_outside: bool = False
    timeout_at_ms: int | None = None
    soft_ms: int | None = None
    hard_ms: int | None = None
    cancel_grace_ms: int = 0
    backlog_max: int | None = None
    vars: dict[str, Any] = msgspec.field(default_factory=dict)
    extra: dict[str, Any] = msgspec.field(default_factory=dict)
    cancel_reason: str | None = None
    cancelled_at_ms: int | None = None
    is_failing: bool = False
    suspected_at_ms: int | None = None
    journal_next: int = 1
    journal_length: int = 0
    look_at_ms: int | None = None
    """When to look whether it takes too long; it may have been heard of since that was set."""
    parent: str | None = None
    """The workflow run that waits for it."""
    has_begun: bool = True
    """One that a workflow run starts begins with the next tick."""


class PipelineSummaryRecord(Record):
    """What lists show of one that has ended."""

    id: str
    number: int
    status: PipelineStatus
    created_at_ms: int
    finished_at_ms: int | None
    nodes: dict[str, int]
    graph_name: str | None = None
    cancel_reason: str | None = None


class NodeState:
    """A node of a pipeline under way."""

    __slots__ = (
        "batches", "batches_failed", "cancel_reason", "complete", "deadline_ms", "epoch", "error",
        "finished_at_ms", "heard_at_ms", "inputs", "is_ready", "last_error", "lease_id",
        "lease_until_ms", "losses", "on_first_batch", "retries", "spec", "started_at_ms", "stats",
        "stats_at_ms", "status", "totals", "uids", "worker_id",
    )  # fmt: skip

    def __init__(self, spec: NodeSpec, known: NodeRecord) -> None:
        self.spec = spec
        self.status = known.status
        self.epoch = known.epoch
        self.is_ready = known.is_ready
        self.worker_id = known.worker_id
        self.lease_id = known.lease_id
        self.lease_until_ms = known.lease_until_ms
        self.deadline_ms = known.deadline_ms
        self.batches = array("q", _summed(known.places))
        self.uids = set(known.uids)
        self.batches_failed = known.batches_failed
        self.inputs = {
            one.source: InputState(one.next, dict(one.in_progress)) for one in known.inputs
        }
        self.totals: Totals = dict(known.totals)
        self.stats = known.stats
        self.stats_at_ms = known.stats_at_ms
        self.complete = known.complete
        self.started_at_ms = known.started_at_ms
        self.finished_at_ms = known.finished_at_ms
        self.heard_at_ms = known.heard_at_ms
        self.last_error = known.last_error
        self.error = known.error
        self.retries = known.retries
        self.losses = known.losses
        self.on_first_batch = known.on_first_batch
        self.cancel_reason = known.cancel_reason

    @property
    def has_worker(self) -> bool:
        return self.status in (NodeStatus.RUNNING, NodeStatus.CANCELLING)

    def input_of(self, source: str) -> InputState:
        """What it has of a source, for a fold that is about to change it."""
        known = self.inputs.get(source)
        if known is None:
            known = self.inputs[source] = InputState()
        return known

    def record(self) -> NodeRecord:
        return NodeRecord(
            node_id=self.spec.node_id,
            status=self.status,
            epoch=self.epoch,
            is_ready=self.is_ready,
            worker_id=self.worker_id,
            lease_id=self.lease_id,
            lease_until_ms=self.lease_until_ms,
            deadline_ms=self.deadline_ms,
            places=_differences(self.batches),
            uids=sorted(self.uids),
            batches_failed=self.batches_failed,
            inputs=[
                NodeInputRecord(
                    source=source,
                    next=one.next,
                    in_progress=[(number, list(uids)) for number, uids in one.in_progress.items()],
                )
                for source, one in self.inputs.items()
            ],
            totals=dict(self.totals),
            stats=self.stats,
            stats_at_ms=self.stats_at_ms,
            complete=self.complete,
            started_at_ms=self.started_at_ms,
            finished_at_ms=self.finished_at_ms,
            heard_at_ms=self.heard_at_ms,
            last_error=self.last_error,
            error=self.error,
            retries=self.retries,
            losses=self.losses,
            on_first_batch=self.on_first_batch,
            cancel_reason=self.cancel_reason,
        )


class PipelineState:
    """A pipeline under way."""

    def __init__(self, known: PipelineRecord, graph: PipelineGraph | None = None) -> None:
        self.id = known.id
        self.number = known.number
        self.document = known.graph
        self.graph = graph or read_graph(known.graph)
        self.params = known.params
        self.settings = known
        """What was said when it was submitted; what changes is beside it."""
        self.nodes = {
            one.node_id: NodeState(self.graph.nodes[one.node_id], one) for one in known.nodes
        }
        self.status = known.status
        self.finished_at_ms = known.finished_at_ms
        self.updated_at_ms = known.updated_at_ms
        self.updates = known.updates
        self.heard_at_ms = known.heard_at_ms
        self.vars = known.vars
        self.extra = known.extra
        self.cancel_reason = known.cancel_reason
        self.cancelled_at_ms = known.cancelled_at_ms
        self.is_failing = known.is_failing
        self.suspected_at_ms = known.suspected_at_ms
        self.journal = known.journal
        self.journal_next = known.journal_next
        self.journal_length = known.journal_length
        self.look_at_ms = known.look_at_ms
        self.has_begun = known.has_begun
        self.length = 0
        """About how many bytes of memory it takes, as the container counts it."""
        self.open_count = sum(node.status not in NODE_ENDED for node in self.nodes.values())

    @property
    def is_ending(self) -> bool:
        return self.status is PipelineStatus.CANCELLING

    def record(self) -> PipelineRecord:
        known = self.settings
        return PipelineRecord(
            id=self.id,
            number=self.number,
            journal=self.journal,
            graph=self.document,
            params=self.params,
            created_at_ms=known.created_at_ms,
            nodes=[node.record() for node in self.nodes.values()],
            status=self.status,
            finished_at_ms=self.finished_at_ms,
            updated_at_ms=self.updated_at_ms,
            updates=self.updates,
            heard_at_ms=self.heard_at_ms,
            graph_name=known.graph_name,
            idempotency_key=known.idempotency_key,
            is_lenient=known.is_lenient,
            functions_outside=known.functions_outside,
            timeout_at_ms=known.timeout_at_ms,
            soft_ms=known.soft_ms,
            hard_ms=known.hard_ms,
            cancel_grace_ms=known.cancel_grace_ms,
            backlog_max=known.backlog_max,
            vars=self.vars,
            extra=self.extra,
            cancel_reason=self.cancel_reason,
            cancelled_at_ms=self.cancelled_at_ms,
            is_failing=self.is_failing,
            suspected_at_ms=self.suspected_at_ms,
            journal_next=self.journal_next,
            journal_length=self.journal_length,
            look_at_ms=self.look_at_ms,
            parent=known.parent,
            has_begun=self.has_begun,
        )


def _differences(places: Iterable[int]) -> list[int]:
    before, found = 0, []
    for place in places:
        found.append(place - before)
        before = place
    return found


def _summed(differences: Iterable[int]) -> Iterable[int]:
    place = 0
    for difference in differences:
        place += difference
        yield place
