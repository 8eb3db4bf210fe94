"""What a worker of pipelines says and hears: nodes to run, batches to read, results to report.

    AwaitNode ──▸ NodeStart ──▸ NextInput ⇄ ReportBatch … ──▸ CompleteNode | FailNode | ReleaseNode
                      └──▸ HeartbeatNode now and then; WatchNode hears at once of a cancel

A batch of a source is in progress from NextInput until its result is reported. A new attempt gets
what is in progress again, and never what is done. Every report may be sent twice.
"""

from typing import Annotated, Any

import msgspec

from flo.model.base import Message
from flo.model.declare.fields import BlockMs, Checked, ItemCount, Range, Text, about
from flo.model.declare.operation import Command, Permission, Query, operation
from flo.model.declare.route import Route
from flo.model.errors import TooLarge
from flo.model.ids import ERROR_LENGTH_MAX, NAMESPACE_DEFAULT, Namespace, WorkerId, check_worker_id
from flo.model.pipelines.names import (
    HELD_INPUTS_MAX,
    INPUT_BATCHES_DEFAULT,
    INPUT_BATCHES_MAX,
    LEASE_MS_DEFAULT,
    ROLES_MAX,
    ArtifactsRef,
    BatchUid,
    Epoch,
    LeaseId,
    LeaseMs,
    Meta,
    NodeId,
    OfNode,
    PipelineId,
    ReasonCode,
    Reported,
    Values,
    Verdict,
)

NODES_PER_AWAIT_MAX = 100

ErrorText = Annotated[str | None, Text(ERROR_LENGTH_MAX, "an error"), about("What went wrong.")]
PipelineWorkerId = Annotated[WorkerId, Checked(check_worker_id)]
InputNumber = Annotated[int, Range(0), about("The number of a batch of the source, from 0 on.")]


def _check_holds(holds: list[Any]) -> None:
    if len(holds) > HELD_INPUTS_MAX:
        raise TooLarge(f"expected at most {HELD_INPUTS_MAX} held batches, got {len(holds)}")


class NodeStart(Message):
    """A node that is the worker's now, under a lease."""

    id: str
    node: str
    role: str
    epoch: int
    lease_id: str
    lease_expires_at_ms: int
    input_ref: dict[str, Any] | None = None
    input_inline: dict[str, Any] | None = None
    batching: dict[str, Any] | None = None
    function: str | None = None
    """Of a coordinator function: its name."""
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)
    params: dict[str, Any] = msgspec.field(default_factory=dict)
    sources: list[str] = msgspec.field(default_factory=list)
    """The nodes that it reads from, as its graph says."""
    resumed: bool = False
    """The worker had it already, under the same epoch: it was stopped, or did not hear of it."""
    batches_done: int = 0
    """Batches that earlier attempts have recorded."""
    started_at_ms: int = 0


class NodeStarts(Message):
    starts: list[NodeStart] = msgspec.field(default_factory=list)
    draining: bool = False
    """The worker was told to take no more."""


class InputClaim(Message):
    """A batch of a source, in the hands of a consumer."""

    from_node: str
    number: InputNumber


class InputBatch(Message):
    from_node: str
    number: int
    batch_uid: str
    meta: bytes
    artifacts_ref: bytes | None
    created_at_ms: int
    done_uids: list[str] = msgspec.field(default_factory=list)
    """The parts of it whose results are recorded already: they are not to be processed again."""


class InputBatches(Message):
    """Batches to process. `end` says that no source will ever have more."""

    items: list[InputBatch] = msgspec.field(default_factory=list)
    end: bool = False
    verdict: Verdict = Verdict.OK
    reason: str | None = None
    deadline_at_ms: int | None = None


class BatchFailure(Message):
    reason_code: ReasonCode
    permanent: bool = False
    error: ErrorText = None


class BatchReported(Message):
    """The answer to the report of a batch."""

    verdict: Verdict = Verdict.OK
    reason: str | None = None
    deadline_at_ms: int | None = None
    wait: bool = False
    """A consumer is too far behind: make no more batches before WatchNode says so."""


