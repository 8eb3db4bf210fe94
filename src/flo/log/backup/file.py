"""One backup in one file: the blocks that no earlier backup holds, and the list of all blocks.

    B   a block of a file of the data folder, compressed
    M   the manifest, at the end: every file, and for each of its blocks where it is and its SHA-256

A block is in this file or in that of an earlier backup in the same folder, so a backup of little
that is new is small. Each can be restored by itself together with the files that it names.
"""

import zlib
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from flo.log.chunk_file import ChunkWriter, FileKind, read_chunks
from flo.model.errors import Corrupt, NotFound

BACKUP_FILE = FileKind(b"FloBack\n", 1)
BLOCK_BYTES = 16 * 1024
COMPRESSION = 1
"""A backup waits for the disk, not for the processor."""
DAMAGED = "backup_damaged"

_HEADER_POSITION = 0
"""A backup goes by any name, so its position is in the manifest."""
_BLOCK, _MANIFEST = b"B", b"M"
_encode = msgspec.msgpack.Encoder().encode


class BlockPlace(NamedTuple):
    """Where a block is: the number of the file, its number in it; and what it must be."""

    file: int
    number: int
    digest: bytes


class BackedUpFile(NamedTuple):
    """A file of the data folder: its name in it, its length, its blocks."""

    name: str
    length: int
    blocks: list[BlockPlace]


class Manifest(NamedTuple):
    """What a backup is of."""

    store_id: bytes
    position: int
    digest: bytes
    """The SHA-256 that the log is chained to at its position."""
    fingerprint: str
    """Of the state at the position."""
    taken_at_ms: int
    holders: list[str]
    """The names of the files that blocks are in: this one, nameless, and earlier backups."""
    files: list[BackedUpFile]

    @property
    def length(self) -> int:
        """How many bytes the data folder has."""
        return sum(file.length for file in self.files)


_decode_manifest = msgspec.msgpack.Decoder(Manifest).decode


class BlockUse(NamedTuple):
    """A block of a file of the data folder."""

    name: str
    offset: int
    digest: bytes

    def __str__(self) -> str:
        return f"{self.name} from byte {self.offset} on"


class BackupWriter:
    """Takes one file after the other; blocks that an earlier backup holds are only named."""

    def __init__(self, path: Path, known: Mapping[bytes, tuple[str, int]]) -> None:
        self._path = path
        self._file = ChunkWriter(path, BACKUP_FILE, _HEADER_POSITION)
        self._known = dict(known)
        self._holders = [""]
        self._files: list[BackedUpFile] = []
        self._count = 0
        self.bytes_new = 0

    def add(self, name: str, content: BinaryIO) -> None:
        """All of a file, from where it stands to its end."""
        blocks, length = [], 0
        while block := content.read(BLOCK_BYTES):
            blocks.append(self._place(block))
            length += len(block)
        self._files.append(BackedUpFile(name, length, blocks))

    def finish(
        self, *, store_id: bytes, position: int, digest: bytes, fingerprint: str, taken_at_ms: int
    ) -> Manifest:
        """Make it durable under its name."""
        manifest = Manifest(
            store_id, position, digest, fingerprint, taken_at_ms, self._holders, self._files
        )
        self._file.add(_MANIFEST + zlib.compress(_encode(manifest), COMPRESSION))
        self._file.finish(self._path)
        return manifest

    def abandon(self) -> None:
        self._file.abandon()

    def _place(self, block: bytes) -> BlockPlace:
        digest = sha256(block).digest()
        known = self._known.get(digest)
        if known is None:
            known = self._known[digest] = "", self._count
            self._file.add(_BLOCK + zlib.compress(block, COMPRESSION))
            self._count += 1
            self.bytes_new += len(block)
        holder, index = known
        if holder not in self._holders:
            self._holders.append(holder)
        return BlockPlace(self._holders.index(holder), index, digest)


def read_manifest(path: Path) -> Manifest:
    """What a backup is of; all of its file is read, and damage is Corrupt and named."""
    last = b""
    for chunk in _chunks(path):
        last = chunk
    return _manifest_in(path, last)


def known_blocks(path: Path, manifest: Manifest) -> dict[bytes, tuple[str, int]]:
    """Where the blocks of a backup are, for one that is made after it in the same folder."""
    return {
        block.digest: (manifest.holders[block.file] or path.name, block.number)
        for file in manifest.files
        for block in file.blocks
    }


def blocks_of(path: Path, manifest: Manifest) -> Iterator[tuple[list[BlockUse], bytes]]:
    """Every block once, with the places where it belongs; each is checked before it is given."""
    for number, holder in enumerate(manifest.holders):
        uses = _uses(manifest, number)
        where = path.with_name(holder) if holder else path
        try:
            yield from _used_blocks(where, uses)
        except FileNotFoundError:
            raise NotFound(
                f"{path} needs {where}, which is not there: it holds only what was new since then; "
                "put that file back, or restore an earlier backup",
                code="backup_incomplete",
            ) from None
        if uses:
            first = min(uses)
            raise Corrupt(
                f"{where} is damaged: it ends before block {first}, which is {uses[first][0]}",
                code=DAMAGED,
            )


def _used_blocks(
    path: Path, uses: dict[int, list[BlockUse]]
) -> Iterator[tuple[list[BlockUse], bytes]]:
    for index, chunk in enumerate(_chunks(path)):
        here = uses.pop(index, None)
        if here is None:
            continue
        block = _unpacked(path, chunk, _BLOCK)
        if sha256(block).digest() != here[0].digest:
            raise Corrupt(
                f"{path}: block {index}, which is {here[0]}, is not the one that was backed up: "
                f"expected SHA-256 {here[0].digest.hex()}",
                code=DAMAGED,
            )
        yield here, block


def _uses(manifest: Manifest, number: int) -> dict[int, list[BlockUse]]:
    uses: dict[int, list[BlockUse]] = {}
    for file in manifest.files:
        for place, block in enumerate(file.blocks):
            if block.file == number:
                use = BlockUse(file.name, place * BLOCK_BYTES, block.digest)
                uses.setdefault(block.number, []).append(use)
    return uses


def _chunks(path: Path) -> Iterator[bytes]:
    try:
        yield from read_chunks(path, BACKUP_FILE, _HEADER_POSITION)
    except Corrupt as damage:
        raise Corrupt(damage.message, code=DAMAGED) from damage


def _manifest_in(path: Path, chunk: bytes) -> Manifest:
    try:
        return _decode_manifest(_unpacked(path, chunk, _MANIFEST))
    except msgspec.DecodeError as error:
        raise Corrupt(f"{path}: its manifest: {error}", code=DAMAGED) from error


def _unpacked(path: Path, chunk: bytes, kind: bytes) -> bytes:
    if chunk[:1] != kind:
        raise Corrupt(f"{path}: expected a chunk {kind!r}, got {chunk[:1]!r}", code=DAMAGED)
    try:
        return zlib.decompress(chunk[1:])
    except zlib.error as error:
        raise Corrupt(f"{path} cannot be read: {error}", code=DAMAGED) from error
