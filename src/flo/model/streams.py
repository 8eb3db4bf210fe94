"""Streams and their records: commands, queries, replies.

    orders     1700000000000-1   1700000000000-2   1700000000417-3   …
               ╰── time ───╯ ╰ sequence

A stream id is the time of a record and its sequence in the stream, which begins at 1 and never
skips one. Ids always grow, even when the clock goes back.
"""

from enum import StrEnum
from typing import NamedTuple

import msgspec

from flo.model.base import Message, Nothing, Record
from flo.model.ids import (
    LIST_LIMIT_DEFAULT,
    NAMESPACE_DEFAULT,
    Namespace,
    StreamId,
    StreamName,
    stream_id_of,
)
from flo.model.operation import Command, Permission, Query, operation

PARTITIONS_MAX = 1_024
RECORDS_PER_APPEND_MAX = 1_000
RECORDS_PER_READ_MAX = 1_000
RECORDS_PER_READ_DEFAULT = 100
HEADERS_MAX = 64
HEADERS_LENGTH_MAX = 16_384
START = "0-0"
"""Before every record."""
TAIL = "$"
"""After the newest record."""


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


class NewRecord(Message):
    """What is to be appended. Without a partition, its key chooses one; without either, chance."""

    payload: bytes
    headers: dict[str, str] | None = None
    key: str | None = None
    partition: int | None = None


class Retention(Record):
    """What a stream keeps; None keeps everything."""

    max_age_ms: int | None = None
    max_length: int | None = None
    max_bytes: int | None = None


KEEP_ALL = Retention()


class Appended(Message):
    """The ids of the first and the last record of an append."""

    stream_id: StreamId
    last_id: StreamId
    count: int


class RecordPage(Message):
    """Records in their order; `last` is the id to go on after."""

    items: list[StreamRecord] = msgspec.field(default_factory=list)
    last: StreamId = START


class Trimmed(Message):
    """How many records a trim let go of, or would; and the first that is left."""

    removed: int
    first_id: StreamId | None


class StreamView(Message):
    name: StreamName
    namespace: Namespace
    created_at_ms: int
    partitions: int
    retention: Retention
    count: int
    bytes: int
    first_id: StreamId | None
    last_id: StreamId | None
    groups: list[str]


class StreamPage(Message):
    items: list[StreamView]
    cursor: str | None = None


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


@operation(opcode=60, permission=Permission.STREAMS_MANAGE, repeatable=False)
class CreateStream(Command[Nothing]):
    """Make a stream; the first append to one makes it too, with the defaults."""

    stream: StreamName
    namespace: Namespace = NAMESPACE_DEFAULT
    partitions: int = 1
    retention: Retention = KEEP_ALL


@operation(opcode=61, permission=Permission.STREAMS_MANAGE)
class AlterStream(Command[Nothing]):
    """Change what a stream keeps."""

    stream: StreamName
    retention: Retention
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(opcode=62, permission=Permission.STREAMS_MANAGE, repeatable=False)
class DeleteStream(Command[Nothing]):
    """Delete a stream, its records and its groups."""

    stream: StreamName
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(opcode=63, batch_opcode=64, permission=Permission.STREAMS_WRITE, repeatable=False)
class Append(Command[Appended]):
    stream: StreamName
    records: list[NewRecord]
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(opcode=66, permission=Permission.STREAMS_MANAGE, repeatable=lambda trim: trim.dry_run)
class TrimStream(Command[Trimmed]):
    """Let go of the oldest records: all that any of these bounds leaves out.

    With none of them, what the stream's retention leaves out.
    """

    stream: StreamName
    namespace: Namespace = NAMESPACE_DEFAULT
    before: StreamId | None = None
    max_length: int | None = None
    max_age_ms: int | None = None
    max_bytes: int | None = None
    dry_run: bool = False


@operation(opcode=65, permission=Permission.STREAMS_READ)
class ReadStream(Query[RecordPage]):
    """Records after an id, up to and with another one; wait up to `block_ms` for the first.

    `after` may be "0-0" (the start) or "$" (the end: only what comes from now on). `last` begins
    with so many of the newest records, whatever `after` says.
    """

    stream: StreamName
    namespace: Namespace = NAMESPACE_DEFAULT
    after: str = START
    until: StreamId | None = None
    last: int = 0
    limit: int = RECORDS_PER_READ_DEFAULT
    block_ms: int = 0
    partition: int | None = None
    key: str | None = None
    """Only the partition that this key chooses."""


@operation(opcode=67, permission=Permission.STREAMS_READ)
class GetStream(Query[StreamView]):
    stream: StreamName
    namespace: Namespace = NAMESPACE_DEFAULT


@operation(opcode=68, permission=Permission.STREAMS_READ)
class ListStreams(Query[StreamPage]):
    namespace: Namespace = NAMESPACE_DEFAULT
    prefix: str = ""
    limit: int = LIST_LIMIT_DEFAULT
    cursor: str | None = None
