"""What is said of a pipeline that has ended: its result document, or why it has not finished."""

import msgspec

from flo.engine.pipelines.records import PipelineState
from flo.model.ids import PAYLOAD_LENGTH_MAX
from flo.model.pipelines.names import NodeStatus

RESULT_LENGTH_MAX = PAYLOAD_LENGTH_MAX // 4
"""Longer than this a result is told without the variables."""


def result_of(pipeline: PipelineState) -> dict[str, object]:
    """The result document: the statistics of every node."""
    return {
        "nodes": [{"node_id": name, "stats": node.stats} for name, node in pipeline.nodes.items()]
    }


def result_payload(pipeline: PipelineState) -> bytes:
    """For a workflow, as JSON: the result document with the id and the variables beside it."""
    result = {"pipeline_id": pipeline.id, **result_of(pipeline)}
    whole = msgspec.json.encode({**result, "vars": pipeline.vars})
    return whole if len(whole) <= RESULT_LENGTH_MAX else msgspec.json.encode(result)


def why_ended(pipeline: PipelineState) -> str:
    """Why it was cancelled, or which node failed."""
    for name, node in pipeline.nodes.items():
        if node.status is NodeStatus.FAILED:
            said = f": {node.error}" if node.error else ""
            return f"node {name!r} of pipeline {pipeline.id!r} failed with {node.last_error}{said}"
    return f"pipeline {pipeline.id!r} was cancelled: {pipeline.cancel_reason}"
