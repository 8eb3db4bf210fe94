"""The reference model of pipelines: every batch of every node, and what became of it.

It keeps every batch and every result for ever, and so sees one that is lost, skipped or counted
twice; the engine keeps places and counters.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from flo.engine.pipelines.events import (
    ArtifactCompleted,
    ArtifactPut,
    BatchFailed,
    BatchRecorded,
    GraphDeleted,
    GraphStored,
    InputsFinished,
    InputsTaken,
    JournalAppended,
    NodeCancelled,
    NodeCancelling,
    NodeDeferred,
    NodeFailed,
    NodeFinished,
    NodeKept,
    NodeLost,
    NodeMadeReady,
    NodeResumed,
    NodeSkipped,
    NodeStarted,
    PipelineCancelling,
    PipelineClosed,
    PipelineLookedAt,
    PipelinePatched,
    PipelineRevived,
    PipelinesConfigured,
    PipelineSubmitted,
    PipelineSuspected,
    StatsAggregated,
    VarsChanged,
)
from flo.model.base import Event
from flo.model.ids import Namespace
from flo.model.storage.archive import Archived
from flo.model.storage.records import Chunk, StreamRecord
from simulator.checks.invariants import Invariant
from simulator.checks.observer import Observer
from simulator.reference.handlers import reads

PIPELINE_KINDS = {"pipeline", "pipeline-summary", "pipeline-key", "pipeline-id"}
"""What is in the archive and belongs to a pipeline."""
OPEN = ("queued", "deferred", "running", "cancelling")
HELD = ("running", "cancelling")


class NodeTimeline:
    """A node, with all that it ever made and read."""

    def __init__(self, name: str, document: dict[str, Any]) -> None:
        self.name = name
        self.document = document
        self.status = "queued"
        self.is_ready = False
        self.epoch = 0
        self.holder: str | None = None
        self.until_ms = 0
        self.retries = 0
        self.batches: list[str] = []
        """The uids that were recorded, in order."""
        self.results: list[tuple[str | None, int, str]] = []
        """Source, number and uid of everything that was recorded."""
        self.metas: list[bytes] = []
        """Of each batch."""
        self.taken: dict[str, int] = {}
        self.in_progress: set[tuple[str, int]] = set()
        self.done: set[tuple[str, int]] = set()
        self.total = 0.0
        """The sum of `count` over all results."""
        self.stats: dict[str, float] = {}

    @property
    def retries_max(self) -> int:
        policy = self.document.get("retry_policy") or {}
        return int(policy.get("max", 2))

    def __str__(self) -> str:
        return f"{self.name} ({self.status}, epoch {self.epoch}, {len(self.batches)} batches)"


class PipelineTimeline:
    def __init__(self, namespace: Namespace, event: PipelineSubmitted) -> None:
        record = event.pipeline
        self.namespace, self.id, self.number = namespace, record.id, record.number
        self.journal = record.journal
        self.nodes = {
            one["node_id"]: NodeTimeline(one["node_id"], one) for one in record.graph["nodes"]
        }
        self.limits = record
        self.journal_next = 1
        self.ended: str | None = None
        self.reason: str | None = None
        self.is_failing = False
        self.is_asked_to_end = False

    def __str__(self) -> str:
        nodes = ", ".join(map(str, self.nodes.values()))
        return f"{self.namespace}/{self.id} ({self.ended or 'live'}): {nodes}"


class PipelineReference:
    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._hold = observer.hold
        self.pipelines: dict[tuple[Namespace, str], PipelineTimeline] = {}
        self.numbers: dict[Namespace, int] = {}
        self.keys: dict[tuple[Namespace, str], str] = {}
        self.journals: set[int] = set()
        self.graphs: dict[tuple[Namespace, str], int] = {}
        self.limits: dict[Namespace, PipelinesConfigured] = {}
        self._arriving: dict[int, list[StreamRecord]] = {}
        self._closed_now: set[tuple[Namespace, int]] = set()

    @property
    def live(self) -> dict[tuple[Namespace, str], PipelineTimeline]:
        return {key: one for key, one in self.pipelines.items() if one.ended is None}

    def forget(self, namespace: Namespace) -> None:
        for key in [key for key in self.pipelines if key[0] == namespace]:
            del self.pipelines[key]
        for known in (self.numbers, self.limits):
            known.pop(namespace, None)
        for key in [key for key in self.keys if key[0] == namespace]:
            del self.keys[key]
        for key in [key for key in self.graphs if key[0] == namespace]:
            del self.graphs[key]

    def begin(self, events: Sequence[Event], chunks: Sequence[Chunk]) -> list[Chunk]:
        """Take what is for journals; the rest is for streams."""
        self._closed_now.clear()
        for event in events:
            if isinstance(event, PipelineSubmitted):
                self.journals.add(event.pipeline.journal)
        self._arriving.clear()
        others = []
        for chunk in chunks:
            if chunk.stream in self.journals:
                self._arriving.setdefault(chunk.stream, []).extend(chunk.records)
            else:
                others.append(chunk)
        return others

    def finish(self, archived: Sequence[Archived]) -> None:
        left = {number: records for number, records in self._arriving.items() if records}
        self._hold(Invariant.BATCHES_STORED, not left, "no event is about", left)
        rows = {(row.namespace, row.number) for row in archived if row.kind == "pipeline"}
        wanted = {(namespace.partition("~")[0], number) for namespace, number in rows}
        self._hold(Invariant.ARCHIVED_AT_END, wanted == self._closed_now, wanted, self._closed_now)

    def _of(self, event: Any) -> PipelineTimeline:
        pipeline = self.pipelines.get((event.namespace, event.id))
        is_live = pipeline is not None and pipeline.ended is None
        self._hold(Invariant.ENDED_PIPELINES_REST, is_live, event, pipeline)
        assert pipeline is not None
        return pipeline

    def _node(self, event: Any) -> tuple[PipelineTimeline, NodeTimeline]:
        pipeline = self._of(event)
        return pipeline, pipeline.nodes[event.node]

    def _stored(self, pipeline: PipelineTimeline, count: int, event: Event) -> list[StreamRecord]:
        """The next entries of a journal, which came with the event."""
        records = self._arriving.get(pipeline.journal, [])
        some, self._arriving[pipeline.journal] = records[:count], records[count:]
        expected = list(range(pipeline.journal_next, pipeline.journal_next + count))
        whole = [one.sequence for one in some] == expected
        self._hold(Invariant.BATCHES_STORED, whole, event, expected, some)
        pipeline.journal_next += count
        return some

    @reads
    def _submitted(self, event: PipelineSubmitted) -> None:
        record, namespace = event.pipeline, event.namespace
        in_order = record.number == self.numbers.get(namespace, 0) + 1
        is_new = (namespace, record.id) not in self.pipelines
        self._hold(Invariant.PIPELINES_NUMBERED, in_order and is_new, event)
        if record.idempotency_key is not None:
            key = (namespace, record.idempotency_key)
            self._hold(Invariant.PIPELINES_NUMBERED, key not in self.keys, event, self.keys)
            self.keys[key] = record.id
        self.numbers[namespace] = record.number
        self.pipelines[namespace, record.id] = PipelineTimeline(namespace, event)

    @reads
    def _revived(self, event: PipelineRevived) -> None:
        pipeline = self.pipelines[event.namespace, event.pipeline.id]
        self._hold(Invariant.ENDED_PIPELINES_REST, pipeline.ended is not None, event, pipeline)
        pipeline.ended = pipeline.reason = None
        pipeline.is_failing = pipeline.is_asked_to_end = False
        for name in event.nodes:
            node = pipeline.nodes[name]
            self._hold(Invariant.NODES_IN_ORDER, node.status != "finished", event, node)
            node.status, node.retries, node.is_ready = "queued", 0, False

    @reads
    def _journaled(self, event: JournalAppended) -> None:
        self._stored(self._of(event), event.count, event)

    @reads
    def _made_ready(self, event: NodeMadeReady) -> None:
        pipeline, node = self._node(event)
        may = node.status in ("queued", "deferred") and not node.is_ready
        self._hold(Invariant.NODES_IN_ORDER, may and not pipeline.is_asked_to_end, event, node)
        if node.status == "queued" and not node.epoch:
            self._hold(Invariant.READY_AS_SAID, _is_ready(pipeline, node), event, pipeline)
        node.is_ready = True

    @reads
    def _started(self, event: NodeStarted) -> None:
        pipeline, node = self._node(event)
        in_order = event.epoch == node.epoch + 1 and node.is_ready and node.status not in HELD
        self._hold(Invariant.ONE_WORKER_PER_NODE, in_order, event, node)
        node.status, node.epoch, node.holder = "running", event.epoch, event.worker_id
        node.until_ms, node.is_ready = event.lease_until_ms, False
        limits = self.limits.get(event.namespace)
        if limits is not None:
            self._check_limits(event.namespace, limits, pipeline, node)

    def _check_limits(
        self,
        namespace: Namespace,
        limits: PipelinesConfigured,
        pipeline: PipelineTimeline,
        node: NodeTimeline,
    ) -> None:
        held = [
            one.document["type"]
            for known in self.live.values()
            if known.namespace == namespace
            for one in known.nodes.values()
            if one.status in HELD
        ]
        in_all, role = limits.max_global_running, node.document["type"]
        most = limits.max_type_concurrency.get(role)
        within = (in_all is None or len(held) <= in_all) and (
            most is None or held.count(role) <= most
        )
        self._hold(Invariant.NODE_LIMITS_KEPT, within, pipeline, held, limits)

    @reads
    def _resumed(self, event: NodeResumed) -> None:
        _, node = self._node(event)
        self._hold(Invariant.ONE_WORKER_PER_NODE, node.status in HELD, event, node)
        node.until_ms = max(node.until_ms, event.lease_until_ms)

    @reads
    def _kept(self, event: NodeKept) -> None:
        _, node = self._node(event)
        self._hold(Invariant.ONE_WORKER_PER_NODE, node.status in HELD, event, node)
        node.until_ms = max(node.until_ms, event.lease_until_ms)

    @reads
    def _lost(self, event: NodeLost) -> None:
        _, node = self._node(event)
        self._hold(Invariant.ONE_WORKER_PER_NODE, node.status == "running", event, node)
        if event.reason == "its lease ended":
            is_over = self._observer.at_ms >= node.until_ms
            self._hold(Invariant.NODE_LEASES_KEPT, is_over, event, node.until_ms)
        node.status, node.holder = "queued", None

    @reads
    def _taken(self, event: InputsTaken) -> None:
        pipeline, node = self._node(event)
        first = node.taken.get(event.source, 0)
        there = first + event.count <= len(pipeline.nodes[event.source].batches)
        self._hold(Invariant.BATCHES_HANDED_ON, there and node.status == "running", event, node)
        for number in range(first, first + event.count):
            node.in_progress.add((event.source, number))
        node.taken[event.source] = first + event.count

    @reads
    def _inputs_finished(self, event: InputsFinished) -> None:
        _, node = self._node(event)
        for one in event.inputs:
            self._input_done(event, node, one)

    def _input_done(self, event: Event, node: NodeTimeline, one: tuple[str, int]) -> None:
        is_open = one in node.in_progress and one not in node.done
        self._hold(Invariant.BATCH_DONE_ONCE, is_open, event, node, one)
        node.in_progress.discard(one)
        node.done.add(one)

    @reads
    def _recorded(self, event: BatchRecorded) -> None:
        pipeline, node = self._node(event)
        (record,) = self._stored(pipeline, 1, event)
        entry = msgspec.msgpack.decode(record.payload)
        uid = entry[4]
        is_held = node.status == "running" and entry[2] == node.epoch
        self._hold(Invariant.BATCH_OF_ITS_ATTEMPT, is_held, event, node, entry)
        result = (event.source, event.input, uid)
        self._hold(Invariant.BATCH_DONE_ONCE, result not in node.results, event, node)
        if event.source is None:
            self._hold(Invariant.BATCH_DONE_ONCE, uid not in node.batches, event, node)
        elif event.input_done:
            self._input_done(event, node, (event.source, event.input))
        else:
            is_open = (event.source, event.input) in node.in_progress
            self._hold(Invariant.BATCH_DONE_ONCE, is_open, event, node)
        node.results.append(result)
        node.batches.append(uid)
        node.metas.append(entry[6])
        node.total += msgspec.json.decode(entry[6]).get("count", 0)

    @reads
    def _failed_batch(self, event: BatchFailed) -> None:
        pipeline, node = self._node(event)
        self._stored(pipeline, 1, event)
        self._hold(Invariant.BATCH_OF_ITS_ATTEMPT, node.status == "running", event, node)

    @reads
    def _put(self, event: ArtifactPut) -> None:
        pipeline, node = self._node(event)
        (record,) = self._stored(pipeline, 1, event)
        if event.handed:
            entry = msgspec.msgpack.decode(record.payload)
            node.batches.append(entry[4])
            node.metas.append(entry[6])

    @reads
    def _finished(self, event: NodeFinished) -> None:
        """All that its sources have made has a result, or was said to have none."""
        pipeline, node = self._node(event)
        may = event.epoch in (node.epoch, node.epoch + 1) and node.status not in ("finished",)
        self._hold(Invariant.NODES_IN_ORDER, may, event, node)
        self._hold(Invariant.NO_BATCH_SKIPPED, not node.in_progress, event, node)
        io = node.document.get("io") or {}
        inline = io.get("input_inline") or {}
        for source in (inline.get("input_args") or {}).get("from_nodes", ()):
            made, done = len(pipeline.nodes[source].batches), {
                number for name, number in node.done if name == source
            }  # fmt: skip
            self._hold(
                Invariant.NO_BATCH_SKIPPED, done == set(range(made)), event, pipeline, len(done)
            )
        node.status, node.epoch, node.holder = "finished", event.epoch, None
        node.is_ready = False
        node.total += msgspec.json.decode(event.meta or b"{}").get("count", 0)

    @reads
    def _deferred(self, event: NodeDeferred) -> None:
        _, node = self._node(event)
        node.retries += 1
        within = node.retries <= node.retries_max
        self._hold(Invariant.NODE_RETRIES_BOUNDED, within, event, node)
        node.status, node.epoch, node.holder = "deferred", event.epoch, None
        node.is_ready = False

    @reads
    def _failed(self, event: NodeFailed) -> None:
        _, node = self._node(event)
        self._hold(Invariant.NODES_IN_ORDER, node.status in OPEN, event, node)
        node.status, node.epoch, node.holder = "failed", event.epoch, None
        node.is_ready = False

    @reads
    def _cancelling(self, event: NodeCancelling) -> None:
        _, node = self._node(event)
        self._hold(Invariant.NODES_IN_ORDER, node.status == "running", event, node)
        node.status = "cancelling"

    @reads
    def _cancelled(self, event: NodeCancelled | NodeSkipped) -> None:
        _, node = self._node(event)
        self._hold(Invariant.NODES_IN_ORDER, node.status in OPEN, event, node)
        node.status = "cancelled" if isinstance(event, NodeCancelled) else "skipped"
        node.holder, node.is_ready = None, False

    @reads
    def _aggregated(self, event: StatsAggregated) -> None:
        """Every result counts once in the sums, whatever was tried again."""
        _, node = self._node(event)
        node.stats = event.stats
        total = event.stats.get("count", 0.0)
        self._hold(Invariant.METRICS_EXACT, total == node.total, event, node.total)

    @reads
    def _noted(
        self,
        event: ArtifactCompleted | VarsChanged | PipelinePatched | PipelineSuspected
        | PipelineLookedAt,
    ) -> None:  # fmt: skip
        self._of(event)

    @reads
    def _asked_to_end(self, event: PipelineCancelling) -> None:
        pipeline = self._of(event)
        once = not pipeline.is_asked_to_end
        self._hold(Invariant.ENDED_PIPELINES_REST, once, event, pipeline)
        pipeline.is_asked_to_end, pipeline.is_failing = True, event.failing
        pipeline.reason = event.reason

    @reads
    def _closed(self, event: PipelineClosed) -> None:
        pipeline = self._of(event)
        still_open = [one for one in pipeline.nodes.values() if one.status in OPEN]
        status = "failed" if pipeline.is_failing else "cancelled"
        expected = status if pipeline.is_asked_to_end else "finished"
        as_said = not still_open and event.status == expected
        self._hold(Invariant.PIPELINES_END_AS_SAID, as_said, event, pipeline, expected)
        pipeline.ended = event.status
        self._closed_now.add((event.namespace, pipeline.number))

    @reads
    def _graph_stored(self, event: GraphStored) -> None:
        key = (event.namespace, event.name)
        self._hold(Invariant.PIPELINES_NUMBERED, event.version > self.graphs.get(key, 0), event)
        self.graphs[key] = event.version

    @reads
    def _graph_deleted(self, event: GraphDeleted) -> None:
        there = (event.namespace, event.name) in self.graphs
        self._hold(Invariant.PIPELINES_NUMBERED, there, event)

    @reads
    def _configured(self, event: PipelinesConfigured) -> None:
        self.limits[event.namespace] = event


def _is_ready(pipeline: PipelineTimeline, node: NodeTimeline) -> bool:
    """Whether a node may start, as its document says it; routing is not drawn in simulations."""
    io = node.document.get("io") or {}
    if io.get("start_when") == "first_batch":
        sources = [pipeline.nodes[one] for one in io["input_inline"]["input_args"]["from_nodes"]]
        return any(one.batches or one.status == "finished" for one in sources)
    names = node.document.get("depends_on") or []
    finished = sum(pipeline.nodes[one].status == "finished" for one in names)
    fan_in = node.document.get("fan_in", "all")
    if fan_in == "all":
        return finished == len(names)
    return finished >= (1 if fan_in == "any" else int(fan_in.partition(":")[2]))
