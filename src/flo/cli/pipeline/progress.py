"""How far a pipeline is, as people see it: its nodes as a tree, with batches and a bar for each.

pipe-1  running  12 s
├─ index    indexer   finished   40 batches               ████████████████████ 100 %
│  └─ enrich  enricher  running    25 of 40, 2 in hand    ████████████▌        62 %
└─ sum      coordinator_fn  queued
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from flo.cli.app.output import counts_text, duration_text, time_text, to_json
from flo.core.printable import printable
from flo.model.pipelines.names import NODE_ENDED, PIPELINE_ENDED, NodeStatus, PipelineStatus
from flo.model.pipelines.views import NodeView, PipelineView

BAR_WIDTH = 20
_EIGHTHS = " ▏▎▍▌▋▊▉"


class TreeLine(NamedTuple):
    """One line of the tree: what stands before the node, and the node."""

    branch: str
    node: NodeView


def pipeline_text(pipeline: PipelineView, now_ms: int, rates: Mapping[str, float] = {}) -> str:
    """The pipeline and the tree of its nodes; `rates` are batches a second, by node."""
    lines = [header_text(pipeline, now_ms)]
    rows = [
        [
            f"{line.branch}{line.node.node_id}",
            line.node.type,
            _status_text(line.node, now_ms),
            batches_text(line.node),
            _rate_text(rates.get(line.node.node_id)),
            bar_text(line.node),
        ]
        for line in tree_of(pipeline)
    ]
    widths = [max((len(row[place]) for row in rows), default=0) for place in range(6)]
    lines += [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join(printable(line) for line in lines)


def header_text(pipeline: PipelineView, now_ms: int) -> str:
    until_ms = pipeline.finished_at_ms or now_ms
    took = duration_text(max(until_ms - pipeline.created_at_ms, 0))
    parts = [pipeline.id, pipeline.graph_name, str(pipeline.status), took]
    if pipeline.cancel_reason:
        parts.append(f"({pipeline.cancel_reason})")
    return "  ".join(part for part in parts if part)


def tree_of(pipeline: PipelineView) -> Iterator[TreeLine]:
    """Each node once: under the last of the nodes that it waits for, or reads."""
    nodes = {node.node_id: node for node in pipeline.nodes}
    order = {name: place for place, name in enumerate(nodes)}
    children: dict[str, list[str]] = {}
    for name, node in nodes.items():
        parents = [one for one in parents_of(node) if order.get(one, len(order)) < order[name]]
        parent = max(parents, key=order.__getitem__) if parents else ""
        children.setdefault(parent, []).append(name)
    stack = [("", name, True) for name in children.get("", ())]
    stack = _last_marked(stack)[::-1]
    while stack:
        margin, name, is_last = stack.pop()
        yield TreeLine(f"{margin}{'└─ ' if is_last else '├─ '}", nodes[name])
        inner = margin + ("   " if is_last else "│  ")
        below = [(inner, child, True) for child in children.get(name, ())]
        stack += _last_marked(below)[::-1]


def parents_of(node: NodeView) -> list[str]:
    """The nodes that it waits for, and those whose batches its graph says it reads."""
    inline = (node.spec.get("io") or {}).get("input_inline")
    args = inline.get("input_args") if isinstance(inline, dict) else None
    named: Any = args.get("from_nodes") or [args.get("from_node")] if isinstance(args, dict) else []
    if not isinstance(named, list):
        named = []
    return [*node.depends_on, *(one for one in named if isinstance(one, str))]


def batches_text(node: NodeView) -> str:
    """What has gone in and out: "25 of 40 in, 2 in hand, 25 out"."""
    known_in = node.batches_in + node.in_progress + node.behind
    parts = []
    if known_in:
        parts.append(f"{node.batches_in} of {known_in} in")
    if node.in_progress and node.status not in NODE_ENDED:
        parts.append(f"{node.in_progress} in hand")
    if node.batches:
        parts.append("1 batch" if node.batches == 1 else f"{node.batches} batches")
    if node.batches_failed:
        parts.append(f"{node.batches_failed} failed")
    return ", ".join(parts)


def bar_text(node: NodeView) -> str:
    """How much of the input that there is so far is done; nothing where there is none."""
    known_in = node.batches_in + node.in_progress + node.behind
    if node.status is NodeStatus.FINISHED:
        done = 1.0
    elif node.status is NodeStatus.QUEUED or not known_in:
        return ""
    else:
        done = node.batches_in / known_in
    eighths = round(done * BAR_WIDTH * 8)
    bar = "█" * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")
    return f"{bar:<{BAR_WIDTH}} {done * 100:3.0f} %"


def status_text(pipeline: PipelineView, now_ms: int) -> str:
    """The whole of it: the tree, then times, params, variables and the result."""
    lines = [pipeline_text(pipeline, now_ms), ""]
    lines.append(f"Submitted: {time_text(pipeline.created_at_ms)}")
    if pipeline.finished_at_ms is not None:
        lines.append(f"Ended:     {time_text(pipeline.finished_at_ms)}")
    lines.append(f"Nodes:     {counts_text(counts_of(pipeline))}")
    if pipeline.params:
        lines.append(f"Params:    {to_json(pipeline.params, -1)}")
    if pipeline.vars:
        lines.append(f"Variables: {to_json(pipeline.vars, -1)}")
    lines += [
        f"Error:     {node.node_id}: {node.last_error}{f': {node.error}' if node.error else ''}"
        for node in pipeline.nodes
        if node.last_error and node.status is not NodeStatus.FINISHED
    ]
    if pipeline.status is PipelineStatus.FINISHED and pipeline.result:
        lines.append(f"Result:    {to_json(pipeline.result, -1)}")
    return printable("\n".join(lines))


def counts_of(pipeline: PipelineView) -> dict[str, int]:
    counts: dict[str, int] = {}
    for node in pipeline.nodes:
        counts[str(node.status)] = counts.get(str(node.status), 0) + 1
    return counts


def has_ended(pipeline: PipelineView) -> bool:
    return pipeline.status in PIPELINE_ENDED


def _status_text(node: NodeView, now_ms: int) -> str:
    text = str(node.status)
    if node.status is NodeStatus.RUNNING and node.lease is not None:
        text += f" on {node.lease.worker_id}"
    if node.status is NodeStatus.QUEUED and node.is_ready:
        text += ", waits for a worker"
    if node.status is NodeStatus.DEFERRED and node.next_retry_at_ms is not None:
        text += f", again in {duration_text(max(node.next_retry_at_ms - now_ms, 0))}"
    if node.attempt_epoch > 1:
        text += f", attempt {node.attempt_epoch}"
    return (
        text
        if not node.last_error or node.status is NodeStatus.FINISHED
        else (f"{text} ({node.last_error})")
    )


def _rate_text(rate: float | None) -> str:
    return "" if rate is None else f"{rate:,.1f}/s" if rate < 100 else f"{rate:,.0f}/s"


def _last_marked(entries: list[tuple[str, str, bool]]) -> list[tuple[str, str, bool]]:
    """Only the last of siblings is the last."""
    last = len(entries) - 1
    return [(margin, name, place == last) for place, (margin, name, _) in enumerate(entries)]
