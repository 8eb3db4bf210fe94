"""flo pipeline graph, validate: a graph as a drawing, and what is wrong with one."""

from typing import TYPE_CHECKING, Any

import click

from flo.cli.app.command import FloCommand
from flo.cli.app.errors import REFUSED
from flo.cli.app.options import Format, GlobalSettings, pass_settings
from flo.cli.app.output import count_text, show, to_json
from flo.cli.app.say import say
from flo.cli.pipeline.document import FILE, FILE_HELP, graph_in, read_graph_file
from flo.model.errors import Invalid

if TYPE_CHECKING:
    from flo.pipeline.graph import PipelineGraph

MERMAID = "mermaid"
DOT = "dot"


@click.command(
    "graph",
    cls=FloCommand,
    examples=[
        "flo pipeline graph pipe-1",
        "flo pipeline graph -f graph.json --format mermaid",
        "flo pipeline graph --name nightly-index --format dot",
    ],
)
@click.argument("pipeline", required=False)
@click.option("-g", "--name", metavar="NAME", help="A stored graph instead.")
@click.option(*FILE, metavar="FILE", help=FILE_HELP)
@click.option(
    "--format",
    "drawing",
    type=click.Choice([Format.TEXT.value, MERMAID, DOT, Format.JSON.value]),
    help="text for the terminal, mermaid or dot for documents, json for programs.",
)
@pass_settings
def graph(
    settings: GlobalSettings,
    pipeline: str | None,
    name: str | None,
    file: str | None,
    drawing: str | None,
) -> None:
    """Draw the graph of the pipeline PIPELINE, or a stored one, or the one in a file."""
    if [pipeline, name, file].count(None) != 2:
        raise click.UsageError("give the id of a PIPELINE, a stored graph with --name, or a file")
    document = read_graph_file(file) if file is not None else _known(settings, pipeline, name)
    say(_drawn(document, drawing or settings.format).rstrip("\n"))


@click.command(
    "validate",
    cls=FloCommand,
    examples=["flo pipeline validate -f graph.json", "flo pipeline validate -f graph.yaml"],
)
@click.option(*FILE, required=True, metavar="FILE", help=FILE_HELP)
@pass_settings
def validate(settings: GlobalSettings, file: str) -> None:
    """Check the graph in a file, and submit nothing; no server is asked.

    With problems the exit code is 3.
    """
    document = read_graph_file(file)
    try:
        read = graph_in(document)
    except Invalid as error:
        problems, nodes = [error.message], 0
    else:
        problems, nodes = list(read.problems), len(read.nodes)
    value = {"file": file, "valid": not problems, "nodes": nodes, "problems": problems}
    verdict = f"FAILED: {count_text(len(problems), 'problem')}"
    if not problems:
        verdict = f"OK: {count_text(nodes, 'node')}"
    raw = "invalid" if problems else "valid"
    show(settings.format, value, text="\n".join([*problems, verdict]), raw=raw)
    if problems:
        raise click.exceptions.Exit(REFUSED)


def _known(settings: GlobalSettings, pipeline: str | None, name: str | None) -> dict[str, Any]:
    with settings.connect() as flo:
        if name is not None:
            return flo.pipelines.graph(name).graph
        assert pipeline is not None
        return flo.pipelines.status(pipeline).graph


def _drawn(document: dict[str, Any], drawing: str) -> str:
    from flo.pipeline.draw import as_dot, as_mermaid, as_text

    read = graph_in(document)
    match drawing:
        case "mermaid":
            return as_mermaid(read)
        case "dot":
            return as_dot(read)
        case Format.JSON:
            return to_json(_value(read))
        case _:
            return as_text(read)


def _value(read: "PipelineGraph") -> dict[str, Any]:
    from flo.pipeline.draw import edges_of, label_of

    return {
        "nodes": [
            {"node_id": name, "type": spec.type, "label": label_of(spec)}
            for name, spec in read.nodes.items()
        ],
        "edges": [edge._asdict() for edge in edges_of(read)],
        "problems": list(read.problems),
    }
