"""flo backup, flo restore"""

from pathlib import Path
from time import time
from typing import TYPE_CHECKING

import click

from flo.cli.app.command import FloCommand
from flo.cli.app.options import GlobalSettings, pass_settings
from flo.cli.app.output import bytes_text, lines, show, show_list, time_text
from flo.cli.proof import check_there, data_dir
from flo.model.errors import Invalid

if TYPE_CHECKING:
    from flo.log.backup.file import Manifest
    from flo.log.backup.folder import BackupFolder, KeptBackup


@click.command(
    "backup",
    cls=FloCommand,
    examples=[
        "flo backup flo.backup",
        "flo backup --to ./backups --keep 30",
        "flo backup --check ./backups",
    ],
)
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option(
    "--to",
    type=click.Path(path_type=Path),
    help="A folder of backups: only what the newest one in it does not hold is written.",
)
@click.option("--full", is_flag=True, help="With --to: write everything, whatever is there.")
@click.option(
    "--keep",
    type=click.IntRange(1),
    help="With --to: remove all but the newest so many afterwards, and what these need.",
)
@click.option(
    "--check", is_flag=True, help="Make none: read the backup, and say whether it is whole."
)
@data_dir
@pass_settings
def backup(
    settings: GlobalSettings,
    file: Path | None,
    to: Path | None,
    full: bool,
    keep: int | None,
    check: bool,
    folder: Path,
) -> None:
    """Copy the data folder of a server while it runs.

    The copy is that of one moment. It is checked, its state is replayed, and what was written is
    read back, before this says that it is done. Run it where the data folder is.
    """
    if check:
        _show_check(settings, _chosen(_one_of(file, to), None))
        return
    from flo.log.backup.folder import BackupFolder
    from flo.shard.backup.take import take_backup
    from flo.shard.snapshotter import LOG_FILE

    path = _one_of(file, to)
    now_ms = int(time() * 1_000)
    check_there(folder / LOG_FILE)
    gone: list[Path] = []
    if to is None:
        taken = take_backup(folder, lambda position: path, now_ms)
    else:
        kept = BackupFolder(to)
        kept.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        earlier = None if full or not kept.backups() else kept.newest().path
        taken = take_backup(folder, lambda at: kept.path_of(at, now_ms), now_ms, earlier)
        gone = kept.retire(keep) if keep is not None else []
    value = {
        "path": str(taken.path),
        **_value(taken.manifest),
        "bytes_new": taken.bytes_new,
        "removed": [str(path) for path in gone],
    }
    length, new = bytes_text(taken.manifest.length), bytes_text(taken.bytes_new)
    size = bytes_text(taken.path.stat().st_size)
    text = (
        f"Backed up to {taken.path}: {length}, of which {new} were new ({size} on disk); "
        f"read back, and whole\n{_text(taken.manifest)}"
    )
    show(settings.format, value, text=text, raw=str(taken.path))


@click.command(
    "restore",
    cls=FloCommand,
    examples=[
        "flo restore flo.backup --data-dir ./restored",
        "flo restore ./backups --list",
        "flo restore ./backups --at 2h --data-dir ./restored",
    ],
)
@click.argument("source", type=click.Path(path_type=Path))
@click.option(
    "--at",
    metavar="POSITION|TIME",
    help="Of a folder: the last backup up to a position, a time, or so long ago (90m, 7d).",
)
@click.option("--list", "listing", is_flag=True, help="Restore nothing: show what there is.")
@data_dir
@pass_settings
def restore(
    settings: GlobalSettings, source: Path, at: str | None, listing: bool, folder: Path
) -> None:
    """Make a data folder from a backup.

    Of a folder of backups it is the newest. The data folder must not be there, or be empty.
    Everything is checked, and the state replayed and compared with that of the backup, before the
    folder is there under its name.
    """
    from flo.log.backup.folder import BackupFolder
    from flo.shard.backup.restore import restore_backup

    if listing:
        _show_list(settings, BackupFolder(source))
        return
    path = _chosen(source, at)
    restored = restore_backup(path, folder)
    value = {"data_dir": str(folder), "path": str(path), **_value(restored)}
    text = (
        f"Restored {folder} from {path}: {bytes_text(restored.length)}, whole\n{_text(restored)}\n"
        f"Start a server on it: flo server start --data-dir {folder}"
    )
    show(settings.format, value, text=text, raw=str(folder))


def _one_of(file: Path | None, folder: Path | None) -> Path:
    path = file if file is not None else folder
    if path is None or None not in (file, folder):
        raise Invalid("expected a FILE or --to DIR: flo backup flo.backup")
    return path


def _chosen(source: Path, at: str | None) -> Path:
    """The file of a backup; of a folder, the newest one that fits."""
    from flo.cli.workflow.options import read_since
    from flo.log.backup.folder import BackupFolder
    from flo.model.errors import NotFound

    if not source.exists():
        raise NotFound(f"{source} does not exist", code="backup_not_found")
    if not source.is_dir():
        return source
    folder = BackupFolder(source)
    if at is None:
        return folder.newest().path
    if at.isdigit():
        return folder.newest(position_max=int(at)).path
    return folder.newest(at_ms_max=read_since(at, "--at")).path


def _show_check(settings: GlobalSettings, path: Path) -> None:
    from flo.shard.backup.take import check_backup

    manifest = check_backup(path)
    value = {"path": str(path), "whole": True, **_value(manifest)}
    show(settings.format, value, text=f"{path} is whole\n{_text(manifest)}", raw=str(path))


def _show_list(settings: GlobalSettings, folder: "BackupFolder") -> None:
    columns = {
        "POSITION": lambda one: one.position,
        "TAKEN": lambda one: time_text(one.taken_at_ms),
        "SIZE": lambda one: bytes_text(one.path.stat().st_size),
        "FILE": lambda one: one.path.name,
    }

    def to_value(one: "KeptBackup") -> dict[str, object]:
        return {**one._asdict(), "path": str(one.path), "bytes": one.path.stat().st_size}

    show_list(
        settings.format,
        folder.backups(),
        columns,
        none="No backups",
        cursor=None,
        to_value=to_value,
    )


def _value(manifest: "Manifest") -> dict[str, object]:
    return {
        "position": manifest.position,
        "taken_at_ms": manifest.taken_at_ms,
        "fingerprint": manifest.fingerprint,
        "digest": manifest.digest.hex(),
        "store_id": manifest.store_id.hex(),
        "bytes": manifest.length,
        "needs": [holder for holder in manifest.holders if holder],
    }


def _text(manifest: "Manifest") -> str:
    return lines(
        {
            "position": str(manifest.position),
            "taken": time_text(manifest.taken_at_ms),
            "fingerprint": manifest.fingerprint,
            "needs": ", ".join(holder for holder in manifest.holders if holder) or None,
        }
    )
