"""Reads the graph of a pipeline from a file: JSON or YAML."""

from typing import TYPE_CHECKING, Any

import click

from flo.cli.workflow.options import read_document
from flo.cli.workflow.problems import problems_text

if TYPE_CHECKING:
    from flo.pipeline.graph import PipelineGraph

FILE = ["-f", "--file"]
FILE_HELP = "The file that holds the graph, in JSON or YAML; - reads it from stdin."


def read_graph_file(file: str) -> dict[str, Any]:
    """The graph in a file, as it stands there."""
    from flo.workflow.document.nodes import DocumentRefused, plain
    from flo.workflow.document.parse import compose

    document = read_document(file)
    try:
        root, problems = compose(document.text)
    except DocumentRefused as refused:
        root, problems = None, (refused.problem,)
    if root is None or problems:
        raise click.UsageError(f"{document.name}:\n{problems_text(problems, document)}")
    graph = plain(root)
    if not isinstance(graph, dict):
        raise click.UsageError(f"{document.name}: expected an object with `nodes`")
    return graph


def graph_in(document: dict[str, Any]) -> "PipelineGraph":
    """The graph of a document, with what is wrong with it; Invalid if it cannot be read at all."""
    from flo.pipeline.graph import read_graph

    return read_graph(document)
