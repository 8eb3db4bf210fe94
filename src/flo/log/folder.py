"""The folder of a store: names in it are durable, and nobody else reads what is in it."""

import os
from contextlib import suppress
from pathlib import Path

FILE_MODE = 0o600
FOLDER_MODE = 0o700
COPY_ADVICE = "`flo backup` makes one while a server runs, `flo restore` puts it back"
"""How a backup is made, said wherever one is refused that does not fit together."""


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Make a folder that is there after a power loss, if it is not there yet."""
    if not folder.exists():
        folder.mkdir(mode=FOLDER_MODE)
        sync_folder(folder.parent)


def make_private(path: Path) -> None:
    """Make an empty file that only its owner may read, if there is none.

    One that is there is not opened: to close it would take the locks off it that SQLite has.
    """
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE))


def open_to_others(folder: Path) -> list[Path]:
    """The folder, and what is in it, as far as others than the owner may use it."""
    inside = (path for path in folder.rglob("*") if not path.is_symlink())
    return [path for path in (folder, *inside) if path.stat().st_mode & 0o077]
