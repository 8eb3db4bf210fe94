"""The log of a server that was killed, cut at any of its commits.

    flo.db        as it was made; nothing is copied into it while the log is short
    flo.db-wal    header │ frame frame FRAME │ frame FRAME │ frame frame frame FRAME │
                                        1               2                         3   commits

The last frame of a transaction says so in its header. A file that ends there is what a process has
left behind that was killed right after this commit; one that ends between two of them is what is
left of a commit that was never made.
"""

import shutil
import sqlite3
import struct
from contextlib import closing
from pathlib import Path

from flo.log.sqlite.checks import begin_mark
from flo.shard.snapshotter import LOG_FILE

WAL_FILE = f"{LOG_FILE}-wal"
HEADER_LENGTH = 32
FRAME_HEADER_LENGTH = 24

_header = struct.Struct(">IIII8s8s")
_frame = struct.Struct(">II8s8s")


def commits_in(folder: Path) -> list[int]:
    """Where each commit ends; the first place is where none has begun."""
    path = folder / WAL_FILE
    wal = path.read_bytes() if path.exists() else b""
    if len(wal) < HEADER_LENGTH:
        return [0]
    _, _, page_size, _, salt, _ = _header.unpack_from(wal)
    ends = [HEADER_LENGTH]
    length = FRAME_HEADER_LENGTH + page_size
    for place in range(HEADER_LENGTH, len(wal) - length + 1, length):
        _, pages_after_commit, frame_salt, _ = _frame.unpack_from(wal, place)
        if frame_salt != salt:
            break  # left over from an earlier life of the file
        if pages_after_commit:
            ends.append(place + length)
    return ends


def keep(source: Path, target: Path) -> None:
    """A copy of the log as it is, made before anybody opens it: closing it would change it."""
    target.mkdir()
    for name in (LOG_FILE, WAL_FILE):
        shutil.copyfile(source / name, target / name)
    _write_mark(target)


def cut(source: Path, target: Path, length: int) -> None:
    """A copy of the log that ends after so many bytes."""
    keep(source, target)
    with (target / WAL_FILE).open("rb+") as wal:
        wal.truncate(length)
    _write_mark(target)


def _write_mark(folder: Path) -> None:
    """The high-water mark as a process has left it that was killed here."""
    uri = f"{(folder / LOG_FILE).absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True)) as connection:
        mark, _ = begin_mark(connection, folder / LOG_FILE)
    mark.close()
    (folder / f"{LOG_FILE}-shm").unlink(missing_ok=True)
