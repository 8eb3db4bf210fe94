"""Rules of what workers report: batches, ends of nodes, artifacts, events from outside.

A report is fenced if its attempt is over, answered as a duplicate if it is recorded already, and
else recorded: its artifact, its numbers and the end of its input are one event.
"""

from typing import TypeAlias

from flo.engine.context import Context
from flo.engine.decision import Decision
from flo.engine.pipelines import events as e
from flo.engine.pipelines.advance import failed_attempt, given_up
from flo.engine.pipelines.journal import FAILED, PARTIAL, JournalEntry, write
from flo.engine.pipelines.nodes.work import GONE, node_of, verdict_on
from flo.engine.pipelines.records import NodeState, PipelineState
from flo.engine.state import State
from flo.model.base import Event
from flo.model.errors import Conflict
from flo.model.pipelines.hashing import uid_number
from flo.model.pipelines.names import NodeStatus, Reported, Verdict
from flo.model.pipelines.work import (
    BatchReported,
    CompleteNode,
    FailNode,
    FinishInput,
    InputClaim,
    PutArtifact,
    ReleaseNode,
    ReportBatch,
)
from flo.pipeline.metrics import check_ref, numbers_in, read_meta

NodeReport: TypeAlias = (
    ReportBatch | FinishInput | CompleteNode | FailNode | ReleaseNode | PutArtifact
)

DUPLICATE = Reported(verdict=Verdict.DUPLICATE)


def decide_report(state: State, command: ReportBatch, context: Context) -> Decision:
    found = node_of(state, command.namespace, command.id, command.node)
    if found is None:
        return Decision(_batch_reply(GONE))
    pipeline, node = found
    numbers = numbers_in(read_meta(command.meta))
    check_ref(command.artifacts_ref)
    entry = _batch_entry(command, node)
    verdict = verdict_on(node, command.epoch, command.lease_id)
    if verdict.verdict is Verdict.FENCED:
        return _fenced(state, command, pipeline, entry, _batch_reply(verdict), context)
    if verdict.verdict is not Verdict.OK or _is_known(node, command):
        is_ok = verdict.verdict is Verdict.OK
        return Decision(_batch_reply(DUPLICATE if is_ok else verdict))
    written = write(state, command.namespace, pipeline, (entry,), context)
    event: Event
    if command.failure is not None:
        event = e.BatchFailed(
            namespace=command.namespace,
            id=command.id,
            node=command.node,
            length=written.length,
            at_ms=context.now_ms,
        )
    else:
        event = _recorded(command, numbers, written.length, context)
    reply = BatchReported(wait=is_too_far_ahead(pipeline, node, more=1))
    return Decision(reply, (event, *written.events), chunks=written.chunks)


def _batch_entry(command: ReportBatch, node: NodeState) -> JournalEntry:
    failure = command.failure
    worker_id = command.worker_id or node.worker_id
    if failure is None:
        return JournalEntry(
            kind="BATCH_OK",
            node=command.node,
            epoch=command.epoch,
            worker_id=worker_id,
            uid=command.batch_uid,
            status=PARTIAL,
            meta=command.meta,
            ref=command.artifacts_ref,
        )
    payload = {
        "reason_code": failure.reason_code,
        "permanent": failure.permanent,
        "error": failure.error,
    }
    return JournalEntry(
        kind="BATCH_FAILED",
        node=command.node,
        epoch=command.epoch,
        worker_id=worker_id,
        uid=command.batch_uid,
        status=FAILED,
        meta=command.meta,
        ref=command.artifacts_ref,
        payload=payload,
    )


def _recorded(
    command: ReportBatch, numbers: dict[str, float], length: int, context: Context
) -> e.BatchRecorded:
    claim = command.input
    uid: str | int = 0  # its input tells whether it is known
    if claim is None:
        uid = uid_number(command.batch_uid)
    elif not command.input_done:
        uid = command.batch_uid
    return e.BatchRecorded(
        namespace=command.namespace,
        id=command.id,
        node=command.node,
        uid=uid,
        length=length,
        at_ms=context.now_ms,
        numbers=numbers,
        source=claim.from_node if claim is not None else None,
        input=claim.number if claim is not None else 0,
        input_done=command.input_done,
    )


def _is_known(node: NodeState, command: ReportBatch) -> bool:
    """Whether this batch has its result already."""
    if command.input is None:
        return command.failure is None and uid_number(command.batch_uid) in node.uids
    parts = _parts_recorded(node, command.input)
    return parts is None or command.batch_uid in parts


