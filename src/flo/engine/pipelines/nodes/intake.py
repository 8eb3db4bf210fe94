"""Events in FlowKit's words that come from outside: each is the report that it stands for."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from flo.engine.context import Context
from flo.engine.decision import Decision
from flo.engine.pipelines import events as e
from flo.engine.pipelines.advance import failed_attempt
from flo.engine.pipelines.journal import JournalEntry, write
from flo.engine.pipelines.nodes.reports import (
    decide_complete,
    decide_fail,
    decide_release,
    decide_report,
)
from flo.engine.pipelines.nodes.work import GONE, node_of, verdict_on
from flo.engine.pipelines.records import NodeState, PipelineState
from flo.engine.state import State
from flo.model.errors import Invalid
from flo.model.ids import DURATION_MS_MAX
from flo.model.pipelines.names import NodeStatus, Reported, Verdict
from flo.model.pipelines.work import (
    BatchFailure,
    BatchReported,
    CompleteNode,
    FailNode,
    RecordPipelineEvent,
    ReleaseNode,
    ReportBatch,
)


def decide_event(state: State, command: RecordPipelineEvent, context: Context) -> Decision:
    found = node_of(state, command.namespace, command.id, command.node)
    if found is None:
        return Decision(GONE)
    intake = INTAKE.get(command.kind)
    if intake is None:
        raise Invalid(
            f"expected one of {', '.join(INTAKE)}, got {command.kind[:80]!r}",
            code="unknown_event_kind",
        )
    pipeline, node = found
    is_known = node.status is NodeStatus.FINISHED and node.epoch == command.attempt_epoch
    verdict = verdict_on(node, command.attempt_epoch, None)
    if verdict.verdict is Verdict.FENCED and not is_known and not _fails_early(command, node):
        return _fenced(state, command, pipeline, verdict, context)
    decision = intake(state, command, pipeline, node, context)
    reply = decision.reply
    if isinstance(reply, BatchReported):
        told = Reported(
            verdict=reply.verdict, reason=reply.reason, deadline_at_ms=reply.deadline_at_ms
        )
        return msgspec.structs.replace(decision, reply=told)
    return decision


def _fails_early(command: RecordPipelineEvent, node: NodeState) -> bool:
    """A failure may come of a node that no worker has yet."""
    is_same = node.epoch == command.attempt_epoch and node.status is NodeStatus.QUEUED
    return command.kind == "TASK_FAILED" and is_same


def _fenced(
    state: State,
    command: RecordPipelineEvent,
    pipeline: PipelineState,
    verdict: Reported,
    context: Context,
) -> Decision:
    entry = JournalEntry(
        kind=command.kind,
        node=command.node,
        epoch=command.attempt_epoch,
        worker_id=_text(command.payload, "worker_id"),
        payload=command.payload,
        dedup_id=command.dedup_id,
        is_fenced=True,
    )
    written = write(state, command.namespace, pipeline, (entry,), context)
    journaled = e.JournalAppended(
        namespace=command.namespace,
        id=command.id,
        count=1,
        length=written.length,
        at_ms=context.now_ms,
    )
    return Decision(verdict, (journaled, *written.events), chunks=written.chunks)


def _heartbeat(
    state: State,
    command: RecordPipelineEvent,
    pipeline: PipelineState,
    node: NodeState,
    context: Context,
) -> Decision:
    until_ms = command.payload.get("lease_deadline_ts_ms")
    if isinstance(until_ms, bool) or not isinstance(until_ms, int):
        raise Invalid(f"expected lease_deadline_ts_ms to be a number, got {until_ms!r:.80}")
    kept = e.NodeKept(
        namespace=command.namespace,
        id=command.id,
        node=command.node,
        worker_id=_text(command.payload, "worker_id") or node.worker_id or "",
        lease_until_ms=min(until_ms, context.now_ms + DURATION_MS_MAX),
        at_ms=context.now_ms,
    )
    return Decision(Reported(), (kept,))


def _batch(
    state: State,
    command: RecordPipelineEvent,
    pipeline: PipelineState,
    node: NodeState,
    context: Context,
) -> Decision:
    payload = command.payload
    uid = _text(payload, "batch_uid")
    if uid is None:
        raise Invalid("expected a batch_uid, got none", code="invalid_event_payload")
    failure = _failure(payload) if command.kind == "BATCH_FAILED" else None
    report = ReportBatch(
        id=command.id,
        node=command.node,
        epoch=command.attempt_epoch,
        batch_uid=uid,
        meta=_object(payload, "metrics"),
        artifacts_ref=_object(payload, "artifacts_ref"),
        failure=failure,
        worker_id=_text(payload, "worker_id"),
        namespace=command.namespace,
    )
    return decide_report(state, report, context)


def _done(
    state: State,
    command: RecordPipelineEvent,
    pipeline: PipelineState,
    node: NodeState,
    context: Context,
) -> Decision:
    done = CompleteNode(
        id=command.id,
        node=command.node,
        epoch=command.attempt_epoch,
        meta=_object(command.payload, "metrics"),
        artifacts_ref=_object(command.payload, "artifacts_ref"),
        worker_id=_text(command.payload, "worker_id"),
        namespace=command.namespace,
    )
    return decide_complete(state, done, context)


def _failed(
    state: State,
    command: RecordPipelineEvent,
    pipeline: PipelineState,
    node: NodeState,
    context: Context,
) -> Decision:
    failure = _failure(command.payload)
    if _fails_early(command, node):
        event = failed_attempt(
            command.namespace,
            pipeline,
            node,
            failure.reason_code,
            failure.error,
            context,
            permanent=failure.permanent,
            epoch=node.epoch,
        )
        return Decision(Reported(), (event,))
    fail = FailNode(
        id=command.id,
        node=command.node,
        epoch=command.attempt_epoch,
        reason_code=failure.reason_code,
        permanent=failure.permanent,
        error=failure.error,
        worker_id=_text(command.payload, "worker_id"),
        namespace=command.namespace,
    )
    return decide_fail(state, fail, context)


def _cancelled(
    state: State,
    command: RecordPipelineEvent,
    pipeline: PipelineState,
    node: NodeState,
    context: Context,
) -> Decision:
    release = ReleaseNode(
        id=command.id,
        node=command.node,
        epoch=command.attempt_epoch,
        reason=_text(command.payload, "reason") or "cancelled",
        worker_id=_text(command.payload, "worker_id"),
        namespace=command.namespace,
    )
    return decide_release(state, release, context)


def _failure(payload: Mapping[str, Any]) -> BatchFailure:
    return BatchFailure(
        reason_code=_text(payload, "reason_code") or "error",
        permanent=payload.get("permanent") is True,
        error=_text(payload, "error"),
    )


def _text(payload: Mapping[str, Any], field: str) -> str | None:
    value = payload.get(field)
    return value if isinstance(value, str) else None


def _object(payload: Mapping[str, Any], field: str) -> bytes:
    value = payload.get(field)
    return msgspec.json.encode(value if isinstance(value, dict) else {})


Intake = Callable[[State, RecordPipelineEvent, PipelineState, NodeState, Context], Decision]

INTAKE: Mapping[str, Intake] = {
    "TASK_ACCEPTED": _heartbeat,
    "TASK_HEARTBEAT": _heartbeat,
    "TASK_RESUMED": _heartbeat,
    "BATCH_OK": _batch,
    "BATCH_FAILED": _batch,
    "TASK_DONE": _done,
    "TASK_FAILED": _failed,
    "CANCELLED": _cancelled,
}
