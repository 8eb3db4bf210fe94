"""flo validate FILE, and flo validate workflow -f FILE."""

import click

from flo.cli.app.command import CommandGroup
from flo.cli.app.options import GlobalSettings, pass_settings
from flo.cli.workflow.options import file_option, read_document, server_option, strict_option
from flo.cli.workflow.problems import show_validation


class FileOrCommand(CommandGroup):
    """What is no command here is the file to check: `flo validate order.yaml`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            args = ["workflow", "--file", *args]
        return super().resolve_command(ctx, args)


@click.group(
    cls=FileOrCommand,
    examples=["flo validate process-order.yaml", "flo validate workflow -f process-order.yaml"],
)
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
@server_option
@pass_settings
def validate_workflow(settings: GlobalSettings, file: str, strict: bool, asks_server: bool) -> None:
    """Check the definition of a workflow.

    With errors the exit code is 3, with warnings alone 0. With --strict, a warning is an error.
    """
    show_validation(settings, read_document(file), strict=strict, asks_server=asks_server)
