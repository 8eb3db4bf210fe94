"""The bytes that the log has of pipelines: every event as it is written."""

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
from flo.engine.pipelines.records import NodeInputRecord, NodeRecord, PipelineRecord
from flo.model.pipelines.names import NodeStatus, PipelineStatus

PIPELINE = PipelineRecord(
    id="p",
    number=1,
    journal=4,
    graph={"nodes": [{"node_id": "u", "type": "r"}]},
    params={"a": b"x"},
    created_at_ms=5,
    nodes=[
        NodeRecord(
            node_id="u",
            status=NodeStatus.RUNNING,
            epoch=2,
            places=[3, 1],
            uids=[7],
            inputs=[NodeInputRecord(source="t", next=2, in_progress=[(1, ["c0"])])],
            totals={"count": (2.0, 1)},
        )
    ],
)

OF_PIPELINES = [
    (
        PipelineSubmitted(namespace="n", pipeline=PIPELINE),
        b"\x91\x93\xb1PipelineSubmitted\xa1n\xdc\x00 \xa1p\x01\x04\x81\xa5nodes\x91\x82\xa7node_id\xa1u\xa4type\xa1r\x81\xa1a\xc4\x01x\x05\x91\xdc\x00\x19\xa1u\xa7running\x02\xc2\xc0\xa0\x00\x00\x92\x03\x01\x91\x07\x00\x91\x93\xa1t\x02\x91\x92\x01\x91\xa2c0\x81\xa5count\x92\xcb@\x00\x00\x00\x00\x00\x00\x00\x01\x80\xc0\xc0\xc0\xc0\xc0\xc0\xc0\x00\x00\xc2\xc0\xa6queued\xc0\x00\x00\x00\xc0\xc0\xc2\xc2\xc0\xc0\xc0\x00\xc0\x80\x80\xc0\xc0\xc2\xc0\x01\x00\xc0\xc0\xc3",  # noqa: E501
    ),
    (
        PipelineRevived(namespace="n", pipeline=PIPELINE, nodes=("u",), at_ms=9),
        b"\x91\x95\xafPipelineRevived\xa1n\xdc\x00 \xa1p\x01\x04\x81\xa5nodes\x91\x82\xa7node_id\xa1u\xa4type\xa1r\x81\xa1a\xc4\x01x\x05\x91\xdc\x00\x19\xa1u\xa7running\x02\xc2\xc0\xa0\x00\x00\x92\x03\x01\x91\x07\x00\x91\x93\xa1t\x02\x91\x92\x01\x91\xa2c0\x81\xa5count\x92\xcb@\x00\x00\x00\x00\x00\x00\x00\x01\x80\xc0\xc0\xc0\xc0\xc0\xc0\xc0\x00\x00\xc2\xc0\xa6queued\xc0\x00\x00\x00\xc0\xc0\xc2\xc2\xc0\xc0\xc0\x00\xc0\x80\x80\xc0\xc0\xc2\xc0\x01\x00\xc0\xc0\xc3\x91\xa1u\t",  # noqa: E501
    ),
    (
        JournalAppended(namespace="n", id="p", count=2, length=30, at_ms=9, node="u"),
        b"\x91\x97\xafJournalAppended\xa1n\xa1p\x02\x1e\t\xa1u",
    ),
    (
        NodeMadeReady(namespace="n", id="p", node="u", on_first_batch=True),
        b"\x91\x95\xadNodeMadeReady\xa1n\xa1p\xa1u\xc3",
    ),
    (
        NodeStarted(
            namespace="n",
            id="p",
            node="u",
            epoch=1,
            worker_id="w",
            lease_id="7.0",
            lease_until_ms=90,
            at_ms=9,
        ),
        b"\x91\x99\xabNodeStarted\xa1n\xa1p\xa1u\x01\xa1w\xa37.0Z\t",
    ),
    (
        NodeResumed(namespace="n", id="p", node="u", lease_id="8.0", lease_until_ms=90, at_ms=9),
        b"\x91\x97\xabNodeResumed\xa1n\xa1p\xa1u\xa38.0Z\t",
    ),
    (
        NodeKept(namespace="n", id="p", node="u", worker_id="w", lease_until_ms=90, at_ms=9),
        b"\x91\x97\xa8NodeKept\xa1n\xa1p\xa1u\xa1wZ\t",
    ),
    (
        NodeLost(namespace="n", id="p", node="u", reason="r", at_ms=9),
        b"\x91\x96\xa8NodeLost\xa1n\xa1p\xa1u\xa1r\t",
    ),
    (
        InputsTaken(namespace="n", id="p", node="v", source="u", count=3),
        b"\x91\x96\xabInputsTaken\xa1n\xa1p\xa1v\xa1u\x03",
    ),
    (
        InputsFinished(namespace="n", id="p", node="v", inputs=(("u", 0),), at_ms=9),
        b"\x91\x96\xaeInputsFinished\xa1n\xa1p\xa1v\x91\x92\xa1u\x00\t",
    ),
    (
        BatchRecorded(
            namespace="n",
            id="p",
            node="v",
            uid="c0",
            length=40,
            at_ms=9,
            numbers={"count": 2.0},
            source="u",
            input=1,
            input_done=False,
        ),
        b"\x91\x9b\xadBatchRecorded\xa1n\xa1p\xa1v\xa2c0(\t\x81\xa5count\xcb@\x00\x00\x00\x00\x00\x00\x00\xa1u\x01\xc2",
    ),
    (
        BatchFailed(namespace="n", id="p", node="u", length=40, at_ms=9),
        b"\x91\x96\xabBatchFailed\xa1n\xa1p\xa1u(\t",
    ),
    (
        ArtifactPut(namespace="n", id="p", node="u", uid=5, handed=True, length=40, at_ms=9),
        b"\x91\x98\xabArtifactPut\xa1n\xa1p\xa1u\x05\xc3(\t",
    ),
    (
        ArtifactCompleted(namespace="n", id="p", node="u", meta=b"{}", at_ms=9),
        b"\x91\x96\xb1ArtifactCompleted\xa1n\xa1p\xa1u\xc4\x02{}\t",
    ),
    (
        NodeFinished(
            namespace="n", id="p", node="u", epoch=1, meta=b"{}", numbers={"a": 1.0}, at_ms=9
        ),
        b"\x91\x98\xacNodeFinished\xa1n\xa1p\xa1u\x01\xc4\x02{}\x81\xa1a\xcb?\xf0\x00\x00\x00\x00\x00\x00\t",
    ),
    (
        NodeDeferred(
            namespace="n",
            id="p",
            node="u",
            epoch=1,
            reason_code="r",
            error="e",
            retry_at_ms=99,
            at_ms=9,
        ),
        b"\x91\x99\xacNodeDeferred\xa1n\xa1p\xa1u\x01\xa1r\xa1ec\t",
    ),
    (
        NodeFailed(namespace="n", id="p", node="u", epoch=1, reason_code="r", error=None, at_ms=9),
        b"\x91\x98\xaaNodeFailed\xa1n\xa1p\xa1u\x01\xa1r\xc0\t",
    ),
    (
        NodeCancelling(namespace="n", id="p", node="u", reason="r", deadline_ms=99, at_ms=9),
        b"\x91\x97\xaeNodeCancelling\xa1n\xa1p\xa1u\xa1rc\t",
    ),
    (
        NodeCancelled(namespace="n", id="p", node="u", at_ms=9, reason="r"),
        b"\x91\x96\xadNodeCancelled\xa1n\xa1p\xa1u\t\xa1r",
    ),
    (
        NodeSkipped(namespace="n", id="p", node="u", at_ms=9),
        b"\x91\x95\xabNodeSkipped\xa1n\xa1p\xa1u\t",
    ),
    (
        VarsChanged(namespace="n", id="p", sets=((("a", "b"), b"x"),), unsets=(("c",),), at_ms=9),
        b"\x91\x96\xabVarsChanged\xa1n\xa1p\x91\x92\x92\xa1a\xa1b\xc4\x01x\x91\x91\xa1c\t",
    ),
    (
        StatsAggregated(namespace="n", id="p", node="u", stats={"count": 2.0}, at_ms=9),
        b"\x91\x96\xafStatsAggregated\xa1n\xa1p\xa1u\x81\xa5count\xcb@\x00\x00\x00\x00\x00\x00\x00\t",
    ),
    (
        PipelinePatched(namespace="n", id="p", sets={"a": 1}, unsets=("b",), at_ms=9),
        b"\x91\x96\xafPipelinePatched\xa1n\xa1p\x81\xa1a\x01\x91\xa1b\t",
    ),
    (
        PipelineCancelling(namespace="n", id="p", reason="r", failing=True, at_ms=9),
        b"\x91\x96\xb2PipelineCancelling\xa1n\xa1p\xa1r\xc3\t",
    ),
    (
        PipelineSuspected(namespace="n", id="p", at_ms=9),
        b"\x91\x94\xb1PipelineSuspected\xa1n\xa1p\t",
    ),
    (
        PipelineLookedAt(namespace="n", id="p"),
        b"\x91\x93\xb0PipelineLookedAt\xa1n\xa1p",
    ),
    (
        PipelineClosed(namespace="n", id="p", status=PipelineStatus.FINISHED, at_ms=9),
        b"\x91\x97\xaePipelineClosed\xa1n\xa1p\xa8finished\t\xc4\x00\xc0",
    ),
    (
        GraphStored(namespace="n", name="g", graph={"nodes": []}, version=2, at_ms=9),
        b"\x91\x96\xabGraphStored\xa1n\xa1g\x81\xa5nodes\x90\x02\t",
    ),
    (
        GraphDeleted(namespace="n", name="g"),
        b"\x91\x93\xacGraphDeleted\xa1n\xa1g",
    ),
    (
        PipelinesConfigured(
            namespace="n",
            max_global_running=3,
            max_type_concurrency={"r": 1},
            event_stream="s",
        ),
        b"\x91\x95\xb3PipelinesConfigured\xa1n\x03\x81\xa1r\x01\xa1s",
    ),
]
