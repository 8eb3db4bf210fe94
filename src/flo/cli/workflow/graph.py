"""flo workflow graph: a definition as a drawing."""

from typing import TYPE_CHECKING

import click

from flo.cli.app.command import FloCommand
from flo.cli.app.options import Format, GlobalSettings, pass_settings
from flo.cli.app.output import to_json
from flo.cli.app.say import say
from flo.cli.workflow.options import FILE, FILE_HELP, Document, read_document
from flo.cli.workflow.problems import refused
from flo.model.errors import Invalid
from flo.model.workflows import LATEST

if TYPE_CHECKING:
    from flo.workflow.definition import Definition

MERMAID = "mermaid"


@click.command(
    "graph",
    cls=FloCommand,
    examples=[
        "flo workflow graph process-order",
        "flo workflow graph -f process-order.yaml --format mermaid",
    ],
)
@click.argument("name", required=False)
@click.option(*FILE, metavar="FILE", help=FILE_HELP)
@click.option(
    "-v",
    "--version",
    metavar="VERSION",
    default=LATEST,
    show_default=True,
    help="Which version of NAME.",
)
@click.option(
    "--format",
    "drawing",
    type=click.Choice([Format.TEXT.value, MERMAID, Format.JSON.value]),
    help="text for the terminal, mermaid for documents, json for programs.",
)
@pass_settings
def graph(
    settings: GlobalSettings, name: str | None, file: str | None, version: str, drawing: str | None
) -> None:
    """Draw the workflow NAME, or the one in a file: its steps, and where each leads."""
    if (name is None) == (file is None):
        raise click.UsageError("give the NAME of a workflow, or a file with -f")
    document = read_document(file) if file is not None else _deployed(settings, name, version)
    definition = _definition(document)
    say(_drawn(definition, drawing or settings.format).rstrip("\n"))


def _deployed(settings: GlobalSettings, name: str | None, version: str) -> Document:
    assert name is not None
    with settings.connect() as flo:
        return Document(flo.workflows.get(name, version).text, name)


def _definition(document: Document) -> "Definition":
    from flo.workflow.document.read import read_or_refuse

    try:
        return read_or_refuse(document.text)[0]
    except Invalid as error:
        raise refused(error, document) from error


def _drawn(definition: "Definition", drawing: str) -> str:
    from flo.workflow.draw import as_mermaid, as_text
    from flo.workflow.graph import graph_of

    if drawing == MERMAID:
        return as_mermaid(definition)
    if drawing != Format.JSON:
        return as_text(definition)
    nodes, edges = graph_of(definition)
    return to_json(
        {
            "name": definition.name,
            "version": definition.version,
            "nodes": [node._asdict() for node in nodes],
            "edges": [edge._asdict() for edge in edges],
        }
    )