@operation(
    opcode=190,
    permission=Permission.TASKS_WORK,
    repeatable=True,
    http=Route("POST", "/workers/{worker_id}/await-nodes", errors=(404, 409)),
)
class AwaitNode(Command[NodeStarts]):
    """Ask for nodes of these roles, and wait for one.

    A node that is this worker's already, and is not among those that it says it holds, is
    started again under the same epoch.
    """

    worker_id: PipelineWorkerId
    roles: Annotated[list[str], ItemCount(ROLES_MAX, "roles"), about("What it can run.")]
    holds: Annotated[
        list[OfNode],
        Checked(_check_holds),
        about("The nodes that it runs now: pipeline, node and epoch of each."),
    ] = msgspec.field(default_factory=list)
    max_nodes: Annotated[int, Range(1, NODES_PER_AWAIT_MAX), about("The most nodes to answer.")] = 1
    lease_ms: LeaseMs = LEASE_MS_DEFAULT
    block_ms: BlockMs = 0
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(
    opcode=191,
    permission=Permission.TASKS_WORK,
    repeatable=True,
    http=Route("POST", "/pipelines/{id}/nodes/{node}/heartbeat", errors=(404,)),
)
class HeartbeatNode(Command[Reported]):
    """Keep a node: its lease goes on for another `lease_ms`."""

    id: PipelineId
    node: NodeId
    epoch: Epoch
    worker_id: PipelineWorkerId
    lease_id: LeaseId = None
    lease_ms: LeaseMs = LEASE_MS_DEFAULT
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(
    opcode=192,
    permission=Permission.TASKS_WORK,
    http=Route("GET", "/pipelines/{id}/nodes/{node}/watch", errors=(404,)),
)
class WatchNode(Query[Reported]):
    """Wait until a node is cancelled, is another's, or may go on after `wait`."""

    id: PipelineId
    node: NodeId
    epoch: Epoch
    lease_id: LeaseId = None
    waits: Annotated[
        bool, about("Also answer, with the verdict ok, once no consumer is too far behind.")
    ] = False
    block_ms: BlockMs = 0
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(
    opcode=193,
    permission=Permission.TASKS_WORK,
    repeatable=True,
    http=Route("POST", "/pipelines/{id}/nodes/{node}/input", errors=(404,)),
)
class NextInput(Command[InputBatches]):
    """The next batches of some sources, and wait for the first.

    What is in progress and not among those that the worker holds comes first: it was handed to an
    earlier attempt, or its answer was lost.
    """

    id: PipelineId
    node: NodeId
    epoch: Epoch
    from_nodes: Annotated[list[str], about("The sources, in the order in which they are read.")]
    holds: Annotated[
        list[tuple[str, int]],
        Checked(_check_holds),
        about("Source and number of each batch that it has and has not reported."),
    ] = msgspec.field(default_factory=list)
    max_batches: Annotated[
        int, Range(1, INPUT_BATCHES_MAX), about("The most batches to answer.")
    ] = INPUT_BATCHES_DEFAULT
    lease_id: LeaseId = None
    block_ms: BlockMs = 0
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(
    opcode=194,
    batch_opcode=195,
    permission=Permission.TASKS_WORK,
    repeatable=True,
    http=Route("POST", "/pipelines/{id}/nodes/{node}/batches", errors=(404, 409)),
)
class ReportBatch(Command[BatchReported]):
    """Record the result of a batch: its artifact, its metrics, and that its input is done.

    A batch without a uid of its own has that of its input. With `failure` the batch has failed:
    its input stays in progress, and the next attempt gets it again.
    """

    id: PipelineId
    node: NodeId
    epoch: Epoch
    batch_uid: BatchUid
    meta: Meta = b"{}"
    artifacts_ref: ArtifactsRef = None
    input: Annotated[InputClaim | None, about("The batch of a source that it was made of.")] = None
    input_done: Annotated[
        bool, about("Whether this is the last result that is made of its input.")
    ] = True
    failure: Annotated[BatchFailure | None, about("Why it failed, if it did.")] = None
    worker_id: Annotated[str | None, about("Who reports it; else who has the lease.")] = None
    lease_id: LeaseId = None
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(
    opcode=196,
    permission=Permission.TASKS_WORK,
    repeatable=True,
    http=Route("POST", "/pipelines/{id}/nodes/{node}/input/finish", errors=(404, 409)),
)
class FinishInput(Command[Reported]):
    """Say that batches of sources are done, though no result was made of them: an empty list."""

    id: PipelineId
    node: NodeId
    epoch: Epoch
    inputs: Annotated[
        list[InputClaim], ItemCount(INPUT_BATCHES_MAX, "inputs"), about("The batches.")
    ]
    lease_id: LeaseId = None
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(
    opcode=197,
    permission=Permission.TASKS_WORK,
    repeatable=True,
    http=Route("POST", "/pipelines/{id}/nodes/{node}/complete", errors=(404, 409)),
)
class CompleteNode(Command[Reported]):
    """The node has finished. Batches that are in progress refuse it: `input_in_progress`."""

    id: PipelineId
    node: NodeId
    epoch: Epoch
    meta: Meta = b"{}"
    artifacts_ref: ArtifactsRef = None
    worker_id: Annotated[str | None, about("Who reports it; else who has the lease.")] = None
    lease_id: LeaseId = None
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(
    opcode=198,
    permission=Permission.TASKS_WORK,
    repeatable=True,
    http=Route("POST", "/pipelines/{id}/nodes/{node}/fail", errors=(404, 409)),
)
class FailNode(Command[Reported]):
    """The attempt has failed: the node is tried again as its retry policy says, or fails."""

    id: PipelineId
    node: NodeId
    epoch: Epoch
    reason_code: ReasonCode
    permanent: Annotated[bool, about("Whether it fails for good, whatever its policy says.")] = (
        False
    )
    error: ErrorText = None
    worker_id: Annotated[str | None, about("Who reports it; else who has the lease.")] = None
    lease_id: LeaseId = None
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(
    opcode=199,
    permission=Permission.TASKS_WORK,
    http=Route("POST", "/pipelines/{id}/nodes/{node}/release", errors=(404, 409)),
)
class ReleaseNode(Command[Reported]):
    """The worker has stopped the node. A cancelled one has ended; another is offered at once.

    With `keep`, it stays this worker's for as long as its lease goes on.
    """

    id: PipelineId
    node: NodeId
    epoch: Epoch
    reason: Annotated[str, Text(what="reason"), about("Why it was stopped.")] = "cancelled"
    keep: Annotated[bool, about("Whether this worker will go on with it.")] = False
    worker_id: Annotated[str | None, about("Who reports it; else who has the lease.")] = None
    lease_id: LeaseId = None
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(
    opcode=200,
    permission=Permission.TASKS_WORK,
    http=Route("POST", "/pipelines/{id}/nodes/{node}/artifacts", errors=(404, 409)),
)
class PutArtifact(Command[Reported]):
    """Make or change a partial artifact in the middle of a batch.

    Consumers get it, once, unless `progress` says that it is only shown: the result of the batch
    with this uid is yet to come. Without an epoch the artifact is not a worker's, and is not
    fenced.
    """

    id: PipelineId
    node: NodeId
    batch_uid: BatchUid
    meta: Meta = b"{}"
    artifacts_ref: ArtifactsRef = None
    progress: Annotated[bool, about("Whether it is only shown, and not handed over.")] = False
    epoch: Annotated[int | None, Range(0), about("The attempt that makes it.")] = None
    worker_id: Annotated[str | None, about("Who makes it.")] = None
    lease_id: LeaseId = None
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(
    opcode=201,
    permission=Permission.TASKS_WORK,
    repeatable=True,
    http=Route("POST", "/pipelines/{id}/nodes/{node}/events", errors=(404,)),
)
class RecordPipelineEvent(Command[Reported]):
    """Take in an event in FlowKit's words, as it came from a topic: fenced, and counted once.

    Fencing comes before its payload is looked at. What is fenced is recorded too.
    """

    id: PipelineId
    node: NodeId
    kind: Annotated[str, about("TASK_ACCEPTED, BATCH_OK, TASK_DONE and so on.")]
    attempt_epoch: Epoch
    payload: Annotated[Values, about("That of its envelope.")] = msgspec.field(default_factory=dict)
    dedup_id: Annotated[str, Text(512, "a dedup_id"), about("What tells it from others.")] = ""
    namespace: Namespace = NAMESPACE_DEFAULT
