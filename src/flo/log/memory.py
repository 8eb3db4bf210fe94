"""The log in lists and dicts: for tests, for simulation, and for work that may be forgotten."""

import asyncio
import heapq
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, islice
from typing import TypeAlias

from sortedcontainers import SortedDict

from flo.log.base import LogEntry, LogTrimmed
from flo.model.base import Event
from flo.model.errors import Corrupt, NotFound, Unavailable
from flo.model.ids import Namespace
from flo.model.storage.archive import ArchiveAddress, Archived, ArchiveKey, address_of
from flo.model.storage.payloads import LargePayload
from flo.model.storage.records import Chunk, PositionBy, StreamPosition

IndexKey: TypeAlias = tuple[str, str, Namespace, str]
"""What is listed, the kind, the namespace, and the name or "" for all."""


class MemoryLog:
    """Keeps what it is given, as it is given, for as long as the process lives."""

    def __init__(self) -> None:
        self.archive = MemoryArchive()
        self.records = MemoryRecords()
        self.payloads = MemoryPayloads()
        self._entries: list[LogEntry] = []
        self._start = 0
        self._position = 0
        self._closed = False

    @property
    def position(self) -> int:
        return self._position

    @property
    def start(self) -> int:
        return self._start

    @property
    def last_at_ms(self) -> int:
        return self._entries[-1].at_ms if self._entries else 0

    def append(
        self,
        events: Sequence[Event],
        archived: Sequence[Archived],
        at_ms: int,
        *,
        removed: Sequence[ArchiveAddress] = (),
        chunks: Sequence[Chunk] = (),
        payloads: Sequence[LargePayload] = (),
        payloads_removed: Sequence[ArchiveAddress] = (),
        here: bool = False,
    ) -> asyncio.Future[int]:
        assert events
        self._check_open()
        self._entries.append(LogEntry(self._position, at_ms, list(events)))
        self._position += len(events)
        self.archive.remove(removed)
        self.archive.add(archived)
        self.records.add(chunks)
        self.payloads.add(payloads)
        self.payloads.remove(payloads_removed)
        written: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        written.set_result(self._position)
        return written

    def read(self, position: int) -> Iterator[LogEntry]:
        if position < self._start:
            raise NotFound(f"index {position} has been trimmed; the log begins at {self._start}")
        if position > self._position:
            raise Corrupt(f"expected a log that reaches {position}, it ends at {self._position}")
        holder = bisect_right(self._entries, position, key=lambda entry: entry.first) - 1
        yield from self._entries[max(holder, 0) :] if position < self._position else ()

    async def position_at(self, at_ms: int) -> int:
        entries = self._entries
        index = bisect_left(entries, at_ms, key=lambda entry: entry.at_ms)
        return entries[index].first if index < len(entries) else self._position

    async def trim(
        self,
        *,
        events_below: int = 0,
        archived_before_ms: int = 0,
        archived_max: int | None = None,
        records_below: Mapping[int, int] | None = None,
        rows_max: int = 1_000,
    ) -> LogTrimmed:
        self._check_open()
        archived = self.archive.trim(archived_before_ms, archived_max, rows_max)
        self.payloads.remove(archived)
        return LogTrimmed(
            events=self._trim_events(events_below, rows_max),
            archived=len(archived),
            records=self.records.trim(records_below or {}, rows_max),
        )

    async def close(self) -> None:
        self._closed = True

    def _trim_events(self, below: int, rows_max: int) -> int:
        start_before, count = self._start, 0
        for entry in self._entries[:rows_max]:
            end = entry.first + len(entry.events)
            if end > below:
                break
            self._start, count = end, count + 1
        del self._entries[:count]
        return self._start - start_before

    def _check_open(self) -> None:
        if self._closed:
            raise Unavailable("the log has been closed", code="log_closed")


