"""Where snapshots are kept; the newest whole one wins.

    header     magic 8 · format 4 · position 8 · checksum 4
    chunk      length 4 · checksum 4 · bytes                    as many as there are
    closing    CLOSING 4 · checksum 4 · number of chunks 8      a file without it was cut off

Every checksum continues the one before it, so chunks cannot change places or go missing.
"""

import os
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple
from zlib import crc32

from flo.log.folder import sync_folder
from flo.model.errors import Conflict, Corrupt

FORMAT_VERSION = 1
SNAPSHOTS_MAX = 2
MAGIC = b"FloSnap\n"
CLOSING = 0xFFFF_FFFF

_PREFIX = "snapshot-"
_PARTIAL = ".partial"
_header = struct.Struct("<8sIQ")
_word = struct.Struct("<I")
_count = struct.Struct("<Q")


class Snapshot(NamedTuple):
    """The state as it was before the event at `position`."""

    position: int
    chunks: Iterator[bytes]


class SnapshotFolder:
    """Saves snapshots under their positions and keeps the newest few."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def save(self, position: int, chunks: Iterable[bytes]) -> None:
        """Make a snapshot durable; until it is, the older ones are untouched."""
        self._make_folder()
        partial = self._path_of(position).with_suffix(_PARTIAL)
        try:
            _write(partial, _pieces(position, chunks))
            partial.replace(self._path_of(position))
        except BaseException:
            partial.unlink(missing_ok=True)  # a full disk is not left fuller
            raise
        sync_folder(self._path)
        self._forget_old()

    def newest(self) -> tuple[Snapshot | None, list[str]]:
        """The newest whole snapshot, and what is wrong with those that are newer."""
        problems = []
        for position in reversed(self.positions()):
            try:
                for _ in self._chunks(position):
                    pass
            except (Corrupt, OSError) as error:
                problems.append(str(error))
            else:
                return Snapshot(position, self._chunks(position)), problems
        return None, problems

    def positions(self) -> list[int]:
        """The positions of all snapshots, whole or not, the newest last."""
        names = (path.name.removeprefix(_PREFIX) for path in self._path.glob(f"{_PREFIX}*"))
        return sorted(int(name) for name in names if name.isdigit())

    def _path_of(self, position: int) -> Path:
        return self._path / f"{_PREFIX}{position:020}"

    def _chunks(self, position: int) -> Iterator[bytes]:
        path = self._path_of(position)
        with path.open("rb") as file:
            yield from _Reader(file, path).chunks(position)

    def _make_folder(self) -> None:
        if not self._path.exists():
            self._path.mkdir()
            sync_folder(self._path.parent)

    def _forget_old(self) -> None:
        for position in self.positions()[:-SNAPSHOTS_MAX]:
            self._path_of(position).unlink()
        for partial in self._path.glob(f"{_PREFIX}*{_PARTIAL}"):
            partial.unlink()


def _write(path: Path, pieces: Iterable[bytes]) -> None:
    with path.open("wb") as file:
        for piece in pieces:
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())


def _pieces(position: int, chunks: Iterable[bytes]) -> Iterator[bytes]:
    header = _header.pack(MAGIC, FORMAT_VERSION, position)
    checksum = crc32(header)
    yield header + _word.pack(checksum)
    count = 0
    for chunk in chunks:
        checksum = _checksum(checksum, len(chunk), chunk)
        yield _word.pack(len(chunk)) + _word.pack(checksum)
        yield chunk
        count += 1
    closing = _count.pack(count)
    yield _word.pack(CLOSING) + _word.pack(_checksum(checksum, CLOSING, closing)) + closing


def _checksum(previous: int, length: int, chunk: bytes) -> int:
    return crc32(chunk, crc32(_word.pack(length), previous))


class _Reader:
    """Reads one file and says what is wrong with it, and where."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file = file
        self._path = path
        self._size = os.fstat(file.fileno()).st_size

    def chunks(self, position: int) -> Iterator[bytes]:
        checksum = self._read_header(position)
        count = 0
        while (length := self._read_word()) != CLOSING:
            chunk, checksum = self._read_chunk(length, checksum)
            count += 1
            yield chunk
        closing, _ = self._read_chunk(CLOSING, checksum)
        if _count.unpack(closing) != (count,):
            raise self._damage(f"expected {_count.unpack(closing)[0]} chunks, got {count}")
        if self._file.tell() != self._size:
            raise self._damage(f"{self._size - self._file.tell()} bytes follow its end")

    def _read_header(self, position: int) -> int:
        header = self._read(_header.size)
        checksum = self._read_word()
        magic, version, position_found = _header.unpack(header)
        if magic != MAGIC:
            raise self._damage(f"expected magic {MAGIC!r}, got {magic!r}")
        if checksum != crc32(header):
            raise self._damage(f"expected checksum {checksum}, got {crc32(header)}")
        if version > FORMAT_VERSION:
            raise Conflict(
                f"{self._path} has format {version}, this Flo knows formats up to "
                f"{FORMAT_VERSION}; start the newer Flo that wrote it, or remove the file to "
                f"start from an older snapshot and the log",
                code="format_too_new",
            )
        if position_found != position:
            raise self._damage(f"expected position {position}, got {position_found}")
        return checksum

    def _read_chunk(self, length: int, previous: int) -> tuple[bytes, int]:
        expected = self._read_word()
        chunk = self._read(_count.size if length == CLOSING else length)
        checksum = _checksum(previous, length, chunk)
        if checksum != expected:
            raise self._damage(f"expected checksum {expected}, got {checksum}")
        return chunk, checksum

    def _read_word(self) -> int:
        (message,) = _word.unpack(self._read(_word.size))
        return int(message)

    def _read(self, length: int) -> bytes:
        if length > self._size - self._file.tell():
            raise self._damage("it is cut off, or a length in it is wrong")
        return self._file.read(length)

    def _damage(self, what: str) -> Corrupt:
        return Corrupt(f"{self._path} is damaged before byte {self._file.tell()}: {what}")
