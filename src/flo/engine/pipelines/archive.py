"""What the archive keeps of a pipeline that has ended: all of it, and what lists show."""

from collections import Counter
from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from flo.engine.pipelines.events import PipelineClosed
from flo.engine.pipelines.records import PipelineState, PipelineSummaryRecord
from flo.engine.state import State
from flo.model.pipelines.names import PIPELINE_PREFIX, PipelineStatus, given_number
from flo.model.storage.archive import Archived

PIPELINE_KIND = "pipeline"
SUMMARY_KIND = "pipeline-summary"
KEY_KIND = "pipeline-key"
ID_KIND = "pipeline-id"
UNNAMED = "-"
"""No graph is stored under this name: it begins with a dash."""

_encode = msgspec.msgpack.Encoder().encode


def summary_of(
    pipeline: PipelineState,
    status: PipelineStatus | None = None,
    finished_at_ms: int | None = None,
) -> PipelineSummaryRecord:
    counts = Counter(str(node.status) for node in pipeline.nodes.values())
    return PipelineSummaryRecord(
        id=pipeline.id,
        number=pipeline.number,
        status=status or pipeline.status,
        created_at_ms=pipeline.settings.created_at_ms,
        finished_at_ms=finished_at_ms,
        nodes=dict(counts),
        graph_name=pipeline.settings.graph_name,
        cancel_reason=pipeline.cancel_reason,
    )


def archive_pipeline(state: State, event: PipelineClosed) -> Iterable[Archived]:
    """Its rows; its last event is yet to be folded."""
    space = state.spaces[event.namespace]
    pipeline = space.pipelines.live[event.id]
    record = replace(
        pipeline.record(), status=event.status, finished_at_ms=event.at_ms,
        updated_at_ms=event.at_ms, updates=pipeline.updates + 1,
    )  # fmt: skip
    row = Archived(
        kind=PIPELINE_KIND,
        namespace=space.archive_name,
        name=PIPELINE_PREFIX,
        number=pipeline.number,
        status=event.status,
        finished_at_ms=event.at_ms,
        key=None,
        body=_encode(record),
    )
    yield row
    yield replace(
        row,
        kind=SUMMARY_KIND,
        name=record.graph_name or UNNAMED,
        body=_encode(summary_of(pipeline, event.status, event.at_ms)),
        sequence=pipeline.number,
    )
    if record.idempotency_key is not None:
        yield replace(row, kind=KEY_KIND, key=record.idempotency_key, body=b"")
    if given_number(record.id) is None:
        yield replace(row, kind=ID_KIND, key=record.id, body=b"")
