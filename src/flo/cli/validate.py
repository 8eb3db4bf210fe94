"""flo validate ..."""

import click

from flo.cli.command import Group
from flo.cli.options import Settings, pass_settings
from flo.cli.problems import show_validation
from flo.cli.workflow_options import file_flag, read_document


@click.group(cls=Group, examples=["flo validate workflow -f process-order.yaml"])
def validate() -> None:
    """Check a file before it is deployed."""


@validate.command(
    "workflow",
    examples=[
        "flo validate workflow -f process-order.yaml",
        "flo validate workflow -f process-order.yaml --format json",
    ],
)
@file_flag(required=True)
@pass_settings
def validate_workflow(settings: Settings, file: str) -> None:
    """Check the definition of a workflow; no server is asked.

    With errors the exit code is 3, with warnings alone 0.
    """
    show_validation(settings, read_document(file))
