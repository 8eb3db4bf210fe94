"""flo workflow definition: the text of a workflow, by its name or by its digest."""

import click

from flo.cli.app.command import FloCommand
from flo.cli.app.options import GlobalSettings, pass_settings
from flo.cli.app.output import show
from flo.model.executions.definitions import GetDefinition
from flo.model.workflows import LATEST, GetWorkflow


@click.command(
    "definition",
    cls=FloCommand,
    examples=[
        "flo workflow definition process-order",
        "flo workflow definition process-order --version 1.0.0",
        "flo workflow definition --definition 1b3b75a05f14",
    ],
    aliases=["def", "show"],
)
@click.argument("name", required=False)
@click.option("-v", "--version", metavar="VERSION", help="Which version; the newest if left out.")
@click.option(
    "-d",
    "--definition",
    "digest",
    metavar="HASH",
    help="The SHA-256 of the text instead of the name, or its first 8 digits or more.",
)
@pass_settings
def definition(
    settings: GlobalSettings, name: str | None, version: str | None, digest: str | None
) -> None:
    """Print the definition of the workflow NAME, as it was deployed.

    A version that was deleted can be shown as long as a run of it is kept. Every run tells the
    digest of its definition.
    """
    if (name is None) == (digest is None) or (digest is not None and version is not None):
        raise click.UsageError("give the NAME of a workflow, or a digest with --definition")
    with settings.connect() as flo:
        if digest is not None:
            view = flo.call(GetDefinition(definition=digest))
        else:
            assert name is not None
            view = flo.call(GetWorkflow(name=name, version=version or LATEST))
    show(settings.format, view, text=view.text.rstrip("\n"), raw=view.text.encode())
