"""The closed part of a log in compressed files, each with the snapshot that it begins with.

    segment-FIRST-END-TIME     the entries from position FIRST to END, the last of them of TIME

A segment is a file of chunks. The first byte of a chunk says what it holds, the rest is compressed:

    S   a chunk of the snapshot at FIRST; none at 0, where the state is empty
    L   what the first entry is chained to
    E   some entries, and what the entry after them is chained to
    T   END and TIME again: a file under the name of another is noticed

Segments begin where a snapshot was taken, and follow each other without a gap for as long as they
are kept. One that begins where another does, and reaches further, takes its place.
"""

import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from flo.log.base import StoredEntry
from flo.log.checksums import Link, link_after
from flo.log.chunk_file import PARTIAL, ChunkWriter, FileKind, read_chunks
from flo.log.folder import make_folder
from flo.model.errors import Corrupt

SEGMENT_FILE = FileKind(b"FloSegm\n", 1)
BLOCK_BYTES = 64 * 1024
COMPRESSION = 3
"""Level 6 takes three times as long for a tenth less."""

_PREFIX = "segment-"
_LINK, _SNAPSHOT, _ENTRIES, _TRAILER = b"L", b"S", b"E", b"T"
_encode = msgspec.msgpack.Encoder().encode
_decode_link = msgspec.msgpack.Decoder(Link).decode
_decode_end = msgspec.msgpack.Decoder(tuple[int, int]).decode


class Segment(NamedTuple):
    """A file with the entries from `first` up to `end`."""

    first: int
    end: int
    last_at_ms: int
    path: Path


class EntryBlock(NamedTuple):
    """Some entries that follow each other: number of events, time and bytes of each."""

    entries: list[tuple[int, int, bytes]]
    link: Link


_decode_block = msgspec.msgpack.Decoder(EntryBlock).decode