class MemoryArchive:
    """Finished runs in the order in which they finished, with the indexes that lists need."""

    def __init__(self) -> None:
        self._rows: OrderedDict[ArchiveAddress, Archived] = OrderedDict()
        self._indexes: dict[IndexKey, SortedDict[int, ArchiveAddress]] = {}
        self._keys: dict[tuple[str, ArchiveKey], int] = {}

    async def find(
        self, kind: str, namespace: Namespace, name: str, number: int
    ) -> Archived | None:
        return self._rows.get(ArchiveAddress(kind, namespace, name, number))

    async def find_keys(self, kind: str, keys: Sequence[ArchiveKey]) -> dict[ArchiveKey, int]:
        return {key: self._keys[kind, key] for key in keys if (kind, key) in self._keys}

    async def page(
        self,
        kind: str,
        namespace: Namespace,
        name: str,
        *,
        below: int | None,
        limit: int,
        status: str | None = None,
        is_dead: bool = False,
    ) -> list[Archived]:
        listed = "dead" if is_dead else "name" if status is None else f"status {status}"
        rows = self._below((listed, kind, namespace, name), below)
        return list(islice((row for row in rows if status in (None, row.status)), limit))

    async def newest(
        self,
        kind: str,
        namespace: Namespace,
        *,
        below: int | None,
        limit: int,
        statuses: Sequence[str] = (),
        tags: Sequence[str] = (),
    ) -> list[Archived]:
        listed = [f"status {one}" for one in statuses] + [f"tag {one}" for one in tags]
        rows = [self._below((one, kind, namespace, ""), below) for one in listed]
        merged = heapq.merge(*rows, key=lambda row: row.sequence, reverse=True)
        unlike = (next(same) for _, same in groupby(merged, key=lambda row: row.sequence))
        return list(islice(unlike, limit))

    async def count(self) -> int:
        return len(self._rows)

    def remove(self, addresses: Sequence[ArchiveAddress]) -> None:
        for address in addresses:
            if address in self._rows:
                self._forget(address)

    def add(self, archived: Sequence[Archived]) -> None:
        for row in archived:
            address = address_of(row)
            if address in self._rows:
                self._forget(address)
            self._rows[address] = row
            for key, position in _index_entries(row):
                index = self._indexes.get(key)
                if index is None:
                    index = self._indexes[key] = SortedDict()
                index[position] = address
            if row.key is not None:
                self._keys[row.kind, (row.namespace, row.name, row.key)] = row.number

    def trim(
        self, before_ms: int, rows_kept_max: int | None, rows_max: int
    ) -> list[ArchiveAddress]:
        excess = 0 if rows_kept_max is None else len(self._rows) - rows_kept_max
        oldest = list(islice(self._rows.items(), rows_max))
        doomed = [
            address
            for place, (address, row) in enumerate(oldest)
            if place < excess or row.finished_at_ms < before_ms
        ]
        for address in doomed:
            self._forget(address)
        return doomed

    def _below(self, key: IndexKey, below: int | None) -> Iterator[Archived]:
        """What an index has under a number, the highest first."""
        index = self._indexes.get(key)
        if index is None:
            return
        for position in index.irange(maximum=below, inclusive=(True, False), reverse=True):
            yield self._rows[index[position]]

    def _forget(self, address: ArchiveAddress) -> None:
        row = self._rows.pop(address)
        for key, position in _index_entries(row):
            index = self._indexes[key]
            del index[position]
            if not index:
                del self._indexes[key]
        if row.key is not None:
            key_of_row = (row.kind, (row.namespace, row.name, row.key))
            if self._keys.get(key_of_row) == row.number:
                del self._keys[key_of_row]


def _index_entries(row: Archived) -> Iterator[tuple[IndexKey, int]]:
    """Where a row is found by lists: under a number, or among all names under a sequence."""
    yield ("name", row.kind, row.namespace, row.name), row.number
    if row.dead:
        yield ("dead", row.kind, row.namespace, row.name), row.number
    if row.sequence:
        yield (f"status {row.status}", row.kind, row.namespace, row.name), row.number
        yield (f"status {row.status}", row.kind, row.namespace, ""), row.sequence
        for tag in row.tags:
            yield (f"tag {tag}", row.kind, row.namespace, ""), row.sequence


class MemoryRecords:
    """The chunks of each stream in their order."""

    def __init__(self) -> None:
        self._chunks: dict[int, list[Chunk]] = {}

    async def read(self, stream: int, sequence: int, count: int, length_max: int) -> list[Chunk]:
        found: list[Chunk] = []
        length = 0
        for chunk in islice(self._chunks.get(stream, ()), self._holder(stream, sequence), None):
            if chunk.first >= sequence + count or length >= length_max:
                break
            found.append(chunk)
            length += sum(record.length for record in chunk.records)
        return found if found and found[0].first <= sequence < found[0].end else []

    async def place(self, stream: int, by: PositionBy, least: int) -> StreamPosition | None:
        place = None
        for chunk in self._chunks.get(stream, ()):
            offset = chunk.offset
            for record in chunk.records:
                at = {
                    PositionBy.SEQUENCE: record.sequence,
                    PositionBy.TIME: record.at_ms,
                    PositionBy.OFFSET: offset,
                }[by]
                if at >= least:
                    return StreamPosition(record.sequence, offset, record.at_ms)
                offset += record.length
            place = StreamPosition(chunk.end, offset, 0)
        return place

    async def streams(self) -> dict[int, int]:
        return {stream: chunks[0].first for stream, chunks in self._chunks.items()}

    def add(self, chunks: Sequence[Chunk]) -> None:
        for chunk in chunks:
            self._chunks.setdefault(chunk.stream, []).append(chunk)

    def trim(self, below: Mapping[int, int], rows_max: int) -> int:
        removed = 0
        for stream, first in below.items():
            chunks = self._chunks.get(stream, [])
            count = min(bisect_right(chunks, first, key=lambda chunk: chunk.end), rows_max)
            removed += sum(len(chunk.records) for chunk in chunks[:count])
            del chunks[:count]
            if not chunks:
                self._chunks.pop(stream, None)
        return removed

    def _holder(self, stream: int, sequence: int) -> int:
        chunks = self._chunks.get(stream, [])
        return max(0, bisect_right(chunks, sequence, key=lambda chunk: chunk.first) - 1)


class MemoryPayloads:
    """Large payloads by the addresses of their runs."""

    def __init__(self) -> None:
        self.bodies: dict[ArchiveAddress, bytes] = {}

    async def find(self, address: ArchiveAddress) -> bytes | None:
        return self.bodies.get(address)

    async def count(self) -> int:
        return len(self.bodies)

    def add(self, payloads: Sequence[LargePayload]) -> None:
        for address, body in payloads:
            assert address not in self.bodies
            self.bodies[address] = body

    def remove(self, addresses: Sequence[ArchiveAddress]) -> None:
        for address in addresses:
            self.bodies.pop(address, None)
