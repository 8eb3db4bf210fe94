"""flo namespace ...

In JSON its list is an array of objects, like every list; the published command has an object
around it.
"""

import sys

import click

from flo.cli.app.command import CommandGroup
from flo.cli.app.options import GlobalSettings, pass_settings
from flo.cli.app.output import Columns, aligned, counts_text, show, show_list, time_text
from flo.cli.app.pages import collect, page_options
from flo.model.namespaces import NamespaceView
from flo.model.runs import RunStatus

NAMESPACE_COLUMNS: Columns[NamespaceView] = {
    "NAMESPACE": lambda namespace: namespace.name,
    "ACTIONS": lambda namespace: namespace.actions,
    "WORKERS": lambda namespace: namespace.workers,
    "PENDING": lambda namespace: namespace.runs[RunStatus.PENDING],
    "RUNNING": lambda namespace: namespace.runs[RunStatus.RUNNING],
}


@click.group(cls=CommandGroup, examples=["flo namespace create myapp", "flo namespace list"])
def namespace() -> None:
    """Keep things apart from each other.

    What is registered in a namespace makes it, so that none need be created; `default` is always
    there.
    """


@namespace.command("create", examples=["flo namespace create myapp"])
@click.argument("name")
@pass_settings
def create(settings: GlobalSettings, name: str) -> None:
    """Create the namespace NAME."""
    with settings.connect() as flo:
        flo.namespaces.create(name)
    show(settings.format, {"name": name}, text=f"Created namespace: {name}", raw=name)


@namespace.command(
    "delete",
    aliases=["rm", "remove"],
    examples=["flo namespace delete staging", "flo namespace delete prod --force"],
)
@click.argument("name")
@click.option("-f", "--force", is_flag=True, help="With everything that is in it.")
@pass_settings
def delete(settings: GlobalSettings, name: str, force: bool) -> None:
    """Delete the namespace NAME."""
    with settings.connect() as flo:
        flo.namespaces.delete(name, force=force)
    show(settings.format, {"name": name}, text=f"Deleted namespace: {name}", raw=name)


@namespace.command(
    "list", aliases=["ls"], examples=["flo namespace list", "flo namespace list --format json"]
)
@click.option("-a", "--all", "everything", is_flag=True, help="However many there are.")
@page_options(limit_default=100)
@pass_settings
def list_namespaces(
    settings: GlobalSettings, everything: bool, limit: int, cursor: str | None
) -> None:
    """List the namespaces."""
    with settings.connect() as flo:
        limit = sys.maxsize if everything else limit
        namespaces, cursor = collect(flo.namespaces.list, limit, cursor)
    show_list(settings.format, namespaces, NAMESPACE_COLUMNS, none="no namespaces", cursor=cursor)


@namespace.command("info", examples=["flo namespace info prod"])
@click.argument("name")
@pass_settings
def info(settings: GlobalSettings, name: str) -> None:
    """Show how much there is in the namespace NAME."""
    with settings.connect() as flo:
        view = flo.namespaces.get(name)
    details = {
        "Namespace": view.name,
        "Created": time_text(view.created_at_ms),
        "Actions": view.actions,
        "Workers": view.workers,
        "Runs": counts_text(view.runs),
    }
    show(settings.format, view, text=aligned(details), raw=view.name)
