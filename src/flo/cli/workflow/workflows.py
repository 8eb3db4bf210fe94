"""flo workflow ...: definitions. The commands about runs are in executions.py."""

import click

from flo.cli.app.command import CommandGroup
from flo.cli.app.derive import NOTHING_IS_ASKED, list_command, plain_command
from flo.cli.app.options import GlobalSettings, pass_settings
from flo.cli.app.output import Columns, enabled_text, show, time_text
from flo.cli.workflow.definition import definition
from flo.cli.workflow.executions import RUN_COMMANDS
from flo.cli.workflow.graph import graph
from flo.cli.workflow.options import (
    VERSION,
    file_option,
    read_document,
    server_option,
    strict_option,
)
from flo.cli.workflow.problems import print_problems, refused, show_validation
from flo.cli.workflow.progress import DIGEST_SHOWN
from flo.cli.workflow.watch import watch
from flo.model.errors import Invalid
from flo.model.workflows import (
    DeleteWorkflow,
    DisableWorkflow,
    EnableWorkflow,
    ListWorkflows,
    WorkflowItem,
)

WORKFLOW_COLUMNS: Columns[WorkflowItem] = {
    "NAME": lambda workflow: workflow.name,
    "VERSION": lambda workflow: workflow.version,
    "VERSIONS": lambda workflow: len(workflow.versions),
    "ENABLED": lambda workflow: enabled_text(workflow),
    "LIVE RUNS": lambda workflow: workflow.live_runs,
    "CREATED": lambda workflow: time_text(workflow.created_at_ms),
    "DEFINITION": lambda workflow: workflow.definition[:DIGEST_SHOWN],
}


@click.group(
    cls=CommandGroup,
    examples=[
        "flo workflow create -f process-order.yaml",
        'flo workflow start process-order \'{"order_id": "ORD-123", "amount": 99.99}\'',
        "flo workflow status wfrun-1",
        "flo workflow explain wfrun-1",
    ],
    hints={
        "run_not_found": "See which there are with: flo workflow list-runs",
        "run_has_ended": "Repeat it with: flo workflow rerun RUN",
    },
)
def workflow() -> None:
    """Deploy workflows, start them, see where their runs are."""


@workflow.command(
    "create",
    examples=[
        "flo workflow create -f process-order.yaml",
        "flo workflow create -f process-order.yaml --strict",
    ],
)
@file_option
@strict_option
@pass_settings
def create(settings: GlobalSettings, file: str, strict: bool) -> None:
    """Deploy a definition; warnings go to stderr. With --strict, a warning is an error.

    The same text again changes nothing. Another text needs another version: runs that are under
    way keep theirs.
    """
    document = read_document(file)
    with settings.connect() as flo:
        try:
            deployed = flo.workflows.create(document.text, strict=strict)
        except Invalid as error:
            raise refused(error, document) from error
    print_problems(deployed.problems, document)
    word = "Created" if deployed.created else "Unchanged"
    text = f"{word} workflow: {deployed.name}"
    show(settings.format, deployed, text=text, raw=deployed.name)


@workflow.command(
    "validate",
    examples=[
        "flo workflow validate -f process-order.yaml",
        "flo workflow validate -f process-order.yaml --strict",
        "flo workflow validate -f process-order.yaml --format json",
    ],
)
@file_option
@strict_option
@server_option
@pass_settings
def validate(settings: GlobalSettings, file: str, strict: bool, asks_server: bool) -> None:
    """Check a definition, and deploy nothing; no server is asked, unless with --server.

    With errors the exit code is 3, with warnings alone 0. With --strict, a warning is an error.
    """
    show_validation(settings, read_document(file), strict=strict, asks_server=asks_server)


workflow.add(
    list_command(
        "list",
        ListWorkflows,
        columns=WORKFLOW_COLUMNS,
        none="no workflows",
        examples=["flo workflow list", "flo workflow list --format json"],
    ),
    definition,
    plain_command(
        "enable",
        EnableWorkflow,
        "name",
        VERSION,
        text="Workflow {name!r} enabled",
        json=["name", "version"],
        also={"enabled": True},
        examples=[
            "flo workflow enable reconcile-accounts",
            "flo workflow enable reconcile-accounts --version 1.0.0",
        ],
    ),
    plain_command(
        "disable",
        DisableWorkflow,
        "name",
        VERSION,
        text="Workflow {name!r} disabled",
        json=["name", "version"],
        also={"enabled": False},
        examples=[
            "flo workflow disable reconcile-accounts",
            "flo workflow disable reconcile-accounts --version 1.0.0",
        ],
        more="The schedule is that of the latest version, and rests if that one is disabled.",
    ),
    plain_command(
        "delete",
        DeleteWorkflow,
        "name",
        VERSION,
        NOTHING_IS_ASKED,
        text="Deleted workflow: {name} {version}",
        json=["name", "version"],
        examples=[
            "flo workflow delete process-order",
            "flo workflow delete process-order --version 1.0.0",
        ],
        aliases=["rm"],
    ),
    graph,
    *RUN_COMMANDS,
    watch,
)