class SegmentFolder:
    """Writes segments, finds the one that holds a position, and lets go of the oldest."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def begin(self, first: int, snapshot: Iterable[bytes]) -> "SegmentWriter":
        """A segment that begins with this snapshot; nothing counts before it is finished."""
        make_folder(self._path)
        for partial in self._path.glob(f"*{PARTIAL}"):
            partial.unlink()  # what was cut off left it
        return SegmentWriter(self._path, first, snapshot)

    def segments(self) -> list[Segment]:
        """All of them, the oldest first; of those that begin together, the longest."""
        by_first: dict[int, Segment] = {}
        for segment in sorted(self._all()):
            by_first[segment.first] = segment
        return list(by_first.values())

    def end(self) -> int:
        """How far they reach; 0 if there is none."""
        return max((segment.end for segment in self._all()), default=0)

    def holding(self, position: int) -> Segment | None:
        """The segment with the entry that holds this position: of two, the one that begins later,
        as there is less to read before it."""
        fitting = [one for one in self.segments() if one.first <= position < one.end]
        return fitting[-1] if fitting else None

    def retire(self, *, before_ms: int, bytes_max: int) -> int:
        """Remove those that end before a time, and the oldest beyond so many bytes in all; return
        how many are gone. So are those that another one has taken the place of."""
        kept = self.segments()
        doomed = [one for one in self._all() if one not in kept]
        doomed += [one for one in kept if one.last_at_ms < before_ms]
        size = 0
        for segment in reversed(kept):
            size += segment.path.stat().st_size
            if size > bytes_max and segment not in doomed:
                doomed.append(segment)
        for segment in doomed:
            segment.path.unlink()
        return len(doomed)

    def _all(self) -> list[Segment]:
        found = (_named(path) for path in self._path.glob(f"{_PREFIX}*"))
        return [segment for segment in found if segment is not None]


class SegmentWriter:
    """Takes one entry after the other."""

    def __init__(self, folder: Path, first: int, snapshot: Iterable[bytes]) -> None:
        self._folder = folder
        self._first = self._end = first
        self._last_at_ms = 0
        self._link: Link | None = None
        self._entries: list[tuple[int, int, bytes]] = []
        self._length = 0
        self._file = ChunkWriter(folder / f"{_PREFIX}{first:020}", SEGMENT_FILE, first)
        for chunk in snapshot:
            self._file.add(_packed(_SNAPSHOT, chunk))

    def add(self, entry: StoredEntry) -> None:
        assert entry.first == self._end, (entry.first, self._end)
        if self._link is None:
            self._file.add(_packed(_LINK, _encode(entry.previous)))
        self._entries.append((entry.event_count, entry.at_ms, entry.body))
        self._length += len(entry.body)
        self._end, self._last_at_ms, self._link = entry.end, entry.at_ms, entry.link
        if self._length >= BLOCK_BYTES:
            self._flush()

    def finish(self) -> Segment | None:
        """Make it durable under its name; without an entry there is no segment."""
        if self._link is None:
            self._file.abandon()
            return None
        self._flush()
        self._file.add(_packed(_TRAILER, _encode((self._end, self._last_at_ms))))
        name = f"{_PREFIX}{self._first:020}-{self._end:020}-{self._last_at_ms:014}"
        self._file.finish(self._folder / name)
        return Segment(self._first, self._end, self._last_at_ms, self._folder / name)

    def abandon(self) -> None:
        self._file.abandon()

    def _flush(self) -> None:
        if self._entries:
            assert self._link is not None
            block = _encode((self._entries, self._link))
            self._file.add(_packed(_ENTRIES, block))
            self._entries, self._length = [], 0


def snapshot_of(segment: Segment) -> Iterator[bytes]:
    """The chunks of the snapshot that a segment begins with."""
    for kind, data in _parts(segment):
        if kind == _SNAPSHOT:
            yield _unpacked(segment, data)
        elif kind == _ENTRIES:
            return


def entries_of(segment: Segment) -> Iterator[StoredEntry]:
    """The entries of a segment, each block checked against the chain before it is given out."""
    first, link, end = segment.first, None, None
    for kind, data in _parts(segment):
        if kind == _LINK:
            link = _decoded(segment, data, _decode_link)
        elif kind == _ENTRIES and link is not None:
            block = _decoded(segment, data, _decode_block)
            entries = list(_chained(block, first, link))
            if not entries or entries[-1].link != block.link:
                raise Corrupt(
                    f"{segment.path}: the entries from index {first} on are not those that were "
                    f"written: expected SHA-256 {block.link.digest.hex()} at their end"
                )
            first, link = entries[-1].end, block.link
            yield from entries
        elif kind == _TRAILER:
            end = _decoded(segment, data, _decode_end)
    if end != (segment.end, segment.last_at_ms) or first != segment.end:
        raise Corrupt(
            f"{segment.path}: expected entries up to index {segment.end}, got up to {first}"
        )


def _chained(block: EntryBlock, first: int, link: Link) -> Iterator[StoredEntry]:
    for count, at_ms, body in block.entries:
        previous, link = link, link_after(link, first, count, at_ms, body)
        yield StoredEntry(first, count, at_ms, body, previous, link)
        first += count


def _parts(segment: Segment) -> Iterator[tuple[bytes, bytes]]:
    for chunk in read_chunks(segment.path, SEGMENT_FILE, segment.first):
        yield chunk[:1], chunk[1:]


def _packed(kind: bytes, data: bytes) -> bytes:
    return kind + zlib.compress(data, COMPRESSION)


def _unpacked(segment: Segment, data: bytes) -> bytes:
    try:
        return zlib.decompress(data)
    except zlib.error as error:
        raise Corrupt(f"{segment.path} cannot be read: {error}") from error


def _decoded(segment: Segment, data: bytes, decode: Any) -> Any:
    try:
        return decode(_unpacked(segment, data))
    except msgspec.DecodeError as error:
        raise Corrupt(f"{segment.path} cannot be read: {error}") from error


def _named(path: Path) -> Segment | None:
    """The segment under this name; None if it is not the name of one."""
    parts = path.name.removeprefix(_PREFIX).split("-")
    if len(parts) != 3 or not all(part.isdigit() for part in parts):
        return None
    first, end, last_at_ms = map(int, parts)
    return Segment(first, end, last_at_ms, path)
