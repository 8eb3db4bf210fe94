"""What the log remembers of pipelines. The batches themselves are in journals, beside the log."""

from typing import Any

from flo.engine.pipelines.records import PipelineRecord
from flo.model.base import Event
from flo.model.ids import Namespace, WorkerId
from flo.model.pipelines.names import PipelineStatus


class PipelineSubmitted(Event):
    namespace: Namespace
    pipeline: PipelineRecord


class PipelineRevived(Event):
    """One that had ended is tried again: the nodes that are named start anew."""

    namespace: Namespace
    pipeline: PipelineRecord
    """As it ended."""
    nodes: tuple[str, ...]
    at_ms: int


class JournalAppended(Event):
    """Entries that lead to nothing else are in the journal, in the same append."""

    namespace: Namespace
    id: str
    count: int
    length: int
    at_ms: int
    node: str | None = None
    """The node that was heard of, unless what came was fenced."""


class NodeMadeReady(Event):
    """It waits for a worker from now on."""

    namespace: Namespace
    id: str
    node: str
    on_first_batch: bool = False


class NodeStarted(Event):
    namespace: Namespace
    id: str
    node: str
    epoch: int
    worker_id: WorkerId
    lease_id: str
    lease_until_ms: int
    at_ms: int


class NodeResumed(Event):
    """The same worker has it again, under the same epoch and another lease."""

    namespace: Namespace
    id: str
    node: str
    lease_id: str
    lease_until_ms: int
    at_ms: int


class NodeKept(Event):
    """Its worker gave a sign of life."""

    namespace: Namespace
    id: str
    node: str
    worker_id: WorkerId
    lease_until_ms: int
    at_ms: int


class NodeLost(Event):
    """Its worker is gone, or has given it back: it is offered to others at once."""

    namespace: Namespace
    id: str
    node: str
    reason: str
    at_ms: int


class InputsTaken(Event):
    """Batches of a source are in progress, from the first that was not."""

    namespace: Namespace
    id: str
    node: str
    source: str
    count: int


class InputsFinished(Event):
    """Batches of sources are done, without a result."""

    namespace: Namespace
    id: str
    node: str
    inputs: tuple[tuple[str, int], ...]
    at_ms: int


class BatchRecorded(Event):
    """A batch has its result, which is the next entry of the journal."""

    namespace: Namespace
    id: str
    node: str
    uid: str | int
    """The uid of a part of an input that is not done yet, 64 bits that stand for the uid of a batch
    without an input; else 0."""
    length: int
    at_ms: int
    numbers: dict[str, float]
    source: str | None = None
    input: int = 0
    input_done: bool = True


class BatchFailed(Event):
    """A batch has failed, which is the next entry of the journal; its input is in progress yet."""

    namespace: Namespace
    id: str
    node: str
    length: int
    at_ms: int


class ArtifactPut(Event):
    """An artifact that is no result of a batch is the next entry of the journal."""

    namespace: Namespace
    id: str
    node: str
    uid: int
    handed: bool
    """Consumers get it."""
    length: int
    at_ms: int


class ArtifactCompleted(Event):
    """A coordinator function wrote the complete artifact of a node."""

    namespace: Namespace
    id: str
    node: str
    meta: bytes
    at_ms: int


class NodeFinished(Event):
    namespace: Namespace
    id: str
    node: str
    epoch: int
    meta: bytes
    numbers: dict[str, float]
    at_ms: int


class NodeDeferred(Event):
    """It failed, and is tried again."""

    namespace: Namespace
    id: str
    node: str
    epoch: int
    reason_code: str
    error: str | None
    retry_at_ms: int
    at_ms: int


class NodeFailed(Event):
    namespace: Namespace
    id: str
    node: str
    epoch: int
    reason_code: str
    error: str | None
    at_ms: int


class NodeCancelling(Event):
    """Its worker is to stop it by the deadline."""

    namespace: Namespace
    id: str
    node: str
    reason: str
    deadline_ms: int
    at_ms: int


class NodeCancelled(Event):
    namespace: Namespace
    id: str
    node: str
    at_ms: int
    reason: str = ""


class NodeSkipped(Event):
    """It can never become ready."""

    namespace: Namespace
    id: str
    node: str
    at_ms: int


class VarsChanged(Event):
    namespace: Namespace
    id: str
    sets: tuple[tuple[tuple[str, ...], Any], ...]
    unsets: tuple[tuple[str, ...], ...]
    at_ms: int


class StatsAggregated(Event):
    namespace: Namespace
    id: str
    node: str
    stats: dict[str, float]
    at_ms: int


class PipelinePatched(Event):
    namespace: Namespace
    id: str
    sets: dict[str, Any]
    unsets: tuple[str, ...]
    at_ms: int


class PipelineCancelling(Event):
    """It ends: cancelled, or failed."""

    namespace: Namespace
    id: str
    reason: str
    failing: bool
    at_ms: int


class PipelineSuspected(Event):
    """Nothing was heard of it for too long."""

    namespace: Namespace
    id: str
    at_ms: int


class PipelineLookedAt(Event):
    """Something was heard of it since its silence was to end; it is looked at again later."""

    namespace: Namespace
    id: str


class PipelineClosed(Event):
    namespace: Namespace
    id: str
    status: PipelineStatus
    at_ms: int
    result: bytes = b""
    """For the workflow run that waits for it: the result document as JSON."""
    error: str | None = None
    """For the workflow run too: why it has not finished."""


class GraphStored(Event):
    namespace: Namespace
    name: str
    graph: dict[str, Any]
    version: int
    at_ms: int


class GraphDeleted(Event):
    namespace: Namespace
    name: str


class PipelinesConfigured(Event):
    namespace: Namespace
    max_global_running: int | None
    max_type_concurrency: dict[str, int]
    event_stream: str | None
