"""A process that takes a snapshot and is killed before a chosen change of the disk."""

import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flo.log import chunk_file
from flo.log.segments import SegmentFolder
from flo.log.snapshots import SnapshotFolder
from flo.log.sqlite.entries import read_entries
from flo.shard.snapshotter import LOG_FILE, SEGMENT_FOLDER, SNAPSHOT_FOLDER, take_snapshot

KILLED = 9
PROCESSES = multiprocessing.get_context("forkserver")
"""A fork of the tests' own process might wait for the lock of a thread for ever."""
PROCESSES.set_forkserver_preload(["flo.shard.snapshotter"])


def killed_at(folder: Path, number: int, take: Callable[[Path], None]) -> bool:
    """Take a snapshot in a process that is killed before the change of the disk with this number;
    return whether there were so many."""
    child = PROCESSES.Process(target=_take_or_die, args=(folder, number, take))
    child.start()
    child.join()
    assert child.exitcode in (0, KILLED)
    return child.exitcode == KILLED


def _take_or_die(folder: Path, number: int, take: Callable[[Path], None]) -> None:
    left = iter(range(number))

    def or_die(real: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            if next(left, None) is None:
                os._exit(KILLED)
            return real(*arguments, **named)

        return call

    patched: Any = chunk_file
    patched.os = type("Os", (), {**vars(os), "fsync": or_die(os.fsync)})
    patched.ChunkWriter._write = or_die(patched.ChunkWriter._write)
    for name in ("replace", "unlink", "mkdir"):
        setattr(patched.Path, name, or_die(getattr(patched.Path, name)))
    patched.sync_folder = or_die(patched.sync_folder)
    take(folder)


def segment_first(folder: Path) -> None:
    take_snapshot(folder, with_segment=True)


def snapshot_first(folder: Path) -> None:
    """The wrong order: a kill in between leaves a snapshot, and no segment of what lies behind."""
    snapshots = SnapshotFolder(folder / SNAPSHOT_FOLDER)
    position = max(snapshots.positions(), default=0)
    before = list(snapshots.chunks(position)) if position else ()
    take_snapshot(folder)
    writer = SegmentFolder(folder / SEGMENT_FOLDER).begin(position, before)
    for entry in read_entries(folder / LOG_FILE, position):
        writer.add(entry)
    writer.finish()
