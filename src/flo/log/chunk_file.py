"""A file of chunks that says itself whether it is whole.

    header     magic 8 · format 4 · position 8 · checksum 4
    chunk      length 4 · checksum 4 · bytes                    as many as there are
    closing    CLOSING 4 · checksum 4 · number of chunks 8      a file without it was cut off

Every checksum continues the one before it, so chunks cannot change places or go missing. A file is
written under another name, synced and renamed: under its own name it is there as a whole or not
at all.
"""

import os
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple
from zlib import crc32

from flo.log.folder import make_private, sync_folder
from flo.model.errors import Conflict, Corrupt

PARTIAL = ".partial"
CLOSING = 0xFFFF_FFFF

_header = struct.Struct("<8sIQ")
_word = struct.Struct("<I")
_count = struct.Struct("<Q")


class FileKind(NamedTuple):
    """What a kind of file begins with."""

    magic: bytes
    format: int


class ChunkWriter:
    """Writes one file, chunk by chunk, under a name that counts for nothing.

    The name is this process's own: another that writes the same file does not come between.
    """

    def __init__(self, path: Path, kind: FileKind, position: int) -> None:
        self._partial = path.with_suffix(f".{os.getpid()}{PARTIAL}")
        make_private(self._partial)
        self._file = self._partial.open("wb")
        self._chunk_count = 0
        header = _header.pack(*kind, position)
        self._checksum = crc32(header)
        self._file.write(header + _word.pack(self._checksum))

    def add(self, chunk: bytes) -> None:
        self._write(len(chunk), chunk)
        self._chunk_count += 1

    def finish(self, path: Path) -> None:
        """Make it durable under its own name."""
        self._write(CLOSING, _count.pack(self._chunk_count))
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._partial.replace(path)
        sync_folder(path.parent)

    def abandon(self) -> None:
        """Leave nothing behind: a full disk is not left fuller."""
        self._file.close()
        self._partial.unlink(missing_ok=True)

    def _write(self, length: int, chunk: bytes) -> None:
        self._checksum = _chained(self._checksum, length, chunk)
        self._file.write(_word.pack(length) + _word.pack(self._checksum))
        self._file.write(chunk)


def write_chunks(path: Path, kind: FileKind, position: int, chunks: Iterable[bytes]) -> None:
    """Make a file durable; until it is, nothing has changed."""
    writer = ChunkWriter(path, kind, position)
    try:
        for chunk in chunks:
            writer.add(chunk)
        writer.finish(path)
    except BaseException:
        writer.abandon()
        raise


def read_chunks(path: Path, kind: FileKind, position: int) -> Iterator[bytes]:
    """The chunks of a file, each of them checked; what is wrong is Corrupt, and named."""
    with path.open("rb") as file:
        yield from _Reader(file, path, kind).chunks(position)


def _chained(previous: int, length: int, chunk: bytes) -> int:
    return crc32(chunk, crc32(_word.pack(length), previous))


class _Reader:
    """Reads one file and says what is wrong with it, and where."""

    def __init__(self, file: BinaryIO, path: Path, kind: FileKind) -> None:
        self._file = file
        self._path = path
        self._kind = kind
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
        if magic != self._kind.magic:
            raise self._damage(f"expected magic {self._kind.magic!r}, got {magic!r}")
        if checksum != crc32(header):
            raise self._damage(f"expected checksum {checksum}, got {crc32(header)}")
        if version > self._kind.format:
            raise Conflict(
                f"{self._path} has format {version}, this Flo knows formats up to "
                f"{self._kind.format}; start the newer Flo that wrote it, or remove the file to "
                f"do without it",
                code="format_too_new",
            )
        if version < 1:
            raise self._damage(f"expected a format from 1 on, got {version}")
        if position_found != position:
            raise self._damage(f"expected position {position}, got {position_found}")
        return checksum

    def _read_chunk(self, length: int, previous: int) -> tuple[bytes, int]:
        expected = self._read_word()
        chunk = self._read(_count.size if length == CLOSING else length)
        checksum = _chained(previous, length, chunk)
        if checksum != expected:
            raise self._damage(f"expected checksum {expected}, got {checksum}")
        return chunk, checksum

    def _read_word(self) -> int:
        (value,) = _word.unpack(self._read(_word.size))
        return int(value)

    def _read(self, length: int) -> bytes:
        if length > self._size - self._file.tell():
            raise self._damage("it is cut off, or a length in it is wrong")
        return self._file.read(length)

    def _damage(self, what: str) -> Corrupt:
        return Corrupt(f"{self._path} is damaged before byte {self._file.tell()}: {what}")