def _parts_recorded(node: NodeState, claim: InputClaim) -> list[str] | None:
    """The recorded parts of a batch that is in progress; None if it is done."""
    taken = node.inputs.get(claim.from_node)
    if taken is None or claim.number >= taken.next:
        raise Conflict(
            f"batch {claim.number} of node {claim.from_node!r} was never handed to node "
            f"{node.spec.node_id!r}: ask for it first",
            code="input_not_taken",
        )
    return taken.in_progress.get(claim.number)


def is_too_far_ahead(pipeline: PipelineState, node: NodeState, more: int = 0) -> bool:
    """Whether a consumer that reads along is too many batches behind."""
    most = node.spec.backlog_max or pipeline.settings.backlog_max
    if most is None:
        return False
    name, count = node.spec.node_id, len(node.batches) + more
    for reader in pipeline.graph.readers.get(name, ()):
        consumer = pipeline.nodes[reader]
        reads_along = consumer.spec.first_batch or consumer.spec.async_parents
        if not reads_along and consumer.status is not NodeStatus.RUNNING:
            continue
        taken = consumer.inputs.get(name)
        if not consumer.finished_at_ms and count - (taken.next if taken else 0) >= most:
            return True
    return False


def _batch_reply(reported: Reported) -> BatchReported:
    return BatchReported(
        verdict=reported.verdict, reason=reported.reason, deadline_at_ms=reported.deadline_at_ms
    )


def _fenced(
    state: State,
    command: NodeReport,
    pipeline: PipelineState,
    entry: JournalEntry,
    reply: Reported | BatchReported,
    context: Context,
) -> Decision:
    """What came too late is written down, and has no effect."""
    fenced = JournalEntry(
        kind=entry.kind,
        node=entry.node,
        epoch=entry.epoch,
        worker_id=entry.worker_id,
        uid=entry.uid,
        payload=entry.payload,
        dedup_id=entry.dedup_id,
        is_fenced=True,
    )
    written = write(state, command.namespace, pipeline, (fenced,), context)
    journaled = e.JournalAppended(
        namespace=command.namespace,
        id=command.id,
        count=1,
        length=written.length,
        at_ms=context.now_ms,
    )
    return Decision(reply, (journaled, *written.events), chunks=written.chunks)


def decide_finish_input(state: State, command: FinishInput, context: Context) -> Decision:
    found = node_of(state, command.namespace, command.id, command.node)
    if found is None:
        return Decision(GONE)
    _, node = found
    verdict = verdict_on(node, command.epoch, command.lease_id)
    if verdict.verdict is not Verdict.OK:
        return Decision(verdict)
    open_ones = {
        (one.from_node, one.number): None
        for one in command.inputs
        if _parts_recorded(node, one) is not None
    }
    if not open_ones:
        return Decision(DUPLICATE)
    finished = e.InputsFinished(
        namespace=command.namespace,
        id=command.id,
        node=command.node,
        inputs=tuple(open_ones),
        at_ms=context.now_ms,
    )
    return Decision(verdict, (finished,))


def decide_complete(state: State, command: CompleteNode, context: Context) -> Decision:
    found = node_of(state, command.namespace, command.id, command.node)
    if found is None:
        return Decision(GONE)
    pipeline, node = found
    numbers = numbers_in(read_meta(command.meta))
    check_ref(command.artifacts_ref)
    entry = JournalEntry(
        kind="TASK_DONE",
        node=command.node,
        epoch=command.epoch,
        worker_id=command.worker_id or node.worker_id,
        meta=command.meta,
        ref=command.artifacts_ref,
    )
    if node.status is NodeStatus.FINISHED and node.epoch == command.epoch:
        return Decision(DUPLICATE)
    verdict = verdict_on(node, command.epoch, command.lease_id)
    if verdict.verdict is Verdict.FENCED:
        return _fenced(state, command, pipeline, entry, verdict, context)
    if verdict.verdict is not Verdict.OK:
        return Decision(verdict)
    in_progress = sum(len(one.in_progress) for one in node.inputs.values())
    if in_progress:
        raise Conflict(
            f"node {command.node!r} has {in_progress} batches of its sources without a result: "
            "report them, or finish them with FinishInput",
            code="input_in_progress",
        )
    finished = e.NodeFinished(
        namespace=command.namespace,
        id=command.id,
        node=command.node,
        epoch=command.epoch,
        meta=command.meta,
        numbers=numbers,
        at_ms=context.now_ms,
    )
    return _ended(state, command, pipeline, entry, finished, context)


