"""flo namespace ...

In JSON its list is an array of objects, like every list; the published command has an object
around it.
"""

import sys

import click

from flo.cli.app.command import CommandGroup
from flo.cli.app.derive import list_command, plain_command
from flo.cli.app.output import Columns, aligned, counts_text, time_text
from flo.cli.app.parameters import Flag
from flo.model.namespaces import (
    CreateNamespace,
    DeleteNamespace,
    GetNamespace,
    ListNamespaces,
    NamespaceView,
)
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


def _details(view: NamespaceView) -> str:
    return aligned(
        {
            "Namespace": view.name,
            "Created": time_text(view.created_at_ms),
            "Actions": view.actions,
            "Workers": view.workers,
            "Runs": counts_text(view.runs),
        }
    )


namespace.add(
    plain_command(
        "create",
        CreateNamespace,
        "name",
        text="Created namespace: {name}",
        examples=["flo namespace create myapp"],
    ),
    plain_command(
        "delete",
        DeleteNamespace,
        "name",
        Flag("force", "-f"),
        text="Deleted namespace: {name}",
        examples=["flo namespace delete staging", "flo namespace delete prod --force"],
        aliases=["rm", "remove"],
    ),
    list_command(
        "list",
        ListNamespaces,
        click.Option(
            ["-a", "--all", "limit"],
            is_flag=True,
            flag_value=sys.maxsize,
            default=None,
            help="However many there are.",
        ),
        columns=NAMESPACE_COLUMNS,
        none="no namespaces",
        examples=["flo namespace list", "flo namespace list --format json"],
    ),
    plain_command(
        "info",
        GetNamespace,
        "name",
        text=_details,
        examples=["flo namespace info prod"],
    ),
)
