"""A folder with a store in it that nobody uses yet: while it is made, and once it is there."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flo.engine.codec import EVENT_CODEC
from flo.log.chunk_file import PARTIAL
from flo.log.folder import FOLDER_MODE
from flo.log.snapshots import SnapshotFolder
from flo.log.sqlite.checks import check_while_used
from flo.log.sqlite.entries import read_log, verify_log
from flo.shard.replay import recover
from flo.shard.snapshot import fingerprint
from flo.shard.snapshotter import LOG_FILE, SNAPSHOT_FOLDER


def checked_fingerprint(folder: Path) -> str:
    """Of the state that a server would begin with; all of the folder is checked first."""
    path = folder / LOG_FILE
    loss = check_while_used(path)
    if loss is not None:
        raise loss.refusal()
    verify_log(path)
    found = recover(
        lambda position: read_log(path, EVENT_CODEC, position),
        SnapshotFolder(folder / SNAPSHOT_FOLDER),
    )
    for name in ("-wal", "-shm"):
        path.with_name(path.name + name).unlink(missing_ok=True)
    return fingerprint(found.state)


@contextmanager
def scratch_folder(parent: Path, name: str) -> Iterator[Path]:
    """A folder that is gone afterwards, unless it was given another name."""
    folder = parent / f".{name}.{os.getpid()}{PARTIAL}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=FOLDER_MODE, parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
