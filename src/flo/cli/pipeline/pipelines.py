"""flo pipeline ...: graphs of nodes that stream batches to each other."""

import time

import click

from flo.cli.app.command import CommandGroup
from flo.cli.app.derive import NOTHING_IS_ASKED, list_command, plain_command
from flo.cli.app.output import Columns, counts_text, time_text, to_json
from flo.cli.app.parameters import Argument, Flag
from flo.cli.pipeline.bridge import bridge
from flo.cli.pipeline.graph import graph, validate
from flo.cli.pipeline.journal import artifacts, events
from flo.cli.pipeline.progress import status_text
from flo.cli.pipeline.settings import configure, settings
from flo.cli.pipeline.submit import publish, submit
from flo.cli.pipeline.watch import watch
from flo.model.pipelines.pipelines import (
    CallPipelineFunction,
    CancelPipeline,
    DeletePipelineGraph,
    GetPipeline,
    ListPipelineGraphs,
    ListPipelines,
    PatchPipeline,
    RetryPipeline,
)
from flo.model.pipelines.views import PipelineSummary, PipelineView, StoredGraphView

PIPELINE_COLUMNS: Columns[PipelineSummary] = {
    "PIPELINE": lambda pipeline: pipeline.id,
    "GRAPH": lambda pipeline: pipeline.graph_name,
    "STATUS": lambda pipeline: pipeline.status,
    "NODES": lambda pipeline: counts_text(pipeline.nodes),
    "SUBMITTED": lambda pipeline: time_text(pipeline.created_at_ms),
    "ENDED": lambda pipeline: time_text(pipeline.finished_at_ms),
    "REASON": lambda pipeline: pipeline.cancel_reason,
}
GRAPH_COLUMNS: Columns[StoredGraphView] = {
    "NAME": lambda stored: stored.name,
    "VERSION": lambda stored: stored.version,
    "NODES": lambda stored: len(stored.graph.get("nodes") or ()),
    "STORED": lambda stored: time_text(stored.created_at_ms),
}


@click.group(
    cls=CommandGroup,
    examples=[
        'flo pipeline submit -f graph.json --params \'{"day": "2026-03-14"}\'',
        "flo pipeline watch pipe-1",
        "flo pipeline artifacts pipe-1 --node enrich",
    ],
    hints={
        "pipeline_not_found": "See which there are with: flo pipeline list",
        "pipeline_graph_not_found": "See which there are with: flo pipeline graphs",
        "invalid_graph": "See all that is wrong with: flo pipeline validate -f FILE",
    },
)
def pipeline() -> None:
    """Submit pipelines, watch their nodes, read what they make."""


def _text(view: PipelineView) -> str:
    return status_text(view, time.time_ns() // 1_000_000)


pipeline.add(
    submit,
    plain_command(
        "status",
        GetPipeline,
        "id",
        text=_text,
        raw="{reply.status}",
        examples=["flo pipeline status pipe-1", "flo pipeline status pipe-1 --format json"],
        aliases=["get"],
    ),
    list_command(
        "list",
        ListPipelines,
        Flag("status", "-s"),
        Flag("name", "-g", metavar="NAME"),
        columns=PIPELINE_COLUMNS,
        none="no pipelines",
        examples=["flo pipeline list", "flo pipeline list --status running --format json"],
    ),
    watch,
    plain_command(
        "cancel",
        CancelPipeline,
        "id",
        Flag("reason", "-r"),
        text="Pipeline {id} is {reply.status}",
        examples=[
            "flo pipeline cancel pipe-2",
            "flo pipeline cancel pipe-2 --reason 'the source is gone'",
        ],
    ),
    plain_command(
        "retry",
        RetryPipeline,
        "id",
        Flag("node", "-N", metavar="NODE"),
        text="Pipeline {id} is {reply.status}",
        examples=["flo pipeline retry pipe-3", "flo pipeline retry pipe-3 --node enrich"],
    ),
    artifacts,
    events,
    graph,
    validate,
    publish,
    list_command(
        "graphs",
        ListPipelineGraphs,
        columns=GRAPH_COLUMNS,
        none="no stored graphs",
        examples=["flo pipeline graphs"],
        aliases=(),
    ),
    plain_command(
        "delete-graph",
        DeletePipelineGraph,
        "name",
        NOTHING_IS_ASKED,
        text="Deleted graph: {name}",
        examples=["flo pipeline delete-graph nightly-index"],
    ),
    plain_command(
        "call",
        CallPipelineFunction,
        "id",
        "function",
        Argument("arguments", "JSON", required=False),
        Flag("node", "-N", metavar="NODE"),
        text=lambda reply: to_json(reply.result, -1),
        raw=lambda reply: to_json(reply.result, -1),
        json=lambda reply: reply.result,
        examples=[
            'flo pipeline call pipe-2 vars.set \'{"region": "eu"}\'',
            'flo pipeline call pipe-2 metrics.aggregate \'{"node_id": "enrich"}\' --node enrich',
        ],
    ),
    plain_command(
        "patch",
        PatchPipeline,
        "id",
        Flag("set", metavar="JSON"),
        Flag("unset", metavar="PATH", multiple=True),
        Flag("inc", metavar="JSON"),
        text="Pipeline {id} is {reply.status}",
        examples=['flo pipeline patch pipe-2 --set \'{"coordinator.vars.region": "eu"}\''],
    ),
    settings,
    configure,
    bridge,
)
