"""Records of streams that are in memory: those appended last, and those fetched last.

    tails     what was appended, until newer records push it out
    pages     what was fetched from the store, until other pages push it out

A reader that keeps up is served from the tails; ten groups that read the same old records fetch
them once.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from flo.engine.context import RecordReader
from flo.model.storage.records import Chunk, StreamRecord

TAILS_LENGTH_MAX = 32 * 1024 * 1024
PAGES_LENGTH_MAX = 16 * 1024 * 1024

RECORD_OVERHEAD = 300
"""About what a record takes in memory beside its bytes."""

Fetched: TypeAlias = Mapping[tuple[int, int], StreamRecord]
NOTHING_FETCHED: Fetched = {}


class RecordStore:
    """Chunks in the order in which they came; the oldest go first."""

    def __init__(self, length_max: int) -> None:
        self._length_max = length_max
        self._records: dict[int, dict[int, StreamRecord]] = {}
        self._chunks: deque[tuple[Chunk, int]] = deque()
        self._length = 0

    def record(self, stream: int, sequence: int) -> StreamRecord | None:
        records = self._records.get(stream)
        return records.get(sequence) if records is not None else None

    def add(self, chunk: Chunk) -> None:
        records = self._records.setdefault(chunk.stream, {})
        length = 0
        for record in chunk.records:
            records[record.sequence] = record
            length += record.length + RECORD_OVERHEAD
        self._chunks.append((chunk, length))
        self._length += length
        while self._length > self._length_max and len(self._chunks) > 1:
            self._drop(*self._chunks.popleft())

    def _drop(self, chunk: Chunk, length: int) -> None:
        self._length -= length
        records = self._records.get(chunk.stream)
        if records is None:  # it stood here twice, and went with the first
            return
        for record in chunk.records:
            if records.get(record.sequence) is record:  # it may have come again since
                del records[record.sequence]
        if not records:
            del self._records[chunk.stream]


class RecordCache:
    """Both of them."""

    def __init__(self) -> None:
        self._tails = RecordStore(TAILS_LENGTH_MAX)
        self._pages = RecordStore(PAGES_LENGTH_MAX)

    def record(self, stream: int, sequence: int) -> StreamRecord | None:
        return self._tails.record(stream, sequence) or self._pages.record(stream, sequence)

    def appended(self, chunk: Chunk) -> None:
        self._tails.add(chunk)

    def fetched(self, chunks: Sequence[Chunk]) -> None:
        for chunk in chunks:
            self._pages.add(chunk)


class Within:
    """What is in memory, and what was fetched for one submission, which it keeps."""

    def __init__(self, tails: RecordReader, fetched: Fetched) -> None:
        self._tails = tails
        self._fetched = fetched

    def record(self, stream: int, sequence: int) -> StreamRecord | None:
        return self._fetched.get((stream, sequence)) or self._tails.record(stream, sequence)
