"""The journal of a pipeline: its artifacts and events in order, stored like records of a stream.

    ReportBatch ──▸ BatchRecorded (place, numbers)      in the log and the state
                └─▸ JournalEntry  (uid, meta, …)        beside the log, in the same append

A journal has a number among the streams, and is no stream that anyone can name.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from flo.core.stable_hash import stable_hash
from flo.engine.context import Context
from flo.engine.pipelines.records import PipelineState
from flo.engine.state import State
from flo.engine.streams.rules import decide_append
from flo.model.base import Event, Record
from flo.model.errors import FloError
from flo.model.ids import Namespace
from flo.model.pipelines.views import ArtifactView, PipelineEventView
from flo.model.storage.records import Chunk, StreamRecord
from flo.model.streams import Append, NewRecord

PARTIAL = "partial"
FAILED = "failed"
COMPLETE = "complete"
FINAL_UID = "__final__"

SHORT = {
    "TASK_ACCEPTED": "acc",
    "TASK_HEARTBEAT": "hb",
    "BATCH_OK": "bok",
    "BATCH_FAILED": "bf",
    "TASK_DONE": "td",
    "TASK_FAILED": "tf",
    "CANCELLED": "c",
}
"""What stands for the kind of an event in its dedup_id."""


class JournalEntry(Record):
    """One line. With a status it is an artifact; with a kind it is an event."""

    kind: str
    node: str
    epoch: int
    worker_id: str | None = None
    uid: str | None = None
    status: str = ""
    meta: bytes = b""
    ref: bytes | None = None
    payload: dict[str, Any] = msgspec.field(default_factory=dict)
    """Of an event, what is not in the other fields."""
    is_fenced: bool = False
    dedup_id: str = ""
    """As it came from outside; else it is made of the rest."""
    is_handed: bool = True
    """Whether consumers get it, if it is a partial artifact."""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(JournalEntry).decode
_json = msgspec.json.Encoder(enc_hook=str).encode


def read_entry(record: StreamRecord) -> JournalEntry:
    return _decode(record.payload)


class Written(msgspec.Struct, frozen=True):
    """Entries on their way to the store, and what else is to happen with them."""

    length: int
    chunks: tuple[Chunk, ...]
    events: tuple[Event, ...]
    """Of the stream that has the events of all pipelines, if there is one."""


def write(
    state: State,
    namespace: Namespace,
    pipeline: PipelineState,
    entries: Sequence[JournalEntry],
    context: Context,
) -> Written:
    """Entries at the end of the journal; the event that says so is the caller's."""
    first = pipeline.journal_next
    records = tuple(
        StreamRecord(sequence=first + place, at_ms=context.now_ms, payload=_encode(entry))
        for place, entry in enumerate(entries)
    )
    chunk = Chunk(
        stream=pipeline.journal, first=first, offset=pipeline.journal_length, records=records
    )
    length = sum(len(record.payload) for record in records)
    stream = state.space(namespace).pipelines.limits.event_stream
    if stream is None:
        return Written(length, (chunk,), ())
    return _with_stream(
        state, namespace, pipeline, records, stream, Written(length, (chunk,), ()), context
    )


def _with_stream(
    state: State,
    namespace: Namespace,
    pipeline: PipelineState,
    records: Sequence[StreamRecord],
    stream: str,
    written: Written,
    context: Context,
) -> Written:
    views = [view for one in records if (view := event_view(pipeline, one)) is not None]
    if not views:
        return written
    append = Append(
        stream=stream,
        namespace=namespace,
        records=[
            NewRecord(payload=_json(view), key=f"{view.pipeline_id}:{view.node_id}")
            for view in views
        ],
    )
    try:
        appended = decide_append(state, append, context)
    except FloError:  # there are too many streams: the journal has the events all the same
        return written
    return Written(written.length, (*written.chunks, *appended.chunks), appended.events)


def event_view(pipeline: PipelineState, record: StreamRecord) -> PipelineEventView | None:
    """An entry as an event; None if it is only an artifact."""
    entry = read_entry(record)
    if not entry.kind:
        return None
    spec = pipeline.graph.nodes.get(entry.node)
    return PipelineEventView(
        number=record.sequence,
        at_ms=record.at_ms,
        kind=entry.kind,
        pipeline_id=pipeline.id,
        node_id=entry.node,
        step_type=spec.type if spec is not None else "",
        attempt_epoch=entry.epoch,
        worker_id=entry.worker_id,
        payload=_payload(pipeline.id, entry),
        dedup_id=entry.dedup_id or _dedup_id(pipeline.id, entry, record),
        fenced=entry.is_fenced,
    )


def _payload(pipeline_id: str, entry: JournalEntry) -> dict[str, Any]:
    payload = dict(entry.payload)
    if entry.kind in ("BATCH_OK", "BATCH_FAILED") and entry.uid is not None:
        payload["batch_uid"] = entry.uid
        if entry.kind == "BATCH_OK":
            payload["metrics"] = _value(entry.meta, {})
        own = {"task_id": pipeline_id, "node_id": entry.node, "batch_uid": entry.uid}
        payload["artifacts_ref"] = _value(entry.ref, own)
    elif entry.kind == "TASK_DONE":
        payload |= {"metrics": _value(entry.meta, {}), "final_uid": FINAL_UID}
        payload["artifacts_ref"] = _value(entry.ref, None)
    return payload


def _value(text: bytes | None, default: Any) -> Any:
    try:
        return msgspec.json.decode(text) if text else default
    except msgspec.DecodeError:
        return default


def _dedup_id(pipeline_id: str, entry: JournalEntry, record: StreamRecord) -> str:
    """Of the same inputs as FlowKit's; `sent` is what tells a heartbeat from the next."""
    key: dict[str, Any] = {"n": entry.node, "e": entry.epoch}
    match entry.kind:
        case "TASK_START":
            return stable_hash(
                {
                    "cmd": "TASK_START",
                    "task_id": pipeline_id,
                    "node_id": entry.node,
                    "epoch": entry.epoch,
                }
            )
        case "CANCEL":
            return stable_hash(
                {"sig": "CANCEL", "task_id": pipeline_id, "node": entry.node, "epoch": entry.epoch,
                 "worker": entry.worker_id}
            )  # fmt: skip
        case "BATCH_OK" | "BATCH_FAILED":
            key["uid"] = entry.uid
        case "TASK_ACCEPTED":
            key["lease"] = entry.payload.get("lease_id")
        case "TASK_HEARTBEAT":
            key["t"] = record.at_ms
        case "TASK_FAILED":
            key |= {"r": entry.payload.get("reason_code"), "p": entry.payload.get("permanent")}
        case _:
            pass
    short = SHORT.get(entry.kind, entry.kind)
    return stable_hash({short: pipeline_id, **key})


def artifact_view(record: StreamRecord) -> ArtifactView | None:
    """An entry as an artifact; None if it is only an event, or was fenced."""
    entry = read_entry(record)
    if not entry.status or entry.is_fenced:
        return None
    return ArtifactView(
        number=record.sequence,
        node_id=entry.node,
        status=entry.status,
        batch_uid=entry.uid,
        meta=entry.meta,
        artifacts_ref=entry.ref,
        attempt_epoch=entry.epoch,
        worker_id=entry.worker_id,
        created_at_ms=record.at_ms,
        error=entry.payload.get("reason_code") if entry.status == FAILED else None,
    )
