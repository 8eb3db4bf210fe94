"""Makes a data folder from a backup.

The files are written under another name, checked like a store that is opened, and their state is
replayed and compared with that of the backup; then the folder is there, as a whole.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from flo.log.backup.file import DAMAGED, Manifest, blocks_of, read_manifest
from flo.log.folder import FOLDER_MODE, make_private, sync_folder
from flo.model.errors import Conflict, Corrupt
from flo.shard.backup.folder import checked_fingerprint, scratch_folder


def restore_backup(path: Path, data_dir: Path) -> Manifest:
    """Make the data folder anew from a backup; there is none before all of it has been checked."""
    if data_dir.exists() and any(data_dir.iterdir()):
        raise Conflict(
            f"expected no folder, or an empty one, at {data_dir}; move what is there away first, "
            "or restore to another --data-dir",
            code="data_folder_not_empty",
        )
    manifest = read_manifest(path)
    with scratch_folder(data_dir.absolute().parent, data_dir.name) as folder:
        _write_files(path, manifest, folder)
        found = checked_fingerprint(folder)
        if found != manifest.fingerprint:
            raise Corrupt(
                f"{path}: the state at index {manifest.position} has fingerprint {found}, "
                f"expected {manifest.fingerprint}",
                code=DAMAGED,
            )
        if data_dir.exists():
            data_dir.rmdir()
        folder.replace(data_dir)
    sync_folder(data_dir.absolute().parent)
    return manifest


def _write_files(path: Path, manifest: Manifest, folder: Path) -> None:
    targets = {file.name: _target(path, folder, file.name) for file in manifest.files}
    for target in targets.values():
        target.parent.mkdir(mode=FOLDER_MODE, exist_ok=True)
        make_private(target)
    for uses, block in blocks_of(path, manifest):
        for use in uses:
            with _opened(targets[use.name]) as descriptor:
                os.pwrite(descriptor, block, use.offset)
    for target in targets.values():
        with _opened(target) as descriptor:
            os.fsync(descriptor)
    for made in {folder, *(target.parent for target in targets.values())}:
        sync_folder(made)


def _target(path: Path, folder: Path, name: str) -> Path:
    """Where a file of a backup belongs: in the data folder, whatever its name says."""
    parts = PurePosixPath(name).parts
    if not 1 <= len(parts) <= 2 or ".." in parts or parts[0] == "/":
        raise Corrupt(f"{path}: it names a file outside of its folder: {name}", code=DAMAGED)
    return folder.joinpath(*parts)


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
