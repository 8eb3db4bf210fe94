"""flo log ..."""

from pathlib import Path

import click

from flo.cli.app.command import CommandGroup
from flo.cli.app.options import GlobalSettings, pass_settings
from flo.cli.app.output import show
from flo.server.config import ServerConfig

data_dir = click.option(
    "-d",
    "--data-dir",
    "folder",
    type=click.Path(path_type=Path),
    default=ServerConfig().data_dir,
    show_default=True,
    help="The folder in which the server keeps everything.",
)


@click.group(cls=CommandGroup, examples=["flo log upgrade --data-dir flo-data"])
def log() -> None:
    """Look after the log of a server that is stopped."""


@log.command(
    "upgrade",
    examples=["flo log upgrade", "flo log upgrade --data-dir ./data --format json"],
)
@data_dir
@pass_settings
def upgrade(settings: GlobalSettings, folder: Path) -> None:
    """Convert the log to the format of this release, and keep the old file beside it.

    The server must be stopped. The log is copied, and the copy is checked, before it takes the
    place of the old file; an upgrade that was interrupted can be run again.
    """
    from flo.log.lock import FolderLock
    from flo.log.sqlite.upgrade import upgrade_log
    from flo.shard.snapshotter import LOG_FILE

    path = folder / LOG_FILE
    check_there(path)
    with FolderLock(folder):
        upgraded = upgrade_log(path)
    value = {**upgraded._asdict(), "kept": upgraded.kept and str(upgraded.kept)}
    text = f"{path} has format {upgraded.format} already: nothing to do"
    if upgraded.kept is not None:
        text = (
            f"Upgraded {path} from format {upgraded.format_before} to {upgraded.format} "
            f"({upgraded.entries} entries, {upgraded.archived} rows of the archive, "
            f"{upgraded.records} rows of records)\n"
            f"The old file is {upgraded.kept}; remove it once you are content"
        )
    show(settings.format, value, text=text, raw=str(upgraded.format))


def check_there(path: Path) -> None:
    """A folder without a log is not made into one by looking at it."""
    from flo.model.errors import NotFound

    if not path.exists():
        raise NotFound(
            f"{path} does not exist; name the folder of the server with --data-dir",
            code="log_not_found",
        )
