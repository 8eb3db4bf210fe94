"""flo validate ..."""

import click

from flo.cli.app.command import CommandGroup
from flo.cli.app.options import GlobalSettings, pass_settings
from flo.cli.workflow.options import file_option, read_document, strict_option
from flo.cli.workflow.problems import show_validation


@click.group(cls=CommandGroup, examples=["flo validate workflow -f process-order.yaml"])
def validate() -> None:
    """Check a file before it is deployed."""


@validate.command(
    "workflow",
    examples=[
        "flo validate workflow -f process-order.yaml",
        "flo validate workflow -f process-order.yaml --format json",
    ],
)
@file_option
@strict_option
@pass_settings
def validate_workflow(settings: GlobalSettings, file: str, strict: bool) -> None:
    """Check the definition of a workflow; no server is asked.

    With errors the exit code is 3, with warnings alone 0. With --strict, a warning is an error.
    """
    show_validation(settings, read_document(file), strict=strict)
