"""From what the server shows to the documents that FlowKit keeps."""

from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any

import msgspec

from flo.model.pipelines.names import NodeStatus, PipelineStatus
from flo.model.pipelines.views import ArtifactView, NodeView, PipelineEventView, PipelineView
from flowkit.db.query import Document
from flowkit.db.updates import set_at
from flowkit.protocol.messages import RunState

IDLE_NODE = "__idle__"
"""The node that keeps a task without nodes alive."""

TASK_STATES = {
    PipelineStatus.QUEUED: RunState.queued,
    PipelineStatus.RUNNING: RunState.running,
    PipelineStatus.DEFERRED: RunState.deferred,
    PipelineStatus.CANCELLING: RunState.running,
    PipelineStatus.FINISHED: RunState.finished,
    PipelineStatus.FAILED: RunState.failed,
    PipelineStatus.CANCELLED: RunState.finished,
}
NODE_STATES = {
    NodeStatus.QUEUED: RunState.queued,
    NodeStatus.RUNNING: RunState.running,
    NodeStatus.DEFERRED: RunState.deferred,
    NodeStatus.CANCELLING: RunState.cancelling,
    NodeStatus.FINISHED: RunState.finished,
    NodeStatus.FAILED: RunState.failed,
    NodeStatus.CANCELLED: RunState.cancelling,
    NodeStatus.SKIPPED: RunState.cancelling,
}


def task_document(view: PipelineView) -> Document:
    """The task document of FlowKit; what patches have set stands in it."""
    nodes = [_node_document(node) for node in view.nodes if node.node_id != IDLE_NODE]
    document: Document = {
        "id": view.id,
        "pipeline_id": view.id,
        "status": TASK_STATES[view.status],
        "params": view.params,
        "graph": {**view.graph, "nodes": nodes},
        "result": _result(view),
        "status_history": [{"from": None, "to": RunState.queued, "at": _time(view.created_at_ms)}],
        "coordinator": {
            "liveness": {
                "state": _liveness(view),
                "suspected_at": _time(view.suspected_at_ms),
            },
            "cancelled": view.cancelled,
            "cancel_reason": view.cancel_reason,
            "cancelled_at": _time(view.cancelled_at_ms),
        },
        "next_retry_at_ms": None,
        "started_at": _iso(view.created_at_ms),
        "finished_at": _time(view.finished_at_ms),
        "last_event_recv_ms": view.last_event_at_ms or view.created_at_ms,
        "updated_at": _updated_at(view),
    }
    if view.vars:
        document["coordinator"]["vars"] = view.vars
    document["graph"].setdefault("edges", [])
    places = {node["node_id"]: index for index, node in enumerate(nodes)}
    for path, value in view.extra.items():
        _patch(document, places, path, value)
    return document


def _patch(document: Document, places: dict[str, int], path: str, value: Any) -> None:
    first, _, rest = path.partition(".")
    if first == "nodes":
        node_id, _, field = rest.partition(".")
        if node_id in places and field:
            set_at(document["graph"]["nodes"][places[node_id]], field, value)
    elif path != "status":
        set_at(document, path, value)


def _liveness(view: PipelineView) -> str:
    if view.suspected_at_ms is None:
        return "ok"
    return "dead" if view.status is PipelineStatus.FAILED else "suspected"


def _result(view: PipelineView) -> Document | None:
    if view.status not in (PipelineStatus.FINISHED, PipelineStatus.CANCELLED):
        return None
    shown = [node for node in view.nodes if node.node_id != IDLE_NODE]
    return {"nodes": [{"node_id": node.node_id, "stats": node.stats} for node in shown]}


def _updated_at(view: PipelineView) -> datetime:
    """Later with every change, also with those of one millisecond."""
    at = _time(view.updated_at_ms)
    assert at is not None
    return at + timedelta(microseconds=view.updates)


def _node_document(node: NodeView) -> Document:
    document: Document = {
        **node.spec,
        "node_id": node.node_id,
        "type": node.type,
        "depends_on": node.depends_on,
        "fan_in": node.fan_in,
        "status": NODE_STATES[node.status],
        "attempt_epoch": node.attempt_epoch,
        "lease": {},
        "stats": node.stats,
        "stats_cached_at": _time(node.stats_at_ms),
        "started_at": _iso(node.started_at_ms),
        "finished_at": _iso(node.finished_at_ms),
        "last_event_recv_ms": node.last_event_at_ms,
        "next_retry_at_ms": node.next_retry_at_ms,
        "last_error": node.last_error,
        "streaming": {"started_on_first_batch": node.started_on_first_batch},
    }
    if node.lease is not None:
        document["lease"] = {
            "worker_id": node.lease.worker_id,
            "lease_id": node.lease.lease_id,
            "deadline_ts_ms": node.lease.expires_at_ms,
        }
    return document


def artifact_document(task_id: str, view: ArtifactView) -> Document:
    document: Document = {
        "task_id": task_id,
        "node_id": view.node_id,
        "attempt_epoch": view.attempt_epoch,
        "status": view.status,
        "worker_id": view.worker_id,
        "payload": None,
        "meta": msgspec.json.decode(view.meta),
        "created_at": _time(view.created_at_ms),
        "updated_at": _time(view.created_at_ms),
    }
    if view.batch_uid is not None:
        document["batch_uid"] = view.batch_uid
        document["artifacts_ref"] = {
            "task_id": task_id,
            "node_id": view.node_id,
            "batch_uid": view.batch_uid,
        }
    if view.artifacts_ref is not None:
        document["handler_artifacts_ref"] = msgspec.json.decode(view.artifacts_ref)
    if view.error is not None:
        document["error"] = view.error
    return document


def event_document(view: PipelineEventView) -> Document:
    payload = {"kind": view.kind, **view.payload}
    if view.worker_id is not None:
        payload["worker_id"] = view.worker_id
    return {
        "task_id": view.pipeline_id,
        "node_id": view.node_id,
        "step_type": view.step_type,
        "attempt_epoch": view.attempt_epoch,
        "event_hash": view.dedup_id,
        "payload": payload,
        "ts_ms": view.at_ms,
        "recv_ts_ms": view.at_ms,
        "created_at": _time(view.at_ms),
        "fenced": view.fenced,
    }


def plain(value: Any) -> Any:
    """A value of a program as the server takes it: enums by value, tuples as lists."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict):
        return {str(plain(key)): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(one) for one in value]
    return value


def json_plain(value: Any) -> Any:
    """The same, with times as text, where only JSON is taken."""
    return msgspec.to_builtins(plain(value))


def _time(at_ms: int | None) -> datetime | None:
    return None if at_ms is None else datetime.fromtimestamp(at_ms / 1_000, UTC)


def _iso(at_ms: int | None) -> str | None:
    at = _time(at_ms)
    return None if at is None else at.isoformat()
