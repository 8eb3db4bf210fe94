"""The records of one commit, joined into chunks: what is appended together is stored together."""

from flo.model.storage.records import Chunk, StreamRecord

CHUNK_RECORDS_MAX = 1_000
CHUNK_LENGTH_MAX = 1024 * 1024


class _Growing:
    """A chunk that may still get longer."""

    def __init__(self, chunk: Chunk) -> None:
        self.stream = chunk.stream
        self.first = chunk.first
        self.offset = chunk.offset
        self.records: list[StreamRecord] = []
        self.length = 0
        self.extend(chunk)

    def extend(self, chunk: Chunk) -> None:
        self.records += chunk.records
        self.length += sum(record.length for record in chunk.records)

    @property
    def is_full(self) -> bool:
        return len(self.records) >= CHUNK_RECORDS_MAX or self.length >= CHUNK_LENGTH_MAX


class Chunks:
    def __init__(self) -> None:
        self._chunks: list[_Growing] = []
        self._last: dict[int, _Growing] = {}

    def add(self, chunk: Chunk) -> None:
        last = self._last.get(chunk.stream)
        if last is not None and not last.is_full:
            last.extend(chunk)
        else:
            self._last[chunk.stream] = growing = _Growing(chunk)
            self._chunks.append(growing)

    def take(self) -> list[Chunk]:
        """All of them, each as long as it has become."""
        return [
            Chunk(
                stream=one.stream,
                first=one.first,
                offset=one.offset,
                records=tuple(one.records),
            )
            for one in self._chunks
        ]
