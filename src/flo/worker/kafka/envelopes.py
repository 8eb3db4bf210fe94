"""Events of pipelines as FlowKit's envelopes, and envelopes as what they ask for.

    an event of a worker   ──▸ status.{type}.v1      key task:node
    CANCEL                 ──▸ signals.v1            key worker
    a worker comes, goes   ──▸ workers.announce.v1
    TASK_DISCOVER          ──▸ TASK_SNAPSHOT on reply.tasks.v1

JSON in UTF-8, compact. TASK_START is not mirrored: the workers of the server have taken the node.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple
from uuid import uuid4

import msgspec

from flo.core.stable_hash import stable_hash
from flo.model.pipelines.names import NodeStatus
from flo.model.pipelines.views import PipelineView
from flo.model.workers import WorkerView

STATUS, COMMAND = "status", "cmd"
ANNOUNCE = "workers.announce.v1"
QUERY = "query.tasks.v1"
REPLY = "reply.tasks.v1"
SIGNALS = "signals.v1"
ANY = "*"
"""Stands for the ids of an announcement."""

_encode = msgspec.json.encode


class KafkaMessage(NamedTuple):
    topic: str
    key: str | None
    value: bytes


class KafkaEnvelope(msgspec.Struct):
    """What travels on every topic; fields that are not known are passed over."""

    dedup_id: str
    task_id: str
    node_id: str
    step_type: str = ""
    attempt_epoch: int = 0
    payload: dict[str, Any] = msgspec.field(default_factory=dict)
    ts_ms: int = 0
    msg_type: str = "event"
    role: str = "worker"
    corr_id: str = ""
    target_worker_id: str | None = None
    v: int = 1


def read_envelope(value: bytes) -> KafkaEnvelope | None:
    """None if it is no envelope."""
    try:
        return msgspec.json.decode(value, type=KafkaEnvelope)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def mirrored(event: Mapping[str, Any]) -> KafkaMessage | None:
    """An event of the stream of events as a message; None if it has no topic."""
    kind, worker_id = event["kind"], event["worker_id"]
    envelope = KafkaEnvelope(
        dedup_id=event["dedup_id"],
        task_id=event["pipeline_id"],
        node_id=event["node_id"],
        step_type=event["step_type"],
        attempt_epoch=event["attempt_epoch"],
        ts_ms=event.get("at_ms") or event.get("at") or 0,
        corr_id=event["dedup_id"],
        payload=dict(event["payload"]),
    )
    if kind == "TASK_START":
        return None
    if kind == "CANCEL":
        envelope.msg_type, envelope.role = COMMAND, "coordinator"
        envelope.payload = {"sig": kind, **envelope.payload}
        envelope.target_worker_id = worker_id
        return KafkaMessage(SIGNALS, worker_id, _encode(envelope))
    envelope.payload = {"kind": kind, "worker_id": worker_id, **envelope.payload}
    key = f"{envelope.task_id}:{envelope.node_id}"
    return KafkaMessage(status_topic(envelope.step_type), key, _encode(envelope))


def announced(worker: WorkerView, *, online: bool, now_ms: int) -> KafkaMessage:
    """A worker that has come, is still there, or has gone."""
    roles = [process.name for process in worker.processes]
    payload: dict[str, Any] = {"kind": "WORKER_OFFLINE", "worker_id": worker.worker_id}
    if online:
        payload = {
            "kind": "WORKER_ONLINE",
            "worker_id": worker.worker_id,
            "type": ",".join(roles),
            "capabilities": {"roles": roles},
            "version": worker.build_id or "",
            "capacity": {"tasks": worker.max_concurrency},
            "resume": None,
        }
    dedup_id = stable_hash(
        {"announce": payload["kind"], "worker": worker.worker_id, "ts_ms": now_ms}
    )
    envelope = KafkaEnvelope(
        dedup_id=dedup_id,
        task_id=ANY,
        node_id=ANY,
        step_type=ANY,
        ts_ms=now_ms,
        corr_id=str(uuid4()),
        payload=payload,
    )
    return KafkaMessage(ANNOUNCE, None, _encode(envelope))


def snapshot_of(
    query: KafkaEnvelope, pipeline: PipelineView | None, now_ms: int
) -> KafkaMessage | None:
    """The answer to a discovery: who runs the node; None if there is no such node."""
    nodes = pipeline.nodes if pipeline is not None else []
    node = next((one for one in nodes if one.node_id == query.node_id), None)
    if node is None:
        return None
    state = {NodeStatus.RUNNING: "running", NodeStatus.CANCELLING: "cancelling"}
    lease = None
    if node.lease is not None:
        lease = {
            "worker_id": node.lease.worker_id,
            "lease_id": node.lease.lease_id,
            "deadline_ts_ms": node.lease.expires_at_ms,
        }
    worker_id = node.lease.worker_id if node.lease is not None else None
    key = {"snap": query.task_id, "n": node.node_id, "e": node.attempt_epoch, "w": worker_id}
    envelope = KafkaEnvelope(
        dedup_id=stable_hash(key),
        task_id=query.task_id,
        node_id=node.node_id,
        step_type=node.type,
        attempt_epoch=node.attempt_epoch,
        ts_ms=now_ms,
        msg_type="reply",
        corr_id=query.corr_id,
        payload={
            "reply": "TASK_SNAPSHOT",
            "worker_id": worker_id,
            "run_state": state.get(node.status, "idle"),
            "attempt_epoch": node.attempt_epoch,
            "lease": lease,
            "progress": {"batches": node.batches},
            "artifacts": {"complete": True} if node.complete is not None else None,
        },
    )
    return KafkaMessage(REPLY, query.task_id, _encode(envelope))


def status_topic(step_type: str) -> str:
    return f"{STATUS}.{step_type}.v1"
