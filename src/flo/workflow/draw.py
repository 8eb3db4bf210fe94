"""A definition as a drawing: text for the terminal, mermaid for documents.

start                    @actions/validate-order
├─ success ─▸ charge
└─ failure ─▸ ■ flo.Failed
"""

import re
from typing import Final

from flo.workflow.definition import START, Definition
from flo.workflow.graph import Edge, Graph, Node, NodeKind, graph_of, join_text
from flo.workflow.steps import ParallelStep

_SHAPES: Final[dict[NodeKind, tuple[str, str]]] = {
    NodeKind.RUN: ("[", "]"),
    NodeKind.SIGNAL: ("{{", "}}"),
    NodeKind.SLEEP: ("[/", "/]"),
    NodeKind.PARALLEL: ("[[", "]]"),
    NodeKind.FOR_EACH: ("[[", "]]"),
    NodeKind.TERMINAL: ("([", "])"),
}
_WIDTH: Final = 24
_UNSAFE = re.compile(r"[^A-Za-z0-9_]")


def as_text(definition: Definition) -> str:
    graph = graph_of(definition)
    terminals = {node.name for node in graph.nodes if node.kind is NodeKind.TERMINAL}
    parts = [
        _paragraph(node, graph, terminals)
        for node in _in_order(graph)
        if node.kind is not NodeKind.TERMINAL
    ]
    return "\n\n".join([f"{definition.name} {definition.version}", *parts]) + "\n"


def _in_order(graph: Graph) -> list[Node]:
    """Each parallel step is followed by the steps of its branches."""
    inside: dict[str, list[Node]] = {}
    for node in graph.nodes:
        inside.setdefault(node.inside, []).append(node)
    return [one for node in inside[""] for one in (node, *inside.get(node.name, ()))]


def _paragraph(node: Node, graph: Graph, terminals: set[str]) -> str:
    margin = "  ║ " if node.inside else ""
    edges = [edge for edge in graph.edges if edge.source == node.name]
    lines = [f"{node.name:<{_WIDTH}} {node.label}"]
    for number, edge in enumerate(edges, 1):
        corner = "└" if number == len(edges) else "├"
        lines.append(f"{corner}─ {edge.label} ─▸ {_goal(edge, terminals)}")
    return "\n".join(margin + line for line in lines)


def _goal(edge: Edge, terminals: set[str]) -> str:
    return f"■ {edge.target}" if edge.target in terminals else edge.target


def as_mermaid(definition: Definition) -> str:
    graph = graph_of(definition)
    ids = _ids(graph)
    lines = ["flowchart TD"]
    lines += [f"  {_box(node, ids)}" for node in graph.nodes if not node.inside]
    for name, step in {START: definition.start, **definition.steps}.items():
        if isinstance(step, ParallelStep):
            title = f"{name}: {join_text(step.parallel.join)}"
            lines.append(f'  subgraph {ids[name]}_branches["{_quoted(title)}"]')
            lines += [f"    {_box(node, ids)}" for node in graph.nodes if node.inside == name]
            lines.append("  end")
    lines += [
        f'  {ids[edge.source]} -->|"{_quoted(edge.label)}"| {ids[edge.target]}'
        for edge in graph.edges
    ]
    return "\n".join(lines) + "\n"


def _ids(graph: Graph) -> dict[str, str]:
    """Names that mermaid cannot misread, each different."""
    return {
        node.name: f"n{number}_{_UNSAFE.sub('_', node.name)}"
        for number, node in enumerate(graph.nodes)
    }


def _box(node: Node, ids: dict[str, str]) -> str:
    left, right = _SHAPES[node.kind]
    return f'{ids[node.name]}{left}"{_quoted(node.name)}<br/>{_quoted(node.label)}"{right}'


def _quoted(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
