"""The records of streams as they are stored and read, and positions among them."""

from enum import StrEnum
from typing import NamedTuple

from flo.model.base import Record
from flo.model.ids import StreamId, stream_id_of


class StreamRecord(Record):
    """One record as it is stored and read."""

    sequence: int
    at_ms: int
    payload: bytes
    headers: dict[str, str] | None = None
    key: str | None = None
    """The partition key."""
    partition: int = 0

    @property
    def stream_id(self) -> StreamId:
        return stream_id_of(self.at_ms, self.sequence)

    @property
    def length(self) -> int:
        """How many bytes it counts for in a stream."""
        length = len(self.payload) + len(self.key or "")
        for name, value in (self.headers or {}).items():
            length += len(name) + len(value)
        return length


class Chunk(Record):
    """Records of one stream that were appended together, on their way to the store or from it."""

    stream: int
    first: int
    offset: int
    """How many bytes of the stream came before it."""
    records: tuple[StreamRecord, ...]

    @property
    def end(self) -> int:
        """The sequence after its last."""
        return self.first + len(self.records)


class PositionBy(StrEnum):
    """What a place in a stream is looked for by; all of them grow along it."""

    SEQUENCE = "sequence"
    TIME = "time"
    OFFSET = "offset"


class StreamPosition(NamedTuple):
    """A place in a stream: the first record there and its time, and the bytes that come before it.

    At the end of the stream there is no record, and the time is 0.
    """

    sequence: int
    offset: int
    at_ms: int
