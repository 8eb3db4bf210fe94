"""A graph of nodes as a drawing: text for the terminal, mermaid and dot for documents.

index                    indexer
├─ first batch ─▸ enrich
└─ finished ─▸ sum

enrich                   enricher, reads index
└─ finished ─▸ sum
"""

import re
from typing import Final, NamedTuple

from flo.pipeline.graph import NodeSpec, PipelineGraph

_WIDTH: Final = 24
_UNSAFE = re.compile(r"[^A-Za-z0-9_]")


class DrawnEdge(NamedTuple):
    """What a node waits for from another, in words."""

    source: str
    target: str
    label: str


def edges_of(graph: PipelineGraph) -> list[DrawnEdge]:
    """From what each node waits for, and reads, to the node; one edge for each pair."""
    labels: dict[tuple[str, str], dict[str, None]] = {}
    for name, spec in graph.nodes.items():
        for source, label in _waits(spec):
            labels.setdefault((source, name), {})[label] = None
    order = {name: place for place, name in enumerate(graph.nodes)}
    edges = [
        DrawnEdge(source, target, ", ".join(said)) for (source, target), said in labels.items()
    ]
    last = len(order)
    return sorted(edges, key=lambda edge: (order.get(edge.source, last), order[edge.target]))


def label_of(spec: NodeSpec) -> str:
    """What runs a node, and what it needs beyond the edges."""
    parts = [f"{spec.type}: {spec.function}" if spec.function else spec.type]
    if spec.fan_in != "all" and spec.depends_on:
        parts.append(f"after {spec.fan_in} of {len(spec.depends_on)}")
    if spec.sources:
        parts.append(f"reads {', '.join(spec.sources)}")
    return ", ".join(parts)


def as_text(graph: PipelineGraph) -> str:
    edges = edges_of(graph)
    paragraphs = []
    for name, spec in graph.nodes.items():
        lines = [f"{name:<{_WIDTH}} {label_of(spec)}"]
        leading = [edge for edge in edges if edge.source == name]
        for number, edge in enumerate(leading, 1):
            corner = "└" if number == len(leading) else "├"
            lines.append(f"{corner}─ {edge.label} ─▸ {edge.target}")
        paragraphs.append("\n".join(lines))
    return "\n\n".join(paragraphs) + "\n"


def as_mermaid(graph: PipelineGraph) -> str:
    ids = _ids(graph)
    lines = ["flowchart TD"]
    for name, spec in graph.nodes.items():
        left, right = ("{{", "}}") if spec.function else ("[", "]")
        text = f"{_escaped(name)}<br/>{_escaped(label_of(spec))}"
        lines.append(f'  {ids[name]}{left}"{text}"{right}')
    lines += [
        f'  {ids[edge.source]} -->|"{_escaped(edge.label)}"| {ids[edge.target]}'
        for edge in edges_of(graph)
        if edge.source in ids
    ]
    return "\n".join(lines) + "\n"


def as_dot(graph: PipelineGraph) -> str:
    lines = ["digraph pipeline {", "  node [shape=box];"]
    for name, spec in graph.nodes.items():
        shape = " shape=hexagon" if spec.function else ""
        text = f"{_in_quotes(name)}\\n{_in_quotes(label_of(spec))}"
        lines.append(f'  "{_in_quotes(name)}" [label="{text}"{shape}];')
    lines += [
        f'  "{_in_quotes(edge.source)}" -> "{_in_quotes(edge.target)}" '
        f'[label="{_in_quotes(edge.label)}"];'
        for edge in edges_of(graph)
        if edge.source in graph.nodes
    ]
    return "\n".join([*lines, "}"]) + "\n"


def _waits(spec: NodeSpec) -> list[tuple[str, str]]:
    """The nodes that it has to do with, each with why."""
    first = "first batch" if spec.first_batch else "batches"
    waits = [(name, "finished") for name in spec.depends_on if not spec.first_batch]
    waits += [(name, first) for name in spec.sources]
    waits += [(name, "each batch") for name in spec.async_parents]
    waits += [(name, "success") for name in spec.wants_finished]
    return waits + [(name, "failure") for name in spec.wants_failed]


def _ids(graph: PipelineGraph) -> dict[str, str]:
    """Names that mermaid cannot misread, each different."""
    return {name: f"n{number}_{_UNSAFE.sub('_', name)}" for number, name in enumerate(graph.nodes)}


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")


def _in_quotes(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
