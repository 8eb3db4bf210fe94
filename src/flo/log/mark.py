"""The high-water mark of a log: how far it has come, kept in a file outside of its database.

    slot     magic 8 · format 4 · store 16 · commits 8 · position 8 · checksum 4 · digest 32 · CRC 4

It is written after every commit and before that is acknowledged, and synced about once a second.
So it is never ahead of the database; after a loss of power it may be a second behind.

Of the three slots, one is being written, one is being synced, and one was synced before: whenever
the power fails, one of them is whole. The whole slot with the most commits counts.
"""

import os
import struct
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import NamedTuple, Protocol, TypeAlias
from zlib import crc32

from flo.log.checksums import Link
from flo.log.folder import FILE_MODE, sync_folder
from flo.model.errors import Corrupt

SLOTS = 3
SLOT_LENGTH = 4096

_MAGIC = b"FloMark\n"
_FORMAT = 1
BODY = struct.Struct("<8sI16sQQI32s")
_word = struct.Struct("<I")


class HighWaterMark(NamedTuple):
    """Which store it is, how often it has committed, where its log ends and with what."""

    store_id: bytes
    commits: int
    position: int
    link: Link


class SyncedFile(Protocol):
    """A file that is written in place."""

    def write(self, data: bytes, offset: int) -> None: ...

    def sync(self) -> None: ...

    def sync_name(self) -> None:
        """Make its name durable."""

    def close(self) -> None: ...


OpenSynced: TypeAlias = Callable[[Path], SyncedFile]


class SystemFile:
    """The file at a path, which is made if it is not there."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)

    def write(self, data: bytes, offset: int) -> None:
        os.pwrite(self._descriptor, data, offset)

    def sync(self) -> None:
        os.fdatasync(self._descriptor)

    def sync_name(self) -> None:
        sync_folder(self._path.parent)

    def close(self) -> None:
        os.close(self._descriptor)


class MarkFile:
    """Writes the mark of one log. One thread writes, one syncs."""

    def __init__(self, path: Path, open_synced: OpenSynced = SystemFile) -> None:
        self._found = path.read_bytes() if path.exists() else b""
        self._file = open_synced(path)
        commits = [mark.commits if mark else -1 for mark in _slots(self._found)]
        self._slot = commits.index(min(commits))  # the one that is needed least
        self._is_dirty = False
        self._last: HighWaterMark | None = None
        self._turn = Lock()
        """Held while a slot is written, or left for the next one."""

    def begin(self, mark: HighWaterMark) -> None:
        """Have it in every slot, durably, and the name of the file too."""
        if self._found == _slot(mark) * SLOTS:
            return
        self._write_all(mark)
        self._file.sync_name()

    def write(self, mark: HighWaterMark) -> None:
        with self._turn:
            self._file.write(_packed(mark), self._slot * SLOT_LENGTH)
            self._is_dirty, self._last = True, mark

    def sync(self) -> None:
        """Make durable what has been written, while the next slot is written to."""
        with self._turn:
            if not self._is_dirty:
                return
            self._slot = (self._slot + 1) % SLOTS
            self._is_dirty = False
        self._file.sync()

    def close(self) -> None:
        """Leave the last mark in every slot, so that any one of them may be damaged."""
        try:
            if self._last is not None:
                self._write_all(self._last)
        finally:
            self._file.close()

    def _write_all(self, mark: HighWaterMark) -> None:
        """First one slot, then the others: a loss of power must never find all half-written."""
        self._file.write(_slot(mark), self._slot * SLOT_LENGTH)
        self._file.sync()
        for slot in range(SLOTS):
            if slot != self._slot:
                self._file.write(_slot(mark), slot * SLOT_LENGTH)
        self._file.sync()


def read_mark(path: Path) -> HighWaterMark | None:
    """The mark; None without a file. A file without a whole slot is Corrupt."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    whole = [mark for mark in _slots(content) if mark is not None]
    if not whole:
        raise Corrupt(f"{path} is damaged: none of its {SLOTS} slots is whole", code="mark_damaged")
    return max(whole, key=lambda mark: mark.commits)


def _packed(mark: HighWaterMark) -> bytes:
    store_id, commits, position, (checksum, digest) = mark
    body = BODY.pack(_MAGIC, _FORMAT, store_id, commits, position, checksum, digest)
    return body + _word.pack(crc32(body))


def _slots(content: bytes) -> list[HighWaterMark | None]:
    return [_unpacked(content[slot * SLOT_LENGTH :]) for slot in range(SLOTS)]


def _slot(mark: HighWaterMark) -> bytes:
    return _packed(mark).ljust(SLOT_LENGTH, b"\0")


def _unpacked(slot: bytes) -> HighWaterMark | None:
    body, checksum = slot[: BODY.size], slot[BODY.size : BODY.size + _word.size]
    if len(checksum) < _word.size or _word.unpack(checksum) != (crc32(body),):
        return None
    magic, version, store_id, commits, position, *link = BODY.unpack(body)
    if (magic, version) != (_MAGIC, _FORMAT):
        return None
    return HighWaterMark(store_id, commits, position, Link(*link))
