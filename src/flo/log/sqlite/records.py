"""The records of streams in the SQLite file of a log, read in a thread of its own.

row        the stream and the first sequence in one number, so that a stream lies together
count      how many records
at_ms      their time: what is appended together has one
offset     how many bytes of the stream came before
checksum   of all of this
body       the records
"""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar
from zlib import crc32

import msgspec

from flo.log.jobs import JobThread
from flo.log.sqlite.file import Connect, SqliteConnection, damage_named, open_to_read
from flo.model.errors import Corrupt
from flo.model.storage.envelope import refused
from flo.model.storage.records import Chunk, PositionBy, StreamPosition, StreamRecord

Statement: TypeAlias = tuple[str, Sequence[Any]]
_Found = TypeVar("_Found")

SEQUENCE_BITS = 40
STREAMS_MAX = 1 << (63 - SEQUENCE_BITS)

_INSERT = (
    "INSERT INTO records (row, count, at_ms, offset, checksum, body) VALUES (?, ?, ?, ?, ?, ?)"
)
_COLUMNS = "row, count, at_ms, offset, checksum, body"
_place = struct.Struct("<qqqq")
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[StreamRecord, ...]).decode


class SqliteRecords:
    """Read over a connection that writes nothing."""

    def __init__(self, path: Path, connect: Connect) -> None:
        self._path = path
        self._connection = open_to_read(path, connect)
        self._reader = JobThread(f"the records of {path}")

    async def read(self, stream: int, sequence: int, count: int, length_max: int) -> list[Chunk]:
        return await self._reader.do(self._at_once, self._read, stream, sequence, count, length_max)

    async def place(self, stream: int, by: PositionBy, least: int) -> StreamPosition | None:
        return await self._reader.do(self._at_once, self._find_place, stream, by, least)

    async def streams(self) -> dict[int, int]:
        return await self._reader.do(self._at_once, self._streams)

    async def close(self) -> None:
        await self._reader.stop()
        self._connection.close()

    def _at_once(self, look: Callable[..., _Found], *about: Any) -> _Found:
        """Look at one state of the file, whatever is trimmed meanwhile."""
        with damage_named(self._path):
            self._connection.execute("BEGIN")
        try:
            return look(*about)
        finally:
            with damage_named(self._path):
                self._connection.execute("COMMIT")

    def _read(self, stream: int, sequence: int, count: int, length_max: int) -> list[Chunk]:
        holder = self._row_before(stream, sequence)
        if holder is None:
            return []
        chunks: list[Chunk] = []
        length = 0
        with damage_named(self._path):
            cursor = self._connection.execute(
                f"SELECT {_COLUMNS} FROM records WHERE row >= ? AND row < ? ORDER BY row",
                (holder, row_of(stream, sequence + count)),
            )
            for row in cursor:
                chunk = checked_chunk(self._path, row)
                if chunks and chunk.first != chunks[-1].end:
                    raise Corrupt(
                        f"{self._path}: expected record {chunks[-1].end} of stream {stream}, "
                        f"the next is {chunk.first}"
                    )
                chunks.append(chunk)
                length += len(row[-1])
                if length >= length_max:
                    break
            cursor.close()
        return chunks if chunks and chunks[0].end > sequence else []

    def _find_place(self, stream: int, by: PositionBy, least: int) -> StreamPosition | None:
        """By halving: along a stream, sequences, times and offsets never go back."""
        last = self._row_before(stream, (1 << SEQUENCE_BITS) - 1)
        first = self._row_after(stream)
        if last is None or first is None:
            return None
        below, above = first, last  # the first chunk that ends past `least` is one of these
        while below < above:
            middle = self._row_at_or_before((below + above) // 2)
            chunk = self._chunk(middle)
            if _end(chunk, by) > least:
                above = middle
            else:
                below = row_of(stream, chunk.end)
        chunk = self._chunk(self._row_at_or_before(above))
        offset = chunk.offset
        for record in chunk.records:
            if _at(record, offset, by) >= least:
                return StreamPosition(record.sequence, offset, record.at_ms)
            offset += record.length
        return StreamPosition(chunk.end, offset, 0)

    def _streams(self) -> dict[int, int]:
        found: dict[int, int] = {}
        row = self._row_after(0)
        while row is not None:
            stream, found_first = split_row(row)
            found[stream] = found_first
            row = self._first_row(row_of(stream + 1, 0))
        return found

    def _chunk(self, row: int) -> Chunk:
        with damage_named(self._path):
            found = self._connection.execute(
                f"SELECT {_COLUMNS} FROM records WHERE row = ?", (row,)
            ).fetchone()
        return checked_chunk(self._path, found)

    def _row_before(self, stream: int, sequence: int) -> int | None:
        """The row of this stream that begins at this sequence or last before it."""
        with damage_named(self._path):
            (row,) = self._connection.execute(
                "SELECT max(row) FROM records WHERE row >= ? AND row <= ?",
                (row_of(stream, 0), row_of(stream, sequence)),
            ).fetchone()
        return row  # type: ignore[no-any-return]

    def _row_at_or_before(self, row: int) -> int:
        with damage_named(self._path):
            (found,) = self._connection.execute(
                "SELECT max(row) FROM records WHERE row <= ?", (row,)
            ).fetchone()
        return int(found)

    def _row_after(self, stream: int) -> int | None:
        """The first row of this stream; of any, if it is 0."""
        row = self._first_row(row_of(stream, 0))
        return row if row is None or not stream or split_row(row)[0] == stream else None

    def _first_row(self, least: int) -> int | None:
        with damage_named(self._path):
            (row,) = self._connection.execute(
                "SELECT min(row) FROM records WHERE row >= ?", (least,)
            ).fetchone()
        return row  # type: ignore[no-any-return]


def row_of(stream: int, sequence: int) -> int:
    return stream << SEQUENCE_BITS | sequence


def split_row(row: int) -> tuple[int, int]:
    return row >> SEQUENCE_BITS, row & (1 << SEQUENCE_BITS) - 1


def checked_chunk(path: Path, row: tuple[Any, ...]) -> Chunk:
    """The records with these columns; what is not as it was written is Corrupt."""
    place, count, at_ms, offset, checksum, body = row
    stream, first = split_row(place)
    where = f"{path}: the records from {first} on of stream {stream}"
    if [int, int, int, int, bytes] != [type(value) for value in row[1:]]:
        raise Corrupt(f"{where} are damaged: their values are not of the types written")
    if checksum != (actual := _checksum(place, count, at_ms, offset, body)):
        raise Corrupt(f"{where} are damaged: expected checksum {checksum}, got {actual}")
    try:
        records = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise refused(body) or Corrupt(f"{where} cannot be read: {error}") from error
    if len(records) != count:
        raise Corrupt(f"{where}: expected {count} of them, got {len(records)}")
    return Chunk(stream=stream, first=first, offset=offset, records=records)


def read_records(connection: SqliteConnection, path: Path) -> Iterator[Chunk]:
    """The records of all streams, each checked."""
    with damage_named(path):
        for row in connection.execute(f"SELECT {_COLUMNS} FROM records ORDER BY row"):
            yield checked_chunk(path, row)


def inserts_of(chunks: Sequence[Chunk]) -> Iterator[Statement]:
    """What writes these chunks."""
    for chunk in chunks:
        body = _encode(chunk.records)
        row, count, at_ms = row_of(chunk.stream, chunk.first), len(chunk.records), _time_of(chunk)
        checksum = _checksum(row, count, at_ms, chunk.offset, body)
        yield _INSERT, (row, count, at_ms, chunk.offset, checksum, body)


def trim_records(connection: SqliteConnection, below: Mapping[int, int], rows_max: int) -> int:
    """Delete chunks that end at or before these sequences, some at a time; count their records."""
    removed = 0
    for stream, first in below.items():
        base = row_of(stream, 0)
        count, last = connection.execute(
            "SELECT total(count), max(row) FROM (SELECT row, count FROM records"
            " WHERE row >= ? AND row < ? ORDER BY row LIMIT ?) WHERE row + count <= ?",
            (base, row_of(stream, first), rows_max, row_of(stream, first)),
        ).fetchone()
        if last is not None:
            connection.execute("DELETE FROM records WHERE row >= ? AND row <= ?", (base, last))
            removed += int(count)
    return removed


def _checksum(row: int, count: int, at_ms: int, offset: int, body: bytes) -> int:
    return crc32(body, crc32(_place.pack(row, count, at_ms, offset)))


def _time_of(chunk: Chunk) -> int:
    return chunk.records[-1].at_ms


def _at(record: StreamRecord, offset: int, by: PositionBy) -> int:
    match by:
        case PositionBy.SEQUENCE:
            return record.sequence
        case PositionBy.TIME:
            return record.at_ms
        case PositionBy.OFFSET:
            return offset


def _end(chunk: Chunk, by: PositionBy) -> int:
    """More than any record of the chunk reaches."""
    match by:
        case PositionBy.SEQUENCE:
            return chunk.end
        case PositionBy.TIME:
            return _time_of(chunk) + 1
        case PositionBy.OFFSET:
            return chunk.offset + sum(record.length for record in chunk.records[:-1]) + 1
