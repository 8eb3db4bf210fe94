"""flo block register: what is in some folders is known to the server, before a worker runs it."""

from typing import TYPE_CHECKING

import click

from flo.cli.app.command import FloCommand
from flo.cli.app.options import GlobalSettings, pass_settings
from flo.cli.app.output import Columns, show_list
from flo.model.blocks.blocks import RegisterBlocks, RegisteredBlock

if TYPE_CHECKING:
    from flo.worker.blocks.block import DeclaredBlock

COLUMNS: Columns[RegisteredBlock] = {
    "BLOCK": lambda registered: registered.block,
    "NEW": lambda registered: "yes" if registered.created else "no",
}

dirs_option = click.option(
    "-d",
    "--dir",
    "dirs",
    multiple=True,
    metavar="FOLDER",
    help="A folder whose Python files are imported.  [default: FLO_BLOCK_DIRS, else "
    "DIR_FUNCTION_BLOCKS]",
)


@click.command("register", cls=FloCommand, examples=["flo block register --dir blocks"])
@dirs_option
@pass_settings
def register(settings: GlobalSettings, dirs: tuple[str, ...]) -> None:
    """Register the blocks in some folders, all or none; a worker does so by itself.

    So workflows that use them can be deployed before a worker runs. Blocks that are there already
    in this form stay as they are.
    """
    specs = [declared.spec for declared in found_in(dirs)]
    reply = settings.call(RegisterBlocks(blocks=specs))
    show_list(settings.format, reply.blocks, COLUMNS, none="no blocks", cursor=None)


def found_in(dirs: tuple[str, ...]) -> "list[DeclaredBlock]":
    """The blocks in these folders, or in those that the environment names."""
    from flo.worker.blocks.discovery import discover
    from flo.worker.blocks.environment import read_environment

    return discover(dirs or read_environment().dirs)
