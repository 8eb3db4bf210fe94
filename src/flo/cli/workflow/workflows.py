"""flo workflow ...: definitions. The commands about runs are in workflow_runs.py."""

import click

from flo.cli.app.command import CommandGroup
from flo.cli.app.options import GlobalSettings, pass_settings
from flo.cli.app.output import Columns, show, show_list, time_text
from flo.cli.app.pages import collect, page_options
from flo.cli.workflow.executions import RUN_COMMANDS
from flo.cli.workflow.graph import graph
from flo.cli.workflow.options import connected, file_flag, read_document, version_flag
from flo.cli.workflow.problems import refused, show_validation, tell_problems
from flo.cli.workflow.watch import watch
from flo.model.errors import Invalid
from flo.model.workflows import LATEST, WorkflowItem

WORKFLOW_COLUMNS: Columns[WorkflowItem] = {
    "NAME": lambda workflow: workflow.name,
    "VERSION": lambda workflow: workflow.version,
    "VERSIONS": lambda workflow: len(workflow.versions),
    "ENABLED": lambda workflow: "yes" if workflow.enabled else "no",
    "LIVE RUNS": lambda workflow: workflow.live_runs,
    "CREATED": lambda workflow: time_text(workflow.created_at_ms),
}


@click.group(
    cls=CommandGroup,
    examples=[
        "flo workflow create -f process-order.yaml",
        'flo workflow start process-order \'{"order_id": "ORD-123", "amount": 99.99}\'',
        "flo workflow status wfrun-1",
        "flo workflow explain wfrun-1",
    ],
)
def workflow() -> None:
    """Deploy workflows, start them, see where their runs are."""


@workflow.command("create", examples=["flo workflow create -f process-order.yaml"])
@file_flag(required=True)
@pass_settings
def create(settings: GlobalSettings, file: str) -> None:
    """Deploy a definition; warnings are told on stderr.

    The same text again changes nothing. Another text needs another version: runs that are under
    way keep theirs.
    """
    document = read_document(file)
    with settings.connect() as flo:
        try:
            deployed = flo.workflows.create(document.text)
        except Invalid as error:
            raise refused(error, document) from error
    tell_problems(deployed.problems, document)
    word = "Created" if deployed.created else "Unchanged"
    text = f"{word} workflow: {deployed.name}"
    show(settings.format, deployed, text=text, raw=deployed.name)


@workflow.command(
    "validate",
    examples=[
        "flo workflow validate -f process-order.yaml",
        "flo workflow validate -f process-order.yaml --format json",
    ],
)
@file_flag(required=True)
@pass_settings
def validate(settings: GlobalSettings, file: str) -> None:
    """Check a definition, and deploy nothing; no server is asked.

    With errors the exit code is 3, with warnings alone 0.
    """
    show_validation(settings, read_document(file))


@workflow.command(
    "list", aliases=["ls"], examples=["flo workflow list", "flo workflow list --format json"]
)
@page_options(limit_default=100)
@pass_settings
def list_workflows(settings: GlobalSettings, limit: int, cursor: str | None) -> None:
    """List the deployed workflows, each with its latest version."""
    with settings.connect() as flo:
        workflows, cursor = collect(flo.workflows.list, limit, cursor)
    show_list(settings.format, workflows, WORKFLOW_COLUMNS, none="no workflows", cursor=cursor)


@workflow.command(
    "definition",
    aliases=["def", "show"],
    examples=[
        "flo workflow definition process-order",
        "flo workflow definition process-order --version 1.0.0",
    ],
)
@click.argument("name")
@version_flag("Which version of it.", LATEST)
@pass_settings
def definition(settings: GlobalSettings, name: str, version: str) -> None:
    """Print the definition of the workflow NAME, as it was deployed."""
    with connected(settings) as flo:
        view = flo.workflows.get(name, version)
    show(settings.format, view, text=view.text.rstrip("\n"), raw=view.text.encode())


@workflow.command(
    "enable",
    examples=[
        "flo workflow enable reconcile-accounts",
        "flo workflow enable reconcile-accounts --version 1.0.0",
    ],
)
@click.argument("name")
@version_flag("This one alone; otherwise all of them.")
@pass_settings
def enable(settings: GlobalSettings, name: str, version: str | None) -> None:
    """Let the workflow NAME be started again, also by its schedule."""
    with connected(settings) as flo:
        flo.workflows.enable(name, version)
    value = {"name": name, "version": version, "enabled": True}
    show(settings.format, value, text=f"Workflow {name!r} enabled", raw=name)


@workflow.command(
    "disable",
    examples=[
        "flo workflow disable reconcile-accounts",
        "flo workflow disable reconcile-accounts --version 1.0.0",
    ],
)
@click.argument("name")
@version_flag("This one alone; otherwise all there are and will be.")
@pass_settings
def disable(settings: GlobalSettings, name: str, version: str | None) -> None:
    """Refuse new runs of the workflow NAME, and let its schedule rest; its runs go on.

    The schedule is that of the latest version, and rests if that one is disabled.
    """
    with connected(settings) as flo:
        flo.workflows.disable(name, version)
    value = {"name": name, "version": version, "enabled": False}
    show(settings.format, value, text=f"Workflow {name!r} disabled", raw=name)


@workflow.command(
    "delete",
    aliases=["rm"],
    examples=[
        "flo workflow delete process-order",
        "flo workflow delete process-order --version 1.0.0",
    ],
)
@click.argument("name")
@version_flag("Only this version; otherwise all of them.")
@click.option("-f", "--force", is_flag=True, help="Accepted, but nothing is asked anyway.")
@pass_settings
def delete(settings: GlobalSettings, name: str, version: str | None, force: bool) -> None:
    """Delete the workflow NAME: runs that are under way go on to their end."""
    with connected(settings) as flo:
        flo.workflows.delete(name, version)
    which = name if version is None else f"{name} {version}"
    value = {"name": name, "version": version}
    show(settings.format, value, text=f"Deleted workflow: {which}", raw=name)


workflow.add_command(graph)
for command in RUN_COMMANDS:
    workflow.add_command(command)
workflow.add_command(watch)