def _ended(
    state: State,
    command: NodeReport,
    pipeline: PipelineState,
    entry: JournalEntry,
    event: Event,
    context: Context,
) -> Decision:
    """The entry comes first: the pipeline may end with the event, and its journal with it."""
    written = write(state, command.namespace, pipeline, (entry,), context)
    journaled = e.JournalAppended(
        namespace=command.namespace,
        id=command.id,
        count=1,
        length=written.length,
        at_ms=context.now_ms,
        node=command.node,
    )
    return Decision(Reported(), (journaled, *written.events, event), chunks=written.chunks)


def decide_fail(state: State, command: FailNode, context: Context) -> Decision:
    found = node_of(state, command.namespace, command.id, command.node)
    if found is None:
        return Decision(GONE)
    pipeline, node = found
    payload = {
        "reason_code": command.reason_code,
        "permanent": command.permanent,
        "error": command.error,
    }
    entry = JournalEntry(
        kind="TASK_FAILED",
        node=command.node,
        epoch=command.epoch,
        worker_id=command.worker_id or node.worker_id,
        payload=payload,
    )
    if node.epoch == command.epoch and node.status in (NodeStatus.DEFERRED, NodeStatus.FAILED):
        return Decision(DUPLICATE)
    verdict = verdict_on(node, command.epoch, command.lease_id)
    if verdict.verdict is Verdict.FENCED:
        return _fenced(state, command, pipeline, entry, verdict, context)
    if verdict.verdict is Verdict.CANCELLED:
        stopped = e.NodeCancelled(
            namespace=command.namespace, id=command.id, node=command.node, at_ms=context.now_ms
        )
        return _ended(state, command, pipeline, entry, stopped, context)
    if verdict.verdict is not Verdict.OK:
        return Decision(verdict)
    failed = failed_attempt(
        command.namespace,
        pipeline,
        node,
        command.reason_code,
        command.error,
        context,
        permanent=command.permanent,
        epoch=node.epoch,
    )
    return _ended(state, command, pipeline, entry, failed, context)


def decide_release(state: State, command: ReleaseNode, context: Context) -> Decision:
    found = node_of(state, command.namespace, command.id, command.node)
    if found is None:
        return Decision(GONE)
    pipeline, node = found
    entry = JournalEntry(
        kind="CANCELLED",
        node=command.node,
        epoch=command.epoch,
        worker_id=command.worker_id or node.worker_id,
        payload={"reason": command.reason},
    )
    verdict = verdict_on(node, command.epoch, command.lease_id)
    if verdict.verdict is Verdict.FENCED:
        return _fenced(state, command, pipeline, entry, verdict, context)
    if command.keep and verdict.verdict is Verdict.OK:
        return Decision(verdict)
    (event,) = given_up(command.namespace, pipeline, command.node, command.reason, context)
    return _ended(state, command, pipeline, entry, event, context)


def decide_put(state: State, command: PutArtifact, context: Context) -> Decision:
    found = node_of(state, command.namespace, command.id, command.node)
    if found is None:
        return Decision(GONE)
    pipeline, node = found
    read_meta(command.meta)
    check_ref(command.artifacts_ref)
    if command.epoch is not None:
        verdict = verdict_on(node, command.epoch, command.lease_id)
        if verdict.verdict is not Verdict.OK:
            return Decision(verdict)
    if command.epoch is None and node.status is NodeStatus.FINISHED:
        raise Conflict(
            f"node {command.node!r} has finished: it makes no more artifacts",
            code="pipeline_node_finished",
        )
    uid = uid_number(command.batch_uid)
    is_handed = not command.progress and uid not in node.uids
    entry = JournalEntry(
        kind="",
        node=command.node,
        epoch=command.epoch if command.epoch is not None else node.epoch,
        worker_id=command.worker_id or node.worker_id,
        uid=command.batch_uid,
        status=PARTIAL,
        meta=command.meta,
        ref=command.artifacts_ref,
        is_handed=is_handed,
    )
    written = write(state, command.namespace, pipeline, (entry,), context)
    put = e.ArtifactPut(
        namespace=command.namespace,
        id=command.id,
        node=command.node,
        uid=uid,
        handed=is_handed,
        length=written.length,
        at_ms=context.now_ms,
    )
    return Decision(Reported(), (put, *written.events), chunks=written.chunks)
